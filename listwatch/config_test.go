package listwatch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestConfigErrorsSayWhat(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		says   string
	}{
		{"no REST", func(c *Config) { c.REST = nil }, "REST is nil"},
		{"no resource", func(c *Config) { c.Resource = schema.GroupVersionResource{} }, "Resource has no resource name"},
		{"no version", func(c *Config) { c.Resource.Version = "" }, `Resource "pods" has no version`},
		{"resource with a slash", func(c *Config) { c.Resource.Resource = "pods/log" }, `Resource.Resource "pods/log" cannot be a part of a URL path`},
		{"namespace with dots", func(c *Config) { c.Namespace = ".." }, `Namespace ".." cannot be a part of a URL path`},
		{"label selector of nothing", func(c *Config) { c.LabelSelector = labels.Nothing() }, "LabelSelector selects nothing"},
		{"field selector of nothing", func(c *Config) { c.FieldSelector = fields.Nothing() }, "FieldSelector selects nothing"},
		{"encoding", func(c *Config) { c.Encoding = 9 }, "Encoding 9 is none of"},
		{"compression", func(c *Config) { c.Compression = 9 }, "Compression 9 is none of"},
		{"protocol", func(c *Config) { c.Protocol = 9 }, "Protocol 9 is none of"},
		{"dial timeout", func(c *Config) { c.DialTimeout = -1 }, "DialTimeout -1ns is negative"},
		{"TLS timeout", func(c *Config) { c.TLSHandshakeTimeout = -1 }, "TLSHandshakeTimeout -1ns is negative"},
		{"header timeout", func(c *Config) { c.HeaderTimeout = -1 }, "HeaderTimeout -1ns is negative"},
		{"request timeout", func(c *Config) { c.RequestTimeout = -1 }, "RequestTimeout -1ns is negative"},
		{"negative item size", func(c *Config) { c.MaxItemBytes = -1 }, "MaxItemBytes -1 is not between"},
		{"huge item size", func(c *Config) { c.MaxItemBytes = 2 << 30 }, "MaxItemBytes 2147483648 is not between"},
		{"user info", func(c *Config) { c.REST.Host = "https://user:planted@host" }, "REST.Host: has user info"},
		{"user info and no URL", func(c *Config) { c.REST.Host = "https://user:plan ted@ho st" }, "REST.Host: has user info"},
		{"not a URL", func(c *Config) { c.REST.Host = "http://[::1" }, "REST.Host: is neither a URL nor host:port"},
		{"a path alone", func(c *Config) { c.REST.Host = "host/path" }, "REST.Host: is neither a URL nor host:port"},
		{"a scheme", func(c *Config) { c.REST.Host = "ftp://host" }, "REST.Host: has a scheme other than http and https"},
		{"a query", func(c *Config) { c.REST.Host = "https://host?token=planted" }, "REST.Host: has a query"},
		{"a port alone", func(c *Config) { c.REST.Host = "http://:80" }, "REST.Host: names no host"},
		{"token and password", func(c *Config) { c.REST.BearerToken, c.REST.Username, c.REST.Password = "planted", "u", "planted" }, "not both"},
		{"token file that is not there", func(c *Config) { c.REST.BearerTokenFile = "testdata/absent" }, "testdata/absent"},
		{"CA file that is not there", func(c *Config) { c.REST.CAFile = "testdata/absent" }, "testdata/absent"},
		{"CA file without a certificate", func(c *Config) { c.REST.CAFile = "config_test.go" }, "config_test.go: unable to load root certificates"},
		{"CA that is none", func(c *Config) { c.REST.CAData = []byte("planted") }, "unable to load root certificates"},
		{"transport and TLS", func(c *Config) { c.REST.Transport, c.REST.Insecure = http.DefaultTransport, true }, "Transport is set together with TLS options"},
		{"exec and auth provider", func(c *Config) {
			c.REST.ExecProvider, c.REST.AuthProvider = &clientcmdapi.ExecConfig{}, &clientcmdapi.AuthProviderConfig{}
		}, "cannot be used in combination"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := Config{REST: &rest.Config{Host: "https://host"}, Resource: pods}
			c.change(&conf)
			_, err := New[*corev1.Pod](conf)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "listwatch.Config") {
				t.Errorf("error is %v, want it to say %q", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "plan") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	_, err := New[*unstructured.Unstructured](Config{REST: &rest.Config{}, Resource: pods, Encoding: EncodingProtobuf})
	if err == nil || !strings.Contains(err.Error(), "the type has no protobuf form") {
		t.Errorf("error is %v", err)
	}
	if _, err := New[int](Config{REST: &rest.Config{}, Resource: pods}); err == nil {
		t.Error("a ListerWatcher of int")
	}
	_, err = New[*corev1.Pod](Config{Encoding: 9, Protocol: 9})
	for _, part := range []string{"REST", "Resource", "Encoding", "Protocol"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not tell all: %s", err, part)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	c := Config{REST: &rest.Config{}}.withDefaults()
	if c.DialTimeout != 10*time.Second || c.TLSHandshakeTimeout != 10*time.Second || c.HeaderTimeout != 30*time.Second ||
		c.RequestTimeout != time.Minute || c.MaxItemBytes != 32<<20 || c.Logger == nil {
		t.Errorf("defaults are %+v", c)
	}
}

// "It is copied, never changed."
func TestRESTConfigIsNotChanged(t *testing.T) {
	cfg := &rest.Config{Host: "https://host", BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{NextProtos: []string{"x"}}}
	before := rest.CopyConfig(cfg)
	if _, err := New[*corev1.Pod](Config{REST: cfg, Resource: pods}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, cfg) {
		t.Errorf("config is now %v", cfg)
	}
}

func TestKindOfBuiltInTypes(t *testing.T) {
	if k := newFor[*corev1.Pod](t, "http://h", nil).Kind(); k != "Pod" {
		t.Errorf("kind of a pod is %q", k)
	}
	if k := newFor[*metav1.PartialObjectMetadata](t, "http://h", nil).Kind(); k != "PartialObjectMetadata" {
		t.Errorf("kind of metadata is %q", k)
	}
	if k := newFor[*unstructured.Unstructured](t, "http://h", nil).Kind(); k != "" {
		t.Errorf("kind of an unstructured is %q", k)
	}
	lw := newFor[*unstructured.Unstructured](t, "http://h", func(c *Config) { c.Kind = "Gadget" })
	if lw.Kind() != "Gadget" || lw.Resource() != pods {
		t.Errorf("kind %q, resource %v", lw.Kind(), lw.Resource())
	}
}

// The parts of rest.Config that change a request: each is used.
func TestRESTConfigIsUsed(t *testing.T) {
	server := note(t, answerWith(200, mediaJSON, emptyList))
	proxied := false
	_, _, err := list[*corev1.Pod](t, "http://api.example", metav1.ListOptions{}, func(c *Config) {
		c.REST.UserAgent = "agent/1"
		c.REST.Username, c.REST.Password = "user", "word"
		c.REST.Impersonate = rest.ImpersonationConfig{UserName: "other", Groups: []string{"g"}}
		c.REST.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
		c.REST.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				proxied = true
				return rt.RoundTrip(r)
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	r := server.seen()[0]
	user, word, _ := r.BasicAuth()
	if r.UserAgent() != "agent/1" || user != "user" || word != "word" || r.Header.Get("Impersonate-User") != "other" ||
		r.Header.Get("Impersonate-Group") != "g" || r.Host != "api.example" || !proxied {
		t.Errorf("request to %s has %v, wrapped: %t", r.Host, r.Header, proxied)
	}
	server = note(t, answerWith(200, mediaJSON, emptyList))
	if _, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if agent := server.seen()[0].UserAgent(); agent != rest.DefaultKubernetesUserAgent() {
		t.Errorf("user agent is %q", agent)
	}
}

func TestCustomTransport(t *testing.T) {
	down := errors.New("down")
	lw := newFor[*corev1.Pod](t, "https://api.example", func(c *Config) {
		c.REST.BearerToken = "t"
		c.REST.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") != "Bearer t" {
				t.Errorf("no token: %v", r.Header)
			}
			return nil, down
		})
	})
	if _, err := lw.Watch(t.Context(), metav1.ListOptions{}); !errors.Is(err, down) {
		t.Errorf("error is %v", err)
	}
}
