package bench

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// server answers LIST with one body and WATCH with events that were encoded
// before, over HTTP/1.1 with chunks. It is no API server: it makes the cost of the
// server small and the same for every client.
type server struct {
	*httptest.Server
	load     *load
	watching chan struct{} // a watch is open
	release  chan int      // send so many events on it

	mu  sync.Mutex
	log []string
}

func newServer(t testing.TB, l *load) *server {
	t.Helper()
	s := &server{load: l, watching: make(chan struct{}), release: make(chan int)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.log = append(s.log, r.Method+" "+r.URL.String())
		s.mu.Unlock()
		query := r.URL.Query()
		switch {
		case !strings.Contains(r.Header.Get("Accept"), l.mediaType):
			http.Error(w, "the client does not accept "+l.mediaType, http.StatusNotAcceptable)
		case query.Get("sendInitialEvents") != "":
			refuseWatchList(w)
		case query.Get("watch") == "":
			w.Header().Set("Content-Type", l.mediaType)
			_, _ = w.Write(l.list) // a client that has gone is not an error of the benchmark
		default:
			w.Header().Set("Content-Type", l.watchType)
			s.watch(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// watch sends released events, each in a chunk of its own, and then leaves the watch open.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w).Flush
	if flush() != nil {
		return
	}
	select {
	case s.watching <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	select {
	case n := <-s.release:
		for _, e := range s.load.events[:n] {
			if _, err := w.Write(e); err != nil {
				return
			}
		}
		if flush() != nil {
			return
		}
	case <-r.Context().Done():
		return
	}
	<-r.Context().Done()
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// refuseWatchList answers as an API server without the feature, so that every
// client lists and watches.
func refuseWatchList(w http.ResponseWriter) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid","code":422,` +
		`"message":"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}`))
}

func podOf(obj runtime.Object) (*corev1.Pod, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, errors.New("not a pod: " + obj.GetObjectKind().GroupVersionKind().String())
	}
	return p, nil
}

func samePod(t *testing.T, got, want *corev1.Pod) {
	t.Helper()
	if !equality.Semantic.DeepEqual(got, want) {
		t.Fatalf("pod %s is not what was sent (-want +got):\n%s", want.Name, cmp.Diff(want, got))
	}
}
