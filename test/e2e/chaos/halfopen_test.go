package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/test/e2e/relay"
)

// A halfOpen is a way for a connection to die without an end, and who should
// notice when.
type halfOpen struct {
	name    string
	library library
	options options
	begin   func(*relay.Relay) error
	// limit is how stale the client may be; 0 is for what is only measured, for
	// as long as wait.
	limit, wait time.Duration
}

// Two kinds of half-open connections have to be told apart. In a black hole
// nobody acknowledges keep-alive probes: the kernel notices, in 15 s + 3 × 5 s.
// Behind a stuck proxy, or with a stopped server, somebody does: nothing but
// what the server owes the client can tell a dead stream from a quiet one, which
// is a bookmark a minute over HTTP/1.1, and the answer to a PING over HTTP/2.
func halfOpens() []halfOpen {
	stuck := quietly(func(r *relay.Relay) { r.SetCurrent(relay.Behaviour{Up: relay.Hold, Down: relay.Hold}) })
	stuckDown := quietly(func(r *relay.Relay) { r.SetCurrent(relay.Behaviour{Down: relay.Hold}) })
	fast := options{idle: 2 * time.Second}
	all := []halfOpen{
		{name: "black hole", library: nodewatch, begin: (*relay.Relay).Blackhole, limit: deadLimit},
		{name: "black hole, --idle-timeout 2s", library: nodewatch, options: fast, begin: (*relay.Relay).Blackhole, limit: 3 * time.Second},
		{name: "stall both ways, --idle-timeout 2s", library: nodewatch, options: fast, begin: stuck, limit: 3 * time.Second},
		{name: "stall server to client, --idle-timeout 2s", library: nodewatch, options: fast, begin: stuckDown, limit: 3 * time.Second},
		{name: "stall both ways, HTTP/2", library: nodewatch, options: options{protocol: listwatch.HTTP2}, begin: stuck, limit: deadLimit},
		{name: "stall server to client, HTTP/2", library: nodewatch, options: options{protocol: listwatch.HTTP2}, begin: stuckDown, limit: deadLimit},
		{name: "black hole, HTTP/2", library: clientGo, begin: (*relay.Relay).Blackhole, wait: time.Minute},
		{name: "stall both ways, HTTP/2", library: clientGo, begin: stuck, wait: time.Minute},
		{name: "stall server to client, HTTP/2", library: clientGo, begin: stuckDown, wait: time.Minute},
	}
	if *longFlag {
		http1 := options{http1: true}
		all = append(all,
			halfOpen{name: "stall both ways, HTTP/1.1", library: nodewatch, begin: stuck, limit: 190 * time.Second},
			halfOpen{name: "stall server to client, HTTP/1.1", library: nodewatch, begin: stuckDown, limit: 190 * time.Second},
			halfOpen{name: "black hole, HTTP/1.1", library: clientGo, options: http1, begin: (*relay.Relay).Blackhole, wait: 330 * time.Second},
			halfOpen{name: "stall both ways, HTTP/1.1", library: clientGo, options: http1, begin: stuck, wait: 330 * time.Second},
		)
	}
	return all
}

// TestHalfOpen: "A watch is proven alive or is replaced."
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	server, _ := startServer(t)
	w := newWriter(t, server)
	ctx := t.Context()

	// Each node has an event a quarter of a second, so that a stream that lives
	// is never silent for two seconds.
	quiet, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	defer beats.Wait()
	defer stop()
	cases := halfOpens()
	seats := make([]*seat, len(cases))
	for i, c := range cases {
		node := nodeName(i)
		if err := w.insist(ctx, newPod("beat-"+node, node)); err != nil {
			t.Fatal(err)
		}
		beats.Go(func() { w.beat(quiet, "beat-"+node) })
		seats[i] = take(t, server, c.library, node, c.options)
	}

	phase("%s: %d connections die without an end", t.Name(), len(cases))
	var wait sync.WaitGroup
	defer wait.Wait()
	for i, c := range cases {
		wait.Go(func() {
			s := seats[i]
			began := time.Now()
			if err := c.begin(s.relay); err != nil {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			// Later than the limit it is still of interest when.
			o := staleness{limit: max(2*c.limit, c.wait)}
			if _, err := w.mark(ctx, "halfopen", []string{s.node}); err != nil {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			until, cancel := context.WithDeadline(ctx, began.Add(o.limit))
			defer cancel()
			if at, ok := s.ledger.sees(until, markerOn("halfopen", s.node)); ok {
				o.took = append(o.took, at.Sub(began))
			} else {
				o.never = 1
			}
			n, _ := s.tally.between(began, time.Now())
			limit := "-"
			if c.limit > 0 {
				limit = fmt.Sprintf("%.0f", c.limit.Seconds())
				if took, ok := o.quantile(1); !ok || took > c.limit {
					t.Errorf("%s: %s was stale for %s s, the limit is %s s", c.name, c.library.name, o.text(1), limit)
				}
				// After minutes the server may not have the history any more.
				if told := int(s.restarts()[reason.Expired]); n.syncs() > told {
					t.Errorf("%s: the watch could be resumed, and nodewatch asked for the collection %d times", c.name, n.syncs())
				}
			}
			results.add("Half-open connections", []string{"fault", "client", "stale s", "limit s", "LIST", "watch-list", "WATCH"},
				c.name, c.library.name, o.text(1), limit, n[list], n[watchList], n[watch])
		})
	}
}

// beat changes a pod four times a second.
func (w writer) beat(ctx context.Context, name string) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		once, cancel := context.WithTimeout(ctx, requestTimeout)
		pod, err := w.Get(once, name, metav1.GetOptions{})
		if err == nil {
			pod.Labels = map[string]string{"beat": fmt.Sprint(n)}
			_, _ = w.Update(once, pod, metav1.UpdateOptions{}) // the next beat is as good
		}
		cancel()
	}
}
