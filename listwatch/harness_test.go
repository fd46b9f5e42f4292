package listwatch

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// recorder is a Sink that decodes and keeps all, and notes the order of calls.
type recorder[T any] struct {
	calls  []string
	meta   []metav1.ListMeta
	heads  []decode.Meta
	items  []T
	errs   []error
	onMeta func(metav1.ListMeta) error
	onItem func(*decode.Object[T]) error
}

func (r *recorder[T]) Meta(m metav1.ListMeta) error {
	r.calls = append(r.calls, "meta")
	r.meta = append(r.meta, m)
	if r.onMeta != nil {
		return r.onMeta(m)
	}
	return nil
}

func (r *recorder[T]) Item(o *decode.Object[T]) error {
	meta := o.Meta.Clone()
	r.calls = append(r.calls, meta.Name)
	r.heads = append(r.heads, meta)
	obj, err := o.Decode()
	r.items = append(r.items, obj)
	r.errs = append(r.errs, err)
	if r.onItem != nil {
		return r.onItem(o)
	}
	return nil
}

// newFor returns a ListerWatcher of pods on a server.
func newFor[T any](t testing.TB, host string, change func(*Config)) *ListerWatcher[T] {
	t.Helper()
	c := Config{REST: &rest.Config{Host: host}, Resource: pods}
	if change != nil {
		change(&c)
	}
	lw, err := New[T](c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(lw.Close)
	return lw
}

// serve starts a server that ends with the test.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// answerWith is a handler that always says the same.
func answerWith(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// rawServer accepts connections, reads a request from each and answers with
// bytes as they are. It notes the requests.
type rawServer struct {
	addr string

	mu       sync.Mutex
	requests []*http.Request
}

// serveRaw answers each request with what answer returns; the connection is
// closed afterwards, as the bytes may lack an end.
func serveRaw(t testing.TB, answer func(*http.Request) []byte) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{addr: "http://" + listener.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				s.mu.Lock()
				s.requests = append(s.requests, req)
				s.mu.Unlock()
				conn.Write(answer(req))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return s
}

func (s *rawServer) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// specimen returns a real API server's answer as it was on the wire, and its
// body without the chunks.
func specimen(t testing.TB, name string) (wire, body []byte) {
	t.Helper()
	for _, part := range []string{name + ".head", name + ".body"} {
		b, err := os.ReadFile(filepath.Join("testdata", "wire", part))
		if err != nil {
			t.Fatal(err)
		}
		wire = append(wire, b...)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return wire, body
}

// serveSpecimen serves one specimen byte for byte.
func serveSpecimen(t testing.TB, name string) *rawServer {
	wire, _ := specimen(t, name)
	return serveRaw(t, func(*http.Request) []byte { return wire })
}

// mustFail returns the *Error that err is, with the reason it should have.
func mustFail(t testing.TB, err error, want reason.Reason) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %T %v, want an *Error", err, err)
	}
	if e.Reason != want {
		t.Fatalf("reason is %s (%v), want %s", e.Reason, err, want)
	}
	return e
}

func list[T any](t testing.TB, host string, opts metav1.ListOptions, change func(*Config)) (*recorder[T], metav1.ListMeta, error) {
	t.Helper()
	sink := &recorder[T]{}
	meta, err := newFor[T](t, host, change).List(t.Context(), opts, sink)
	return sink, meta, err
}

func diff(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}
