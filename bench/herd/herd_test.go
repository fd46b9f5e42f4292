package herd

import (
	"flag"
	"testing"
	"time"
)

var (
	clients = flag.Int("clients", 200, "how many clients the herd has")
	pods    = flag.Int("pods", 2, "how many pods each node has")
	results = flag.String("results", "", "run all schedules, and write RESULTS.md and arrivals.svg into this folder")
)

// Goals of the policy; docs/herd.md has the reasons.
const (
	freshGoal = 4 * time.Second // within which 99 of 100 clients are fresh after readiness
	// overLeast is by how much the peak may exceed the least that any policy
	// can have which reaches freshGoal: jitter, and the noise of a small herd.
	overLeast = 1.4
)

// herd is what the server does to the clients of this run.
func herd() size { return size{*clients, *pods} }

// TestOutage: a server that was down and is back. All are fresh within the goal,
// by the least number of requests, whose peak is near the least that any policy
// can have, and below client-go's where that leaves room for it.
func TestOutage(t *testing.T) {
	schedules := []schedule{
		{down: time.Second},
		{down: time.Second, forgets: true},
		{down: 10 * time.Second},
		{down: 10 * time.Second, forgets: true},
		{down: time.Minute, forgets: true},
		{down: 2 * time.Second, ill: 2 * time.Second, forgets: true}, // serves before it is ready
	}
	if *results != "" {
		schedules = append(outages(), early()...)
	}
	for _, sc := range schedules {
		checkOutage(t, measure(t, sc))
	}
}

func checkOutage(t *testing.T, o outcome) {
	t.Helper()
	sc, ours, theirs := o.schedule, o.ours, o.theirs
	if p99 := ours.freshAfter(0.99); p99 > freshGoal {
		t.Errorf("%s: 99 of 100 clients are fresh after %v, want %v", sc, p99, freshGoal)
	}
	lists, watches, watchLists := ours.total(list), ours.total(watch), ours.total(watchList)
	if lists != 0 || watches != *clients || watchLists != *clients*(sc.perClient()-1) {
		t.Errorf("%s: %d clients made %d LIST, %d WATCH and %d watch-list, want one WATCH each, and one watch-list where that is told 410",
			sc, *clients, lists, watches, watchLists)
	}
	// A client does not know of a server that serves before it is ready, so the
	// least is that of one which is ready at once.
	least := schedule{forgets: sc.forgets}.least(*clients)
	peak, theirPeak := ours.peak(time.Second, requests...), theirs.peak(time.Second, requests...)
	if float64(peak) > overLeast*least {
		t.Errorf("%s: a peak of %d requests a second; the least possible is %.0f", sc, peak, least)
	}
	// After a short outage client-go's own peak leaves room for the goal. (Its
	// waits are not seeded: a tenth for the noise of its small herd.)
	if sc.down <= time.Second && peak > theirPeak*11/10 {
		t.Errorf("%s: a peak of %d requests a second, client-go has %d", sc, peak, theirPeak)
	}
	// Whoever is late has it easy to keep the peak low; neither figure is worth anything alone.
	if mine, other := o.cost(ours), o.cost(theirs); mine >= other {
		t.Errorf("%s: it costs %.0f requests, client-go %.0f", sc, mine, other)
	}
}

// TestSick: a server that is back, but sick. It gets no more requests a second
// than a healthy one.
func TestSick(t *testing.T) {
	schedules := []schedule{
		{down: 10 * time.Second, then: busyHint, ill: 20 * time.Second, forgets: true},
		{down: 10 * time.Second, then: failing, ill: 5 * time.Second, forgets: true},
		{down: 10 * time.Second, then: hanging, ill: 40 * time.Second, forgets: true},
	}
	if *results != "" {
		schedules = sick()
	}
	for _, sc := range schedules {
		checkSick(t, alone(t, sc))
	}
}

func checkSick(t *testing.T, o outcome) {
	t.Helper()
	peak, most := o.ours.peak(time.Second, requests...), overLeast*schedule{forgets: true}.least(*clients)
	if float64(peak) > most {
		t.Errorf("%s: a peak of %d requests a second, a healthy server gets at most %.0f", o.schedule, peak, most)
	}
	if n := o.ours.total(list); n != 0 {
		t.Errorf("%s: %d LIST, want watch-lists only", o.schedule, n)
	}
}

// TestBlip: all connections break at once while the server goes on. client-go
// comes back in the same instant; ours spread over Backoff.Min.
func TestBlip(t *testing.T) {
	o := alone(t, schedule{})
	if peak := o.ours.peak(bin, requests...); peak > *clients/4 {
		t.Errorf("%d of %d clients come back within %v", peak, *clients, bin)
	}
	if p99 := o.ours.freshAfter(0.99); p99 > time.Second {
		t.Errorf("99 of 100 clients are fresh after %v", p99)
	}
}

// TestTold: all clients are told at once to come back after 2 s. "The wait is
// never shorter than the hint, and longer by up to half of it, because the
// server told the same number to everybody."
func TestTold(t *testing.T) {
	const seconds = 2
	count := inHerd(t, nodewatchClient, herd(), func(s *server) {
		s.tally.begin()
		s.tell(seconds)
		time.Sleep(time.Minute)
	})
	from, to := seconds*int(time.Second/bin), seconds*int(time.Second/bin)*3/2
	for i := range count.bins {
		if n := count.in(i, requests); n > 0 && (i < from || i > to) {
			t.Errorf("%d clients come back after %v", n, time.Duration(i)*bin)
		}
	}
	if n := count.total(watch); n != *clients {
		t.Errorf("%d WATCH of %d clients, want one each", n, *clients)
	}
	if even, peak := *clients/(to-from), count.peak(bin, requests...); peak > 2*even {
		t.Errorf("%d clients come back within %v, spread evenly it would be %d", peak, bin, even)
	}
}

// TestReference: client-go in this model is about as late as 300 of its
// informers were in front of a real API server, which was killed and ready again
// after some ten seconds: fresh after 8.8 s (half of them), 14.2 s (99 of 100)
// and 15.1 s (all). The model's server answers at once, so its tail is shorter.
func TestReference(t *testing.T) {
	count := run(t, clientGoClient, reference, size{300, *pods})
	for _, c := range []struct {
		part        float64
		want, about time.Duration
	}{
		{0.5, 8800 * time.Millisecond, time.Second},
		{0.99, 14200 * time.Millisecond, 3 * time.Second},
		{1, 15100 * time.Millisecond, 3 * time.Second},
	} {
		if got := count.freshAfter(c.part); (got - c.want).Abs() > c.about {
			t.Errorf("%v of client-go's informers are fresh after %v, measured were %v", c.part, got, c.want)
		}
	}
	if n := count.total(watchList); n != 300 {
		t.Errorf("%d watch-lists, measured were 300", n)
	}
}
