package shared

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

// serve returns a server with some pods and what counts its open connections.
func serve(t *testing.T, pods int) (*listwatchtest.Server, *rest.Config, *atomic.Int64) {
	t.Helper()
	srv := listwatchtest.New(listwatchtest.Config{})
	t.Cleanup(srv.Close)
	for i := range pods {
		err := srv.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": []string{"web", "db", "cron"}[i%3]}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%2)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	conns := new(testkit.Conns)
	config := srv.RESTConfig()
	config.Dial = conns.Counted(config.Dial)
	return srv, config, &conns.Open
}

func newPool(t *testing.T, c Config[*corev1.Pod]) *Pool[*corev1.Pod] {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func acquire(t *testing.T, p *Pool[*corev1.Pod], s Scope) *Lease[*corev1.Pod] {
	t.Helper()
	s.Resource = pods
	l, err := p.Acquire(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// watches counts the requests that open a watch, by selectors.
func watches(srv *listwatchtest.Server) map[string]int {
	n := map[string]int{}
	for _, r := range srv.Requests() {
		if r.Verb == "watch" {
			n[r.Query.Get("labelSelector")+" "+r.Query.Get("fieldSelector")]++
		}
	}
	return n
}

// TestOneWatchForEachCollection is H6: 500 subscribers with three distinct
// selectors are three watches. Each writes its selector in another way, and each
// gets all of its collection and what comes then.
func TestOneWatchForEachCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, _ := serve(t, 30)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		ways := [][]Scope{
			{{LabelSelector: labelled(t, "app=web")}, {LabelSelector: labelled(t, "app in (web)")}, {LabelSelector: labelled(t, "app==web,app=web")}},
			{{FieldSelector: fielded(t, "spec.nodeName=node-1,status.phase!=Failed")}, {FieldSelector: fielded(t, "status.phase!=Failed,spec.nodeName==node-1")}},
			{{LabelSelector: labelled(t, "app in (db,cron)")}, {LabelSelector: labelled(t, "app in (cron,db,cron)")}},
		}
		want := []int{10, 15, 20}
		var wait sync.WaitGroup
		var changed [3]atomic.Int64
		begin := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 500 {
			kind := i % 3
			scope := ways[kind][i/3%len(ways[kind])]
			wait.Go(func() {
				<-begin
				scope.Resource = pods
				l, err := p.Acquire(ctx, scope)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				defer l.Close()
				added := 0
				for ev := range l.Events(ctx) {
					switch ev.Type {
					case reflector.Added:
						added++
					case reflector.Synced:
						if added != want[kind] {
							t.Errorf("%s: %d pods, want %d", scope, added, want[kind])
						}
					case reflector.Modified:
						changed[kind].Add(1)
					}
				}
			})
		}
		close(begin)
		synctest.Wait()
		if got := watches(srv); len(got) != 3 || got["app=web "] != 1 || got["app in (cron,db) "] != 1 || got[" spec.nodeName=node-1,status.phase!=Failed"] != 1 {
			t.Errorf("watches by selector: %v", got)
		}
		if p.Len() != 3 {
			t.Errorf("%d reflectors", p.Len())
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-3"}} // web on node-1
		if err := srv.Get(pod); err != nil {
			t.Fatal(err)
		}
		pod.Annotations = map[string]string{"a": "b"}
		if err := srv.Update(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a, b, c := changed[0].Load(), changed[1].Load(), changed[2].Load(); a != 167 || b != 167 || c != 0 {
			t.Errorf("the change came to %d, %d and %d subscribers", a, b, c)
		}
		cancel()
		wait.Wait()
		synctest.Wait()
		if p.Len() != 0 {
			t.Errorf("%d reflectors run for nobody", p.Len())
		}
		if got := watches(srv); len(got) != 3 {
			t.Errorf("watches by selector: %v", got)
		}
	})
}

// TestLateLease: "A late lease gets the snapshot first, without a request."
func TestLateLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, _ := serve(t, 12)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		first := acquire(t, p, Scope{})
		defer first.Close()
		if err := first.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := len(srv.Requests())
		late := acquire(t, p, Scope{})
		defer late.Close()
		if err := late.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ev := range late.Events(t.Context()) {
			if ev.Type == reflector.Synced {
				break
			}
			if !ev.Initial {
				t.Errorf("%v of %s is not of the snapshot", ev.Type, ev.Key)
			}
			n++
		}
		if n != 12 || late.Store() != first.Store() || late.Store().Len() != 12 {
			t.Errorf("%d pods in the snapshot", n)
		}
		if got := len(srv.Requests()); got != before {
			t.Errorf("the late one made %d requests", got-before)
		}
	})
}

// TestLeaseEnds: "A lease ends with its context or Close, and so do its
// subscriptions, not those of others."
func TestLeaseEnds(t *testing.T) {
	for name, end := range map[string]func(l *Lease[*corev1.Pod], cancel context.CancelFunc, p *Pool[*corev1.Pod]){
		"context": func(_ *Lease[*corev1.Pod], cancel context.CancelFunc, _ *Pool[*corev1.Pod]) { cancel() },
		"close":   func(l *Lease[*corev1.Pod], _ context.CancelFunc, _ *Pool[*corev1.Pod]) { l.Close(); l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, config, open := serve(t, 3)
				p := newPool(t, Config[*corev1.Pod]{REST: config})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l, err := p.Acquire(ctx, Scope{Resource: pods})
				if err != nil {
					t.Fatal(err)
				}
				other := acquire(t, p, Scope{})
				handled, ran, others := make(chan error, 1), make(chan error, 1), make(chan error, 1)
				go func() { handled <- l.Handle(context.Background(), reflector.Handler[*corev1.Pod]{}) }()
				go func() { ran <- l.Run(context.Background()) }()
				go func() { others <- other.Handle(context.Background(), reflector.Handler[*corev1.Pod]{}) }()
				synctest.Wait()
				end(l, cancel, p)
				synctest.Wait()
				if err := <-handled; !errors.Is(err, context.Canceled) || (name == "close") != errors.Is(err, ErrReleased) {
					t.Errorf("Handle: %v", err)
				}
				if err := <-ran; err != nil {
					t.Errorf("Run: %v", err)
				}
				if err := l.Run(t.Context()); !errors.Is(err, reflector.ErrAlreadyRun) {
					t.Errorf("Run again: %v", err)
				}
				if err := l.WaitForSync(t.Context()); err != nil {
					t.Errorf("what is synced stays so: %v", err)
				}
				for range l.Events(t.Context()) {
					t.Error("an event of a lease that is over")
				}
				select {
				case err := <-others:
					t.Errorf("the other one's Handle ended: %v", err)
				default:
				}
				if p.Len() != 1 || other.Status().State != reflector.StateWatching {
					t.Errorf("%d reflectors, that of the other one is %s", p.Len(), other.Status().State)
				}
				// The last one stops it.
				other.Close()
				synctest.Wait()
				if err := <-others; !errors.Is(err, ErrReleased) {
					t.Errorf("the other one's Handle: %v", err)
				}
				if p.Len() != 0 || open.Load() != 0 || l.Status().State != reflector.StateStopped || l.Store().Len() != 3 {
					t.Errorf("%d reflectors, %d connections, %s with %d pods", p.Len(), open.Load(), l.Status().State, l.Store().Len())
				}
				if _, err := p.Acquire(l.ctx, Scope{Resource: pods}); !errors.Is(err, context.Canceled) || p.Len() != 0 {
					t.Errorf("a lease for a context that is over: %v, %d reflectors", err, p.Len())
				}
			})
		})
	}
}

// Shards of a collection are collections. The server ignores the selector here, so each gets all and drops what is not
// its own, which the reflector counts.
func TestShardsAreCollections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 30)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		total := 0
		for i := range 3 {
			l := acquire(t, p, Scope{Shard: shard.Shard{Index: i, Count: 3}})
			defer l.Close()
			if err := l.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			have := l.Store().Len()
			if dropped := l.Stats().Ignored["filtered"]; have == 0 || have+int(dropped) != 30 {
				t.Errorf("shard %d has %d of 30 pods, and dropped %d", i, have, dropped)
			}
			total += have
		}
		if total != 30 || p.Len() != 3 {
			t.Errorf("%d pods in %d collections", total, p.Len())
		}
	})
}

// TestRunHolds: a lease is run as any collection is, and Run's end is its own.
func TestRunHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		var c reflector.Collection[*corev1.Pod] = acquire(t, p, Scope{})
		go func() { ran <- c.Run(ctx) }()
		if err := c.WaitForSync(t.Context()); err != nil || p.Len() != 1 {
			t.Fatalf("%v, %d reflectors", err, p.Len())
		}
		cancel()
		if err := <-ran; err != nil || p.Len() != 0 {
			t.Errorf("%v, %d reflectors", err, p.Len())
		}
	})
}

// TestLinger: a reflector outlives its last lease by Linger, and who comes back finds it.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, open := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config, Linger: 10 * time.Second})
		for range 5 {
			l := acquire(t, p, Scope{})
			if err := l.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.Close()
			time.Sleep(9 * time.Second)
		}
		if n := len(watches(srv)); n != 1 || p.Len() != 1 {
			t.Errorf("%v, %d reflectors", watches(srv), p.Len())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if p.Len() != 0 || open.Load() != 0 {
			t.Errorf("%d reflectors and %d connections after Linger", p.Len(), open.Load())
		}
		for _, n := range watches(srv) {
			if n != 1 {
				t.Errorf("%d watches", n)
			}
		}
		// A Pool that is closed does not wait.
		acquire(t, p, Scope{}).Close()
		p.Close()
		if p.Len() != 0 {
			t.Errorf("%d reflectors after Close", p.Len())
		}
	})
}

// TestPoolCloses: Close ends what others hold.
func TestPoolCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, open := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		l := acquire(t, p, Scope{})
		if err := l.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		handled := make(chan error, 1)
		go func() { handled <- l.Handle(t.Context(), reflector.Handler[*corev1.Pod]{}) }()
		p.Close()
		p.Close()
		if err := <-handled; err != nil {
			t.Errorf("Handle: %v", err)
		}
		if l.Status().State != reflector.StateStopped || l.Store().Len() != 3 {
			t.Errorf("%s, %d pods", l.Status().State, l.Store().Len())
		}
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections", open.Load())
		}
		l.Close()
		if _, err := p.Acquire(t.Context(), Scope{Resource: pods}); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// A scope without a resource has no name to stand in the error.
func TestEmptyScope(t *testing.T) {
	p := newPool(t, Config[*corev1.Pod]{REST: &rest.Config{Host: "localhost"}})
	defer p.Close()
	_, err := p.Acquire(t.Context(), Scope{})
	if err == nil || !strings.HasPrefix(err.Error(), "shared: ") || strings.HasPrefix(err.Error(), "shared: :") || !strings.Contains(err.Error(), "Resource") {
		t.Errorf("the error is %v, want one that says that Resource is missing", err)
	}
}

// TestFailedConstruction: "A failed construction is an error of who asked, and is
// tried anew by the next one."
func TestFailedConstruction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		broken := true
		p := newPool(t, Config[*corev1.Pod]{REST: config,
			ListWatch: func(c *listwatch.Config) {
				if broken {
					c.DialTimeout = -1
				}
			},
			Reflector: func(c *reflector.Config[*corev1.Pod]) { c.Name = "named" },
		})
		scope := Scope{Resource: pods, Namespace: "default", LabelSelector: labelled(t, "app=web")}
		for range 2 {
			if _, err := p.Acquire(t.Context(), scope); err == nil || !strings.Contains(err.Error(), "pods of default, app=web: listwatch.Config: DialTimeout") {
				t.Errorf("error is %v", err)
			}
		}
		other := Scope{Resource: pods, Shard: shard.Shard{Index: 2, Count: 2}}
		if _, err := p.Acquire(t.Context(), other); err == nil || p.Len() != 0 {
			t.Errorf("error is %v, %d reflectors", err, p.Len())
		}
		broken = false
		l, err := p.Acquire(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := l.WaitForSync(t.Context()); err != nil || l.Store().Len() != 1 || l.Status().Name != "named" {
			t.Errorf("%v, %d pods, %+v", err, l.Store().Len(), l.Status())
		}
	})
}

// TestSharedStoreIsRefused: "One whose reflector cannot run ends with the error of that." A Store that two
// collections would fill is found out when the second one runs, and nobody is told of the first one's objects there.
func TestSharedStoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		store := reflector.NewStore[*corev1.Pod]()
		p := newPool(t, Config[*corev1.Pod]{REST: config, Reflector: func(c *reflector.Config[*corev1.Pod]) { c.Store = store }})
		first := acquire(t, p, Scope{})
		defer first.Close()
		synctest.Wait() // it has the Store
		const why = "filled by another reflector"
		for range 50 { // at whatever point of its failure it is asked
			second := acquire(t, p, Scope{Namespace: "default"})
			if err := second.WaitForSync(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
				t.Fatalf("WaitForSync: %v", err)
			}
			if err := second.Handle(t.Context(), reflector.Handler[*corev1.Pod]{}); err == nil || !strings.Contains(err.Error(), why) {
				t.Fatalf("Handle: %v", err)
			}
			for ev := range second.Events(t.Context()) {
				t.Fatalf("an event of another collection: %v %s", ev.Type, ev.Key)
			}
			if second.ctx.Err() == nil {
				t.Fatal("the lease goes on")
			}
		}
		if p.Len() != 1 || first.Status().State != reflector.StateWatching {
			t.Errorf("%d reflectors, the first one is %s", p.Len(), first.Status().State)
		}
	})
}

// What selects nothing has the text of what selects everything. It is refused, and gets no part in that.
func TestNothingIsNotEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		acquire(t, p, Scope{})
		for says, s := range map[string]Scope{
			"LabelSelector selects nothing": {Resource: pods, LabelSelector: labels.Nothing()},
			"FieldSelector selects nothing": {Resource: pods, FieldSelector: fields.Nothing()},
		} {
			if _, err := p.Acquire(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error is %v, want %q", err, says)
			}
		}
	})
}

// TestEndIsTheLeases: whatever is noticed first, the end of the lease or that of the reflector which it stops, the
// error is the lease's.
func TestEndIsTheLeases(t *testing.T) {
	_, config, _ := serve(t, 3)
	p := newPool(t, Config[*corev1.Pod]{REST: config})
	var wait sync.WaitGroup
	for i := range 500 {
		wait.Go(func() {
			l := acquire(t, p, Scope{Namespace: fmt.Sprint("empty-", i%3)})
			go l.Close()
			if i%2 == 0 {
				if err := l.Handle(t.Context(), reflector.Handler[*corev1.Pod]{}); !errors.Is(err, ErrReleased) {
					t.Errorf("Handle: %v", err)
				}
			} else if err := l.WaitForSync(t.Context()); err != nil && !errors.Is(err, ErrReleased) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	}
	wait.Wait()
	// In one order of the two that cannot be had by chance alone: the joined context does not know yet.
	l := acquire(t, p, Scope{})
	l.cancel(ErrReleased)
	if err := l.ended(t.Context()); !errors.Is(err, ErrReleased) {
		t.Errorf("ended: %v", err)
	}
}

// TestManyCycles: "10,000 cycles leave goroutines, connections and metric series as they were." (The
// goroutines are TestMain's, and the bubble's: it does not end while there are some.)
func TestManyCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, open := serve(t, 3)
		registry := new(reflector.Registry)
		prom := prometheus.NewRegistry()
		if err := metrics.Register(prom, registry); err != nil {
			t.Fatal(err)
		}
		series := func() (n int) {
			families, err := prom.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				n += len(f.GetMetric())
			}
			return n
		}
		p := newPool(t, Config[*corev1.Pod]{REST: config, Registry: registry, Reflector: func(c *reflector.Config[*corev1.Pod]) { c.InitialSync = reflector.InitialList }})
		before := series()
		// One that is held throughout: cycles of others do not touch it.
		held := acquire(t, p, Scope{Namespace: "default"})
		if err := held.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if with := series(); with <= before {
			t.Errorf("%d series, and %d with a reflector", before, with)
		}
		const cycles = 10_000
		for i := range cycles {
			scope := Scope{Namespace: "default"}
			if i%20 == 0 { // each twentieth starts a reflector, and stops it at some point of its way
				scope.Namespace = fmt.Sprintf("ns-%d", i%7)
			}
			l := acquire(t, p, scope)
			switch i % 100 {
			case 0:
				if err := l.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
			case 20:
				for range l.Events(t.Context()) {
					break
				}
			}
			l.Close()
		}
		synctest.Wait()
		if p.Len() != 1 || len(registry.Sources()) != 1 {
			t.Errorf("%d reflectors, %d registered", p.Len(), len(registry.Sources()))
		}
		if n := held.Stats().Subscribers; n != 0 {
			t.Errorf("%d subscribers of the one that is held", n)
		}
		if n := watches(srv); len(n) != 1 {
			t.Errorf("watches: %v", n)
		}
		held.Close()
		synctest.Wait()
		if p.Len() != 0 || len(registry.Sources()) != 0 || series() != before || open.Load() != 0 {
			t.Errorf("%d reflectors, %d registered, %d series of %d, %d connections", p.Len(), len(registry.Sources()), series(), before, open.Load())
		}
	})
}

// TestPoolUnderStress: asking and letting go from many sides; who holds a lease always has its collection.
func TestPoolUnderStress(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Millisecond} {
		t.Run(linger.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, config, open := serve(t, 6)
				p := newPool(t, Config[*corev1.Pod]{REST: config, Linger: linger})
				scopes := []Scope{{}, {LabelSelector: labelled(t, "app=web")}, {FieldSelector: fielded(t, "spec.nodeName=node-1")}}
				want := []int{6, 2, 3}
				var wait sync.WaitGroup
				for worker := range 16 {
					wait.Go(func() {
						random := rand.New(rand.NewPCG(1, uint64(worker)))
						for range 40 {
							i := random.IntN(len(scopes))
							ctx, cancel := context.WithCancel(t.Context())
							scope := scopes[i]
							scope.Resource = pods
							l, err := p.Acquire(ctx, scope)
							if err != nil {
								t.Errorf("Acquire: %v", err)
								cancel()
								return
							}
							switch random.IntN(4) {
							case 0: // never synced, perhaps
							case 1:
								time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
							default:
								if err := l.WaitForSync(ctx); err != nil || l.Store().Len() != want[i] {
									t.Errorf("%s: %v, %d pods, want %d", scope, err, l.Store().Len(), want[i])
								}
								if s := l.Status().State; s == reflector.StateStopped {
									t.Errorf("%s is stopped while it is held", scope)
								}
							}
							if random.IntN(2) == 0 {
								l.Close()
							}
							cancel()
						}
					})
				}
				wait.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				if p.Len() != 0 || open.Load() != 0 {
					t.Errorf("%d reflectors and %d connections are left", p.Len(), open.Load())
				}
			})
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	for says, c := range map[string]Config[*corev1.Pod]{
		"Config.REST is nil":   {},
		"Config.Linger is -1s": {REST: &rest.Config{Host: "localhost"}, Linger: -time.Second},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want %q", err, says)
		}
	}
}
