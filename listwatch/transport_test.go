package listwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// counted serves handler and counts the connections.
func counted(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(handler)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &conns
}

// Pages of a list, refusals and redirects all leave the connection usable.
func TestConnectionIsReused(t *testing.T) {
	n := 0
	server, conns := counted(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		switch n % 4 {
		case 0:
			answerWith(403, mediaJSON, `{"kind":"Status","message":"no"}`)(w, r)
		case 1:
			answerWith(200, mediaJSON, emptyList)(w, r)
		case 2:
			w.Header().Set("Content-Type", mediaProtobuf)
			io.WriteString(w, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x00")
		case 3:
			answerWith(503, "text/html", "<html>")(w, r)
		}
	})
	lw := newFor[*corev1.Pod](t, server.URL, nil)
	failed := 0
	for range 8 {
		if _, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{}); err != nil {
			failed++
		}
	}
	if failed != 4 || conns.Load() != 1 {
		t.Errorf("8 requests, %d of them refused, took %d connections", failed, conns.Load())
	}
	lw.Close()
	if _, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{}); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if conns.Load() != 2 {
		t.Errorf("Close left the idle connection open: %d connections", conns.Load())
	}
}

// A list that its sink ends does not leave its connection behind.
func TestListThatIsLeftFreesItsConnection(t *testing.T) {
	gone := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		io.WriteString(w, `{"kind":"PodList","items":[{"metadata":{"name":"a"}},`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	enough := errors.New("enough")
	sink := &recorder[*corev1.Pod]{onItem: func(*decode.Object[*corev1.Pod]) error { return enough }}
	if _, err := newFor[*corev1.Pod](t, server.URL, nil).List(t.Context(), metav1.ListOptions{}, sink); err != enough {
		t.Fatal(err)
	}
	<-gone
}

// weigher is a Sink that looks at the heap now and then.
type weigher struct {
	items int
	peak  uint64
}

func (w *weigher) Meta(metav1.ListMeta) error { return nil }
func (w *weigher) Item(*decode.Object[*corev1.Pod]) error {
	if w.items++; w.items%100 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.peak = max(w.peak, m.HeapAlloc)
	}
	return nil
}

// "Lists are decoded item by item from the socket; peak memory of a relist is
// the store plus one item per decoder." There is no store here.
func TestListIsNotHeld(t *testing.T) {
	const items, size = 1000, 32 << 10
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		io.WriteString(w, `{"kind":"PodList","items":[`)
		fill := strings.Repeat("x", size)
		for i := range items {
			fmt.Fprintf(w, `{"metadata":{"name":"p%d","annotations":{"fill":"%s"}}},`, i, fill)
		}
		io.WriteString(w, `{"metadata":{"name":"last"}}]}`)
	})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sink := &weigher{}
	if _, err := newFor[*corev1.Pod](t, server.URL, nil).List(t.Context(), metav1.ListOptions{}, sink); err != nil {
		t.Fatal(err)
	}
	if sink.items != items+1 || sink.peak == 0 {
		t.Fatalf("%d items", sink.items)
	}
	if grown := int64(sink.peak) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes while a list of %d came", grown, items*size)
	}
}

func TestExecPluginIsAsked(t *testing.T) {
	server := note(t, answerWith(200, mediaJSON, emptyList))
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) {
		c.REST.ExecProvider = &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1",
			Command:    "sh",
			Args: []string{"-c", `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"` +
				plantedToken + `"}}'`},
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := server.seen()[0].Header.Get("Authorization"); got != "Bearer "+plantedToken {
		t.Errorf("Authorization is %q", got)
	}
}

// N3: what an exec plugin does wrong is an error, within the time that is there
// for what comes before the header, and no request goes out without credentials.
func TestExecPluginFaults(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"fails", "echo no network >&2; exit 3", "credential plugin sh: getting credentials: exec: executable sh failed with exit code 3"},
		{"prints garbage", "echo hello", "credential plugin sh: getting credentials: decoding stdout"},
		{"prints nothing", "true", "API version"},
		{"prints another kind", `echo '{"kind":"Pod","apiVersion":"v1"}'`, "decoding stdout"},
		{"prints no credentials", `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}'`, "token"},
		{"is not there", "", "no-such-plugin"},
		{"hangs", "exec sleep 0.5", "timed out after 300ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := note(t, answerWith(200, mediaJSON, emptyList))
			_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) {
				exec := &clientcmdapi.ExecConfig{
					APIVersion: "client.authentication.k8s.io/v1", Command: "sh", Args: []string{"-c", tt.script},
					InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
				}
				if tt.script == "" {
					exec.Command = "no-such-plugin"
				}
				c.REST.ExecProvider = exec
				c.DialTimeout, c.TLSHandshakeTimeout, c.HeaderTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
				if tt.name != "hangs" {
					c.HeaderTimeout = 30 * time.Second
				}
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
			if n := len(server.seen()); n != 0 {
				t.Errorf("%d requests went out", n)
			}
		})
	}
}

// The caller's own Dial is bounded as ours is, and its error is kept.
func TestDialOfTheCaller(t *testing.T) {
	down := errors.New("cable is out")
	_, _, err := list[*corev1.Pod](t, "http://api.example", metav1.ListOptions{}, func(c *Config) {
		c.REST.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, down }
	})
	mustFail(t, err, reason.Transport)
	if !errors.Is(err, down) || err.Error() != "list pods: cable is out" {
		t.Errorf("error is %v", err)
	}
}

// closeNoted tells when a body is closed.
type closeNoted struct {
	io.Reader
	closed chan struct{}
}

func (c closeNoted) Close() error { close(c.closed); return nil }

// An answer that comes after the caller has gone is thrown away, not leaked.
func TestAnswerThatComesTooLateIsClosed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	late, closed := make(chan struct{}), make(chan struct{})
	lw := newFor[*corev1.Pod](t, "http://api.example", func(c *Config) {
		c.REST.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			cancel()
			<-late
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: closeNoted{strings.NewReader(emptyList), closed}}, nil
		})
	})
	_, err := lw.List(ctx, metav1.ListOptions{}, &recorder[*corev1.Pod]{})
	mustFail(t, err, reason.Stopped)
	close(late)
	<-closed
}

// "Both free the connection", and what the request's context holds.
func TestWatchBodyEndsItsAttempt(t *testing.T) {
	a, _ := newAttempt(t.Context(), limits{})
	closed := make(chan struct{})
	body := newWatchBody(t.Context(), &answer{&http.Response{Body: closeNoted{strings.NewReader(""), closed}}, a})
	body.Close()
	<-closed
	if a.ctx.Err() == nil {
		t.Error("the attempt goes on")
	}
}
