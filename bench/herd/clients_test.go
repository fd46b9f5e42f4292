package herd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// client is a kind of client. start returns what runs the client of node n
// until its context ends and calls saw when its store has the new pod.
type client struct {
	name  string
	start func(t *testing.T, s *server) func(ctx context.Context, n int, saw func())
}

func onNode(n int) fields.Selector {
	return fields.OneTermEqualSelector("spec.nodeName", fmt.Sprintf("node-%d", n))
}

// nodewatchClient is ours with the defaults.
var nodewatchClient = client{"nodewatch", func(t *testing.T, s *server) func(context.Context, int, func()) {
	return func(ctx context.Context, n int, saw func()) {
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{
			REST:          &rest.Config{Host: "http://server", Transport: s},
			Resource:      corev1.SchemeGroupVersion.WithResource("pods"),
			FieldSelector: onNode(n),
			Encoding:      listwatch.EncodingJSON,
			Compression:   listwatch.CompressionOff,
		})
		if err != nil {
			t.Error(err)
			return
		}
		r, err := reflector.New(reflector.Config[*corev1.Pod]{
			ListerWatcher: lw,
			Rand:          rand.New(rand.NewPCG(1, uint64(n))), // the same herd each time
		})
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			for ev := range r.Events(ctx) {
				if ev.Key.Name == newPod {
					saw()
				}
			}
		}()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}
}}

// clientGoClient is client-go's with the defaults.
var clientGoClient = client{"client-go", func(t *testing.T, s *server) func(context.Context, int, func()) {
	gv := corev1.SchemeGroupVersion
	rc, err := rest.RESTClientForConfigAndClient(&rest.Config{
		Host: "http://server", APIPath: "/api", QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	}, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	quiet := logr.Discard()
	return func(ctx context.Context, n int, saw func()) {
		lw := cache.NewListWatchFromClient(rc, "pods", "", onNode(n))
		store := &watchedStore{cache.NewStore(cache.MetaNamespaceKeyFunc), saw}
		r := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "herd", Logger: &quiet})
		r.RunWithContext(klog.NewContext(ctx, quiet))
	}
}}

// watchedStore tells when it has the new pod.
type watchedStore struct {
	cache.Store
	saw func()
}

// Add implements cache.ReflectorStore.
func (w *watchedStore) Add(obj any) error {
	if err := w.Store.Add(obj); err != nil {
		return err
	}
	w.look()
	return nil
}

// Replace implements cache.ReflectorStore.
func (w *watchedStore) Replace(objs []any, rv string) error {
	if err := w.Store.Replace(objs, rv); err != nil {
		return err
	}
	w.look()
	return nil
}

func (w *watchedStore) look() {
	if _, has, _ := w.GetByKey("default/" + newPod); has {
		w.saw()
	}
}

const (
	// warmUp is how long all watches lived before the kill: longer than any
	// backoff remembers.
	warmUp = 150 * time.Second
	// giveUp is when clients that are not fresh yet will never be.
	giveUp = 15 * time.Minute
	// after is how long arrivals are counted when all are fresh.
	after = 10 * time.Second
)

// size is how large a herd is.
type size struct{ clients, pods int } // pods on each node

// run puts a herd through an outage.
func run(t *testing.T, c client, sc schedule, of size) *tally {
	t.Helper()
	return inHerd(t, c, of, func(s *server) {
		s.tally.begin()
		s.kill()
		time.Sleep(sc.down)
		s.tally.listens()
		s.listen(sc.then, sc.forgets)
		time.Sleep(sc.ill)
		s.tally.isReady()
		s.ready()
		for ready := time.Now(); s.tally.stale() > 0; time.Sleep(bin) {
			if time.Since(ready) > giveUp {
				t.Errorf("%s, %s: %d of %d clients are not fresh after %v", c.name, sc, s.tally.stale(), of.clients, giveUp)
				break
			}
		}
		time.Sleep(after)
	})
}

// inHerd starts a server and its clients, lets happen what happens, and stops all.
func inHerd(t *testing.T, c client, of size, happens func(*server)) *tally {
	t.Helper()
	count := newTally(of.clients)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(count, of.clients, of.pods)
		start := c.start(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for n := range of.clients {
			go func() {
				// Nodes join a cluster one after the other.
				time.Sleep(time.Duration(n) * 10 * time.Second / time.Duration(of.clients))
				start(ctx, n, func() { count.saw(n) })
			}()
		}
		go func() {
			every := time.NewTicker(time.Minute)
			defer every.Stop()
			for {
				select {
				case <-every.C:
					s.beat()
				case <-ctx.Done():
					return
				}
			}
		}()
		time.Sleep(warmUp)
		synctest.Wait()
		if open := s.watches(); open != of.clients {
			t.Fatalf("%s: %d of %d clients watch before anything happened", c.name, open, of.clients)
		}
		happens(s)
	})
	return count
}
