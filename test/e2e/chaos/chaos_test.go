package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
	"github.com/nodewatch-go/nodewatch/test/e2e/relay"
)

const (
	chaosNodes = 20
	// churnPace is the time between two changes of the workload, on all nodes.
	churnPace = 25 * time.Millisecond
	// deadLimit is how stale a client may be after its peer vanished: "TCP
	// keep-alive 15 s/5 s/3 (about 30 s for a dead peer)".
	deadLimit = 35 * time.Second
)

// A seat is one client behind a relay of its own.
type seat struct {
	*client
	library string
	relay   *relay.Relay
	tally   *tally
}

// take makes a seat whose client runs until the test ends.
func take(t *testing.T, s *apiserver.Server, l library, node string, o options) *seat {
	t.Helper()
	r, err := relay.New(strings.TrimPrefix(s.URL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	seat := &seat{library: l.name, relay: r, tally: &tally{}}
	if seat.client, err = l.start(t, throughRelay(s, r, seat.tally), node, o); err != nil {
		t.Fatalf("%s on %s: %v", l.name, node, err)
	}
	return seat
}

// throughRelay is the configuration of a client behind a relay.
func throughRelay(s *apiserver.Server, r *relay.Relay, t *tally) *rest.Config {
	config := s.RESTConfig(apiserver.Admin)
	config.Host = "https://" + r.Addr()
	t.count(config)
	return config
}

// chaos is the run.
type chaos struct {
	*testing.T
	server *apiserver.Server
	writer writer
	seats  []*seat
	rounds int
}

// on returns the seats of some nodes, those of both libraries.
func (c *chaos) on(nodes ...int) []*seat {
	var some []*seat
	for _, s := range c.seats {
		for _, node := range nodes {
			if s.node == nodeName(node) {
				some = append(some, s)
			}
		}
	}
	return some
}

// An outcome is what a fault did to the clients of one library.
type outcome struct {
	staleness
	requests counts
}

// shortPatience is how long the short run waits for client-go when nodewatch has
// seen the marker everywhere.
const shortPatience = 2 * time.Second

// after writes a marker to the seats' nodes, measures how stale each library's
// clients were since from, and returns what became of nodewatch's. Requests
// count from began, when the fault began.
func (c *chaos) after(ctx context.Context, fault string, seats []*seat, began, from time.Time, limit time.Duration) (ours outcome) {
	c.Helper()
	marker := fmt.Sprintf("%d-%s", c.rounds, strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(fault)))
	var nodes []string
	for _, s := range seats {
		if s.library == nodewatch.name {
			nodes = append(nodes, s.node)
		}
	}
	if _, err := c.writer.mark(ctx, marker, nodes); err != nil {
		c.Errorf("%s: %v", fault, err)
	}
	for _, l := range libraries { // nodewatch first: client-go need not be waited for in the short run
		deadline := from.Add(limit)
		if l.name == clientGo.name && !*longFlag {
			deadline = time.Now().Add(shortPatience)
		}
		wait, cancel := context.WithDeadline(ctx, deadline)
		o := outcome{staleness: staleness{limit: deadline.Sub(from)}}
		for _, s := range seats {
			if s.library != l.name {
				continue
			}
			if at, ok := s.ledger.sees(wait, markerOn(marker, s.node)); ok {
				o.took = append(o.took, max(at.Sub(from), 0))
			} else {
				o.never++
			}
		}
		cancel()
		for _, s := range seats {
			if s.library == l.name {
				n, _ := s.tally.between(began, time.Now())
				o.requests.add(n)
			}
		}
		results.add("Faults", []string{"fault", "client", "clients", "stale p50 s", "stale max s", "LIST", "watch-list", "WATCH"},
			fault, l.name, len(o.took)+o.never, o.text(0.5), o.text(1), o.requests[list], o.requests[watchList], o.requests[watch])
		if l.name == nodewatch.name {
			ours = o
		}
	}
	if ours.never > 0 {
		c.Errorf("%s: %d clients of nodewatch did not see the marker within %v", fault, ours.never, limit)
	}
	return ours
}

// A linkFault happens to a relay.
type linkFault struct {
	name  string
	begin func(*relay.Relay) error
	end   func(*relay.Relay) error // nil: it happens at once and does not last
	// dead: the connections there are never come back, and nobody says so. Then
	// a client is stale since the beginning.
	dead bool
}

// linkFaults are all kinds. Those that last do so for linkOutage.
var linkFaults = []linkFault{
	{name: "none", begin: quietly(func(*relay.Relay) {})},
	{name: "cut (FIN)", begin: quietly((*relay.Relay).Cut)},
	{name: "reset (RST)", begin: quietly((*relay.Relay).Reset)},
	{name: "half-close", begin: quietly((*relay.Relay).HalfClose)},
	{name: "refuse", begin: quietly((*relay.Relay).Refuse), end: (*relay.Relay).Accept},
	behaving("delay 300 ms", relay.Behaviour{Delay: 300 * time.Millisecond}),
	behaving("stall", relay.Behaviour{Up: relay.Hold, Down: relay.Hold}),
	behaving("stall server to client", relay.Behaviour{Down: relay.Hold}),
	behaving("whole 4096-byte blocks", relay.Behaviour{Down: relay.WholeBlocks}),
	{name: "black hole", begin: (*relay.Relay).Blackhole, dead: true},
}

const linkOutage = 5 * time.Second

func quietly(f func(*relay.Relay)) func(*relay.Relay) error {
	return func(r *relay.Relay) error { f(r); return nil }
}

func behaving(name string, b relay.Behaviour) linkFault {
	return linkFault{
		name:  name,
		begin: quietly(func(r *relay.Relay) { r.Set(b) }),
		end:   quietly(func(r *relay.Relay) { r.Set(relay.Behaviour{}) }),
	}
}

// links gives every kind of link fault to two nodes each, all at the same time.
// shift moves the kinds to other nodes.
func (c *chaos) links(ctx context.Context, shift int) {
	c.rounds++
	phase("%s: link faults, all kinds at once on two nodes each", c.Name())
	var wait sync.WaitGroup
	for i, f := range linkFaults {
		if f.dead && !*longFlag {
			continue // it takes half a minute, and TestHalfOpen has it
		}
		i = (i + shift) % len(linkFaults)
		wait.Go(func() { c.link(ctx, f, c.on(i, i+len(linkFaults))) })
	}
	wait.Wait()
}

func (c *chaos) link(ctx context.Context, f linkFault, seats []*seat) {
	began := time.Now()
	each := func(do func(*relay.Relay) error) {
		for _, s := range seats {
			if err := do(s.relay); err != nil {
				c.Errorf("%s: %v", f.name, err)
			}
		}
	}
	each(f.begin)
	from := began
	if f.end != nil {
		pause(ctx, linkOutage)
		each(f.end)
		from = time.Now()
	}
	limit := time.Minute
	ours := c.after(ctx, f.name, seats, began, from, limit)
	if n := ours.requests.syncs(); n > 0 {
		c.Errorf("%s: the watches could be resumed, and nodewatch asked for the collection %d times", f.name, n)
	}
	// The first wait after a failure is short where the last one is over a
	// minute ago, as in the first round.
	if worst, _ := ours.quantile(1); f.dead && c.rounds == 1 && worst > deadLimit {
		c.Errorf("%s: nodewatch was stale for %s s", f.name, ours.text(1))
	}
	if f.name == "none" && ours.requests[watch] > 0 {
		c.Errorf("%s: nodewatch made %d requests for nothing", f.name, ours.requests[watch])
	}
}

// pause is how long a fault lasts.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestChaos: whatever fails, no event is lost, nobody lists who could resume,
// and all are fresh again soon.
func TestChaos(t *testing.T) {
	t.Parallel()
	server, startTook := startServer(t)
	c := &chaos{T: t, server: server, writer: newWriter(t, server)}
	ctx := t.Context()
	for i := range chaosNodes {
		for _, l := range libraries {
			c.seats = append(c.seats, take(t, server, l, nodeName(i), options{}))
		}
	}
	all := make([]int, chaosNodes)
	for i := range all {
		all[i] = i
	}
	everybody := c.on(all...)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	c.working(ctx, func() {
		c.after(ctx, "before", everybody, time.Now(), time.Now(), time.Minute)
		if err := server.Snapshot(snapshot); err != nil {
			t.Fatal(err)
		}
		for i := range *roundsFlag {
			c.links(ctx, i)
			c.stopped(ctx, everybody)
			c.compacted(ctx, everybody)
			if *longFlag {
				c.killed(ctx, "API server killed", startTook)
			}
			if err := server.Compact(ctx); err != nil {
				t.Fatal(err)
			}
			c.killed(ctx, "etcd compacted, API server killed", startTook)
		}
	})
	// The workload rests: once the new history has caught up with the old
	// resourceVersions nobody can know any more that there was another one.
	c.restored(ctx, snapshot)
	c.working(ctx, func() { c.after(ctx, "after all", everybody, time.Now(), time.Now(), time.Minute) })

	phase("%s: quiet; comparing", t.Name())
	c.compare(ctx)
}

// working runs f while the workload changes pods.
func (c *chaos) working(ctx context.Context, f func()) {
	ctx, stop := context.WithCancel(ctx)
	var workload sync.WaitGroup
	defer workload.Wait()
	defer stop()
	workload.Go(func() { c.writer.churn(ctx, chaosNodes, churnPace) })
	f()
}

// stopped stops the API server for a while. Its sockets stay open.
func (c *chaos) stopped(ctx context.Context, seats []*seat) {
	c.rounds++
	began := time.Now()
	if err := c.server.Pause(); err != nil {
		c.Fatal(err)
	}
	pause(ctx, linkOutage)
	if err := c.server.Resume(); err != nil {
		c.Fatal(err)
	}
	const fault = "API server stopped (SIGSTOP)"
	ours := c.after(ctx, fault, seats, began, time.Now(), time.Minute)
	if n := ours.requests.syncs(); n > 0 {
		c.Errorf("%s: the watches could be resumed, and nodewatch asked for the collection %d times", fault, n)
	}
}

// compacted drops etcd's history. Whoever watches needs none of it.
func (c *chaos) compacted(ctx context.Context, seats []*seat) {
	c.rounds++
	began := time.Now()
	if err := c.server.Compact(ctx); err != nil {
		c.Fatal(err)
	}
	const fault = "etcd compacted"
	ours := c.after(ctx, fault, seats, began, time.Now(), time.Minute)
	if ours.requests != (counts{}) {
		c.Errorf("%s: nodewatch made requests for nothing: %v", fault, ours.requests)
	}
}

// killed kills the API server for about ten seconds.
func (c *chaos) killed(ctx context.Context, fault string, startTook time.Duration) {
	asked := c.expired()
	began := time.Now()
	c.outage(ctx, fault, time.Minute, func() error { return c.server.RestartAfter(ctx, downFor, startTook) })
	// A server that was started again tells most watches that they expired.
	var n counts
	for _, s := range c.seats {
		if s.library == nodewatch.name {
			since, _ := s.tally.between(began, time.Now())
			n.add(since)
		}
	}
	if told := c.expired() - asked; n.syncs() > told {
		c.Errorf("%s: nodewatch asked for the collection %d times, and only %d watches could not be resumed", fault, n.syncs(), told)
	}
}

// downFor is how long the API server is down.
const downFor = 10 * time.Second

// restored puts etcd back to a snapshot, so that resourceVersions go back and
// the history that clients know never happened.
func (c *chaos) restored(ctx context.Context, snapshot string) {
	c.outage(ctx, "etcd restored, resourceVersions went back", restoreLimit, func() error {
		return c.server.Restore(ctx, snapshot)
	})
}

// restoreLimit: a client may wait for half a minute before it comes back, and
// then the absence of the minute's bookmark is noticed after 75 s.
const restoreLimit = 2 * time.Minute

// outage takes the API server away while do runs. Half of the clients are
// refused meanwhile, the other half is behind a load balancer that accepts and
// then resets.
func (c *chaos) outage(ctx context.Context, fault string, limit time.Duration, do func() error) {
	c.rounds++
	phase("%s: %s", c.Name(), fault)
	var direct, balanced []*seat
	for i := range chaosNodes {
		if i%2 == 0 {
			direct = append(direct, c.on(i)...)
		} else {
			balanced = append(balanced, c.on(i)...)
		}
	}
	began := time.Now()
	for _, s := range direct {
		s.relay.Refuse()
	}
	if err := do(); err != nil {
		c.Fatal(err)
	}
	for _, s := range direct {
		if err := s.relay.Accept(); err != nil {
			c.Fatal(err)
		}
	}
	ready := time.Now()
	var wait sync.WaitGroup
	wait.Go(func() { c.after(ctx, fault, direct, began, ready, limit) })
	wait.Go(func() { c.after(ctx, fault+", behind a load balancer", balanced, began, ready, limit) })
	wait.Wait()
}

// expired is how often nodewatch was told that it has to list.
func (c *chaos) expired() int {
	n := 0
	for _, s := range c.seats {
		if s.restarts == nil {
			continue
		}
		for why, times := range s.restarts() {
			switch why {
			case reason.Expired, reason.RVTooLarge, reason.RVRegressed, reason.Replay:
				n += int(times)
			}
		}
	}
	return n
}

// settleLimit is how long the stores may take to be the server's state when
// nothing happens any more.
const settleLimit = 30 * time.Second

// compare waits for all stores and ledgers to be the server's state, and counts
// what differs in the end.
func (c *chaos) compare(ctx context.Context) {
	want := map[string]versions{}
	for _, s := range c.seats {
		if want[s.node] == nil {
			state, err := c.writer.state(ctx, s.node)
			if err != nil {
				c.Fatal(err)
			}
			want[s.node] = state
		}
	}
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	totals := map[string]*total{}
	for _, s := range c.seats {
		stored, folded := 0, 0
		for {
			pods, _ := s.ledger.copied()
			stored, folded = want[s.node].differ(s.stored()), want[s.node].differ(pods)
			limit := settleLimit
			if s.library == clientGo.name && !*longFlag {
				limit = shortPatience
			}
			if stored+folded == 0 || time.Since(began) > limit {
				break
			}
			<-tick.C
		}
		sum := totals[s.library]
		if sum == nil {
			sum = &total{}
			totals[s.library] = sum
		}
		n, _ := s.tally.between(time.Time{}, time.Now())
		sum.add(n, stored, folded, s.ledger)
		if _, faults := s.ledger.copied(); s.library == nodewatch.name && len(faults) > 0 {
			c.Errorf("nodewatch on %s: its events contradict themselves:\n%s", s.node, strings.Join(faults, "\n"))
		}
		if s.library == nodewatch.name && stored+folded > 0 {
			pods, _ := s.ledger.copied()
			c.Errorf("nodewatch on %s: %d objects differ in the store, %d in what the events add up to\nserver %v\nstore  %v\nfolded %v\nends %v",
				s.node, stored, folded, want[s.node], s.stored(), pods, s.restarts())
		}
	}
	for _, l := range libraries {
		sum := totals[l.name]
		results.add("End state", []string{"client", "clients", "events", "objects lost (store)", "objects lost (events)", "LIST", "watch-list", "WATCH"},
			l.name, sum.clients, sum.events, sum.stored, sum.folded, sum.requests[list], sum.requests[watchList], sum.requests[watch])
	}
	if totals[nodewatch.name].events == 0 {
		c.Error("there were no events")
	}
}

// total is a library's whole run.
type total struct {
	clients, events, stored, folded int
	requests                        counts
}

func (t *total) add(n counts, stored, folded int, l *ledger) {
	t.clients++
	t.stored += stored
	t.folded += folded
	t.requests.add(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.events += l.events
}
