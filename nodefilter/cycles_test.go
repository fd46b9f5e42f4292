package nodefilter

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

// TestCyclesLeaveNothing: 10,000 reflectors that are started over TCP, subscribed to, and stopped at
// different points of their way leave no socket, no series and (see TestMain) no goroutine.
func TestCyclesLeaveNothing(t *testing.T) {
	const cycles, atOnce = 10_000, 8
	srv := cluster(t, listwatchtest.Config{})
	cfg := srv.RESTConfig()
	var open, dials atomic.Int32
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			dials.Add(1)
			open.Add(1)
			conn = &countedConn{Conn: conn, open: &open}
		}
		return conn, err
	}
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
		r, err := NewPodReflector(Config{REST: cfg, Node: "node-a", Registry: registry})
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
		switch i % 4 {
		case 0: // at once
		case 1: // somewhere on its way
			time.Sleep(time.Duration(i%1000) * time.Microsecond)
		case 2:
			if err := r.WaitForSync(ctx); err != nil {
				t.Error(err)
			}
		case 3:
			for range r.Events(ctx) {
				break
			}
		}
		if i%1000 == 2 {
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
	if dials.Load() < cycles/2 || int(most.Load()) <= before {
		t.Errorf("%d connections were made, and there were at most %d series, %d without a reflector: this tests nothing", dials.Load(), most.Load(), before)
	}
	if n := len(registry.Sources()); n != 0 || series() != before {
		t.Errorf("%d reflectors registered, and %d series, of %d before", n, series(), before)
	}
	for deadline := time.Now().Add(10 * time.Second); open.Load() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d sockets are open still", open.Load(), dials.Load())
		}
		time.Sleep(time.Millisecond)
	}
}
