package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

const (
	herdSize = 300
	// herdFresh is the promise of the backoff policy: the part freshPart of all
	// clients has seen a new pod so long after the server is ready again.
	herdFresh = 4 * time.Second
	freshPart = 0.99
	// herdWait bounds the wait for the last client.
	herdWait = 2 * time.Minute
)

// TestHerd: 300 clients, HTTP/1.1, each on a node of its own; the API server is
// killed with -9 and ready again about ten seconds later.
func TestHerd(t *testing.T) {
	libraries := []library{nodewatch}
	if *longFlag {
		libraries = []library{nodewatch, clientGo}
	}
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) { herd(t, l) })
	}
}

// herd puts the clients of one library through an outage.
func herd(t *testing.T, l library) {
	server, startTook := startServer(t)
	w := newWriter(t, server)
	ctx := t.Context()
	var nodes []string
	for i := range herdSize {
		nodes = append(nodes, nodeName(i))
	}
	if _, err := w.mark(ctx, "before", nodes); err != nil {
		t.Fatal(err)
	}
	phase("%s: starting %d clients", t.Name(), herdSize)
	tally := &tally{}
	clients := make([]*client, herdSize)
	var starting sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, node := range nodes {
		starting.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			config := server.RESTConfig(apiserver.Admin)
			tally.count(config)
			c, err := l.start(t, config, node, options{http1: true})
			if err != nil {
				t.Errorf("%s on %s: %v", l.name, node, err)
			}
			clients[i] = c
		})
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	// As in a cluster that lives: something was written since each client's last
	// bookmark, so none can resume.
	if _, err := w.mark(ctx, "alive", nodes[:1]); err != nil {
		t.Fatal(err)
	}

	phase("%s: killing the API server", t.Name())
	killed := time.Now()
	if err := server.RestartAfter(ctx, downFor, startTook); err != nil {
		t.Fatal(err)
	}
	ready := time.Now()
	created, err := w.mark(ctx, "after", nodes)
	if err != nil {
		t.Fatal(err)
	}
	marked := time.Since(ready)
	wait, cancel := context.WithDeadline(ctx, ready.Add(herdWait))
	defer cancel()
	fresh, late := staleness{limit: herdWait}, staleness{limit: herdWait}
	for i, c := range clients {
		if at, ok := c.ledger.sees(wait, markerOn("after", c.node)); ok {
			fresh.took = append(fresh.took, at.Sub(ready))
			// A machine that does other things takes its time to write 300 pods.
			late.took = append(late.took, at.Sub(created[i]))
		} else {
			fresh.never++
			late.never++
		}
	}
	n, peak := tally.between(killed, time.Now())
	results.add(fmt.Sprintf("Herd: %d clients over HTTP/1.1, the API server killed", herdSize),
		[]string{"client", "down s", "fresh p50 s", "p99 s", "max s", "peak LIST+WATCH /s", "collections streamed", "LIST", "watch-list", "WATCH", "markers written s"},
		l.name, fmt.Sprintf("%.1f", ready.Sub(killed).Seconds()), fresh.text(0.5), fresh.text(freshPart), fresh.text(1),
		peak, n.syncs(), n[list], n[watchList], n[watch], fmt.Sprintf("%.2f", marked.Seconds()))
	if l.name == nodewatch.name {
		if p99, ok := late.quantile(freshPart); !ok || p99 > herdFresh {
			t.Errorf("the p99 of nodewatch is %s s after the pod was there, the limit is %v", late.text(freshPart), herdFresh)
		}
		// One WATCH that says 410, one watch-list; few come at a bad moment.
		if n[list] > 0 || n[watchList] > herdSize*11/10 || n[watch] > herdSize*11/10 {
			t.Errorf("%d LIST, %d watch-list and %d WATCH, want none, one and one of each client", n[list], n[watchList], n[watch])
		}
	}
}
