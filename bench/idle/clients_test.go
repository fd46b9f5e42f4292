package idle

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// link is the way to the server.
type link string

const (
	http1     link = "tls-http1"
	http1Gzip link = "tls-http1-gzip" // answers are compressed, as far as the server does so: a watch-list is
	http2     link = "tls-http2"
)

// target is the server that a client watches.
type target struct {
	URL  string
	CA   []byte // PEM
	Link link
}

// opener opens the watch of one node's pods, in the background, and calls came for each pod that is
// there and gone for each that is no more.
type opener func(ctx context.Context, node string, came, gone func()) error

// clients are what is measured, by the name in the results.
var clients = []struct {
	name string
	make func(at target) (opener, error)
}{
	{"nodewatch", newNodewatch},
	{"client-go", newClientGo},
	{"net-http", newBare},
}

func (at target) config() *rest.Config {
	c := &rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}, DisableCompression: at.Link != http1Gzip}
	if at.Link != http2 {
		c.NextProtos = []string{"http/1.1"} // nodewatch has its own setting
	}
	return c
}

func newNodewatch(at target) (opener, error) {
	cfg := at.config()
	return func(ctx context.Context, node string, came, gone func()) error {
		r, err := nodefilter.NewPodReflector(nodefilter.Config{
			REST: cfg, Node: node,
			ListWatch: func(c *listwatch.Config) {
				if at.Link == http1Gzip {
					c.Compression = listwatch.CompressionOn
				}
				if at.Link == http2 {
					c.Protocol = listwatch.HTTP2
				}
			},
		})
		if err != nil {
			return err
		}
		go r.Run(ctx)
		go r.Handle(ctx, reflector.Handler[*corev1.Pod]{
			OnAdd:    func(reflector.Event[*corev1.Pod]) { came() },
			OnDelete: func(reflector.Event[*corev1.Pod]) { gone() },
		})
		return nil
	}, nil
}

func newClientGo(at target) (opener, error) {
	c := at.config()
	c.ContentType = runtime.ContentTypeProtobuf // as nodewatch asks for
	c.QPS = -1                                  // a thousand requests are not to wait for each other
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, node string, came, gone func()) error {
		informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = "spec.nodeName=" + node
		})
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { came() }, DeleteFunc: func(any) { gone() }})
		if err != nil {
			return err
		}
		go informer.RunWithContext(ctx)
		return nil
	}, nil
}

// newBare makes requests with net/http alone and looks at the beginnings of lines.
func newBare(at target) (opener, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(at.CA) {
		return nil, errors.New("no certificate of the server")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: at.Link == http2, DisableCompression: at.Link != http1Gzip}
	return func(ctx context.Context, node string, came, gone func()) error {
		query := url.Values{"watch": {"true"}, "fieldSelector": {"spec.nodeName=" + node}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL+"/api/v1/pods?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		go func() {
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				switch line := lines.Text(); {
				case strings.HasPrefix(line, `{"type":"ADDED"`):
					came()
				case strings.HasPrefix(line, `{"type":"DELETED"`):
					gone()
				}
			}
		}()
		return nil
	}, nil
}
