package listwatch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

func TestWatchOfARealServer(t *testing.T) {
	var folded []map[string]string
	for _, name := range []string{"watch-churn-json", "watch-churn-proto"} {
		lw := newFor[*corev1.Pod](t, serveSpecimen(t, name).addr, nil)
		stream, err := lw.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		state := map[string]string{}
		events := 0
		for {
			ev, err := stream.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			events++
			switch ev.Type {
			case watch.Added, watch.Modified:
				pod, err := ev.Object.Decode()
				if err != nil {
					t.Fatal(err)
				}
				state[pod.Name] = string(pod.Status.Phase)
			case watch.Deleted:
				delete(state, ev.Object.Meta.Name)
			}
		}
		if events < 5 {
			t.Errorf("%s: only %d events", name, events)
		}
		folded = append(folded, state)
		if lw.Transfer().WireBytes() == 0 || lw.Transfer().WireBytes() != lw.Transfer().DecodedBytes() {
			t.Errorf("%s: counted %d and %d bytes", name, lw.Transfer().WireBytes(), lw.Transfer().DecodedBytes())
		}
	}
	diff(t, "protobuf against JSON", folded[1], folded[0])
}

// "An answer that is no stream of events is an *Error, with the reason Decode where it is a 200."
func TestWatchRefusesWhatIsNoWatch(t *testing.T) {
	for _, c := range []struct {
		code        int
		contentType string
		body        string
		want        reason.Reason
		says        string
	}{
		{200, "text/html", "<html><title>Sign in</title></html>", reason.Decode, `200 OK: content type "text/html" is neither JSON nor protobuf: Sign in`},
		{200, "application/cbor-seq", "\xd9", reason.Decode, "application/cbor-seq"},
		{200, "application/json;as=Table;v=v1;g=meta.k8s.io", "", reason.Decode, "Table"},
		{204, "", "", reason.Decode, "204 No Content"},
		{403, mediaJSON, "{\n \"kind\": \"Status\",\n \"message\": \"pods is forbidden: User \\\"x\\\" cannot watch\"}", reason.Forbidden, `watch pods: 403 Forbidden: pods is forbidden: User "x" cannot watch`},
		{429, mediaJSON, `{"kind":"Status","message":"storage is (re)initializing","details":{"retryAfterSeconds":1}}`, reason.TooManyRequests, "storage is (re)initializing"},
		{500, "text/html", "<h1>Oops</h1>", reason.ServerError, "500 Internal Server Error: Oops"},
		{503, "text/plain", "", reason.ServerError, "watch pods: 503 Service Unavailable"},
		{410, mediaJSON, `{"kind":"Status","reason":"Expired","message":"too old resource version"}`, reason.Expired, "410 Gone: too old"},
	} {
		server := serve(t, answerWith(c.code, c.contentType, c.body))
		_, err := newFor[*corev1.Pod](t, server.URL, nil).Watch(t.Context(), metav1.ListOptions{})
		if e := mustFail(t, err, c.want); e.Code != c.code || e.Verb != "watch" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d %s: error is %q, %+v", c.code, c.contentType, err, e)
		}
	}
}

// silent answers a watch and then says nothing until the client goes.
func silent(started chan<- struct{}, ended chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		w.(http.Flusher).Flush()
		started <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}
}

// "The stream ends with ctx, and with StreamWatcher.Stop; both free the connection."
func TestWatchEnds(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	server := serve(t, silent(started, ended))
	for name, end := range map[string]func(*streamwatcher.StreamWatcher[*corev1.Pod], context.CancelFunc){
		"stop": func(s *streamwatcher.StreamWatcher[*corev1.Pod], _ context.CancelFunc) { s.Stop() },
		"ctx":  func(_ *streamwatcher.StreamWatcher[*corev1.Pod], cancel context.CancelFunc) { cancel() },
	} {
		lw := newFor[*corev1.Pod](t, server.URL, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := lw.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-started
		got := make(chan error)
		go func() {
			_, err := stream.Next()
			got <- err
		}()
		end(stream, cancel)
		if r, _ := reason.Of(<-got); r != reason.Stopped {
			t.Errorf("%s: reason is %s", name, r)
		}
		<-ended // the server sees that the connection is closed
		stream.Stop()
	}
}

// D12: "40 watches on a client with a small connection limit: refused at
// construction or working; never hanging"
func TestFortyWatchesAtOnce(t *testing.T) {
	const watches = 40
	for _, protocol := range []Protocol{HTTP1, HTTP2} {
		started, ended := make(chan struct{}, watches), make(chan struct{}, watches)
		ca := newAuthority(t, "ca")
		server, use := serveTLS(t, silent(started, ended), &tls.Config{})
		use(ca.issue(t, "server"))
		lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) { c.Protocol, c.REST.CAData = protocol, ca.pem })
		var all sync.WaitGroup
		streams := make(chan *streamwatcher.StreamWatcher[*corev1.Pod], watches)
		for range watches {
			all.Go(func() {
				stream, err := lw.Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				streams <- stream
			})
		}
		all.Wait()
		for range watches {
			<-started // all of them are open at the same time
		}
		for range watches {
			(<-streams).Stop()
		}
		for range watches {
			<-ended
		}
	}
}

func TestWatchStopsWithItsCause(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	server := serve(t, silent(started, ended))
	ctx, cancel := context.WithCancelCause(t.Context())
	stream, err := newFor[*corev1.Pod](t, server.URL, nil).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	why := errors.New("why")
	cancel(why)
	_, err = stream.Next()
	if !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	<-ended
}

func TestWatchWithoutAContentType(t *testing.T) {
	server := serveRaw(t, func(*http.Request) []byte {
		return []byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + `{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}` + "\n")
	})
	stream, err := newFor[*corev1.Pod](t, server.addr, nil).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	stream.SetIdleTimeout(time.Minute)
	if ev, err := stream.Next(); err != nil || ev.Object.Meta.ResourceVersion != "7" {
		t.Errorf("event %+v, error %v", ev, err)
	}
}
