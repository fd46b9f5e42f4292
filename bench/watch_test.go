package bench

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

const (
	benchListed = 1_000     // pods in the list, and so in the store
	benchEvents = 4_000     // events that one watch brings at most
	listVersion = 2_000_000 // resourceVersion of the list
)

// client runs a reflector against the server until ctx ends and calls applied
// for each event of the watch, but not for the pods of the list. get reads the store.
type client struct {
	name string
	run  func(ctx context.Context, t testing.TB, srv *server, applied func()) (wait func() error, get func(name string) (*corev1.Pod, bool))
}

var clients = []client{
	{"nodewatch", runNodewatch},
	{"client-go", runClientGo},
}

func runNodewatch(ctx context.Context, t testing.TB, srv *server, applied func()) (func() error, func(string) (*corev1.Pod, bool)) {
	t.Helper()
	policy := listwatch.EncodingJSON
	if srv.load.mediaType == specimen.Protobuf {
		policy = listwatch.EncodingProtobuf
	}
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{
		REST:      &rest.Config{Host: srv.URL},
		Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: specimen.Namespace,
		Encoding:  policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	r, err := reflector.New(reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		InitialSync:   reflector.InitialList,
		// The transform is called from one goroutine, just before an object
		// is stored: first for the list, then for the watch.
		Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			if seen++; seen > srv.load.listed {
				applied()
			}
			return p, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() error { return <-done }, func(name string) (*corev1.Pod, bool) { return r.Store().Get(specimen.Namespace, name) }
}

// countingStore is client-go's own store with a count of what the watch changed.
type countingStore struct {
	cache.Store
	applied func()
}

func (s countingStore) Update(obj any) error {
	err := s.Store.Update(obj)
	s.applied()
	return err
}

func runClientGo(ctx context.Context, t testing.TB, srv *server, applied func()) (func() error, func(string) (*corev1.Pod, bool)) {
	t.Helper()
	cfg := &rest.Config{Host: srv.URL}
	cfg.ContentType = srv.load.mediaType
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	lw := cache.NewListWatchFromClient(cs.CoreV1().RESTClient(), "pods", specimen.Namespace, fields.Everything())
	r := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, countingStore{store, applied}, cache.ReflectorOptions{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.RunWithContext(ctx)
	}()
	return func() error { <-done; return nil }, func(name string) (*corev1.Pod, bool) {
		obj, ok, _ := store.GetByKey(specimen.Namespace + "/" + name)
		if !ok {
			return nil, false
		}
		return obj.(*corev1.Pod), true
	}
}

// load is what a server replays: a list, then events that change each listed
// pod in turn.
type load struct {
	mediaType, watchType string
	listed               int
	list                 []byte
	events               [][]byte
	changed              []*corev1.Pod // what events bring
}

func newLoad(t testing.TB, mediaType, watchType string, listed, events int) *load {
	t.Helper()
	l := &load{mediaType: mediaType, watchType: watchType, listed: listed}
	pods := specimen.Pods(listed)
	for i := range events {
		p := *pods[i%listed]
		p.ResourceVersion = strconv.Itoa(listVersion + 1 + i)
		l.changed = append(l.changed, &p)
	}
	var errs [2]error
	l.list, errs[0] = specimen.List(mediaType, pods, strconv.Itoa(listVersion))
	l.events, errs[1] = specimen.Events(mediaType, l.changed)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return l
}

// session runs one client through list and watch until n events are applied. timed is
// called when the watch is open and nothing was sent on it, and when all is applied.
func session(t testing.TB, srv *server, c client, n int, start, stop func()) (get func(string) (*corev1.Pod, bool)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var count atomic.Int64
	all := make(chan struct{})
	wait, get := c.run(ctx, t, srv, func() {
		if count.Add(1) == int64(n) {
			close(all)
		}
	})
	timeout := time.After(time.Minute) // not a measure: a bench that hangs says why
	select {
	case <-srv.watching:
	case <-timeout:
		t.Fatalf("%s did not open a watch; requests: %v", c.name, srv.requests())
	}
	start()
	srv.release <- n
	select {
	case <-all:
	case <-timeout:
		t.Fatalf("%s applied %d of %d events; requests: %v", c.name, count.Load(), n, srv.requests())
	}
	stop()
	cancel()
	if err := wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("%s: %v", c.name, err)
	}
	return get
}

// TestClientsAgree: both clients end with the same objects in the store.
func TestClientsAgree(t *testing.T) {
	const listed, n = 60, 67
	for _, enc := range encodings {
		l := newLoad(t, enc.mediaType, enc.watchType, listed, n)
		for _, c := range clients {
			t.Run(enc.name+"/"+c.name, func(t *testing.T) {
				get := session(t, newServer(t, l), c, n, func() {}, func() {})
				for _, want := range l.changed[n-listed:] {
					got, ok := get(want.Name)
					if !ok {
						t.Fatalf("%s is not in the store", want.Name)
					}
					samePod(t, got, want)
				}
			})
		}
	}
}

func BenchmarkWatch(b *testing.B) {
	for _, enc := range encodings {
		l := newLoad(b, enc.mediaType, enc.watchType, benchListed, benchEvents)
		total := 0
		for _, e := range l.events {
			total += len(e)
		}
		for _, c := range clients {
			b.Run("encoding="+enc.name+"/impl="+c.name, func(b *testing.B) {
				live := liveStore()
				srv := newServer(b, l)
				b.SetBytes(int64(total / len(l.events)))
				b.ReportAllocs()
				b.StopTimer()
				b.ResetTimer()
				for left := b.N; left > 0; left -= benchEvents {
					session(b, srv, c, min(left, benchEvents), b.StartTimer, b.StopTimer)
				}
				runtime.KeepAlive(live)
			})
		}
	}
}
