package shared

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

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
		series := func() int {
			_, n := gathered(t, prom)
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
		if names, _ := gathered(t, prom); !slices.Equal(names, []string{"pods of default"}) {
			t.Errorf("metrics have %q, want that of the one that is held", names)
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
