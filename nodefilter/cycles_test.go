package nodefilter

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

// TestCyclesLeaveNothing: 10,000 reflectors that are started over TCP, subscribed to, and stopped at
// different points of their way leave no socket, no series and (see TestMain) no goroutine.
func TestCyclesLeaveNothing(t *testing.T) {
	const cycles, atOnce = 10_000, 8
	srv := cluster(t, listwatchtest.Config{Authorize: func(a listwatchtest.Access) bool { return !strings.HasSuffix(a.FieldSelector, "=refused") }})
	cfg := srv.RESTConfig()
	var conns testkit.Conns
	cfg.Dial = conns.Counted(cfg.Dial)
	registry, reg := &reflector.Registry{}, prometheus.NewRegistry()
	if err := metrics.Register(reg, registry); err != nil {
		t.Fatal(err)
	}
	series := func() int {
		n, err := testutil.GatherAndCount(reg)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	before := series()
	var most atomic.Int32 // series while some run
	cycle := func(i int) {
		node := "node-a"
		if i%5 == 0 {
			node = "refused"
		}
		r, err := NewPodReflector(Config{REST: cfg, Node: node, Registry: registry})
		if err != nil {
			t.Error(err)
			return
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		switch i % 5 {
		case 0: // between two requests: there is nothing but an idle connection
			for r.Status().State != reflector.StateBackingOff {
				time.Sleep(10 * time.Microsecond)
			}
		case 1: // at once
		case 2: // somewhere on its way
			time.Sleep(time.Duration(i%1000) * time.Microsecond)
		case 3:
			if err := r.WaitForSync(ctx); err != nil {
				t.Error(err)
			}
		case 4:
			for range r.Events(ctx) {
				break
			}
		}
		if i%1000 == 3 {
			most.Store(max(most.Load(), int32(series())))
		}
		stop()
		running.Wait()
	}
	var group sync.WaitGroup
	for worker := range atOnce {
		group.Go(func() {
			for i := worker; i < cycles; i += atOnce {
				cycle(i)
			}
		})
	}
	group.Wait()
	if conns.Made.Load() < cycles/2 || int(most.Load()) <= before {
		t.Errorf("%d connections were made, and there were at most %d series, %d without a reflector: this tests nothing", conns.Made.Load(), most.Load(), before)
	}
	if n := len(registry.Sources()); n != 0 || series() != before {
		t.Errorf("%d reflectors registered, and %d series, of %d before", n, series(), before)
	}
	for deadline := time.Now().Add(10 * time.Second); conns.Open.Load() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d sockets are open still", conns.Open.Load(), conns.Made.Load())
		}
		time.Sleep(time.Millisecond)
	}
}
