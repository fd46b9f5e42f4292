package reflector

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// within draws the step'th wait at pace p many times.
func within(t *testing.T, b backoff, p pace, hint, low, high time.Duration) {
	t.Helper()
	shortest, longest := time.Duration(1<<62), time.Duration(0)
	for range 2000 {
		one := b
		d := one.next(p, hint)
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < low || longest > high {
		t.Errorf("pace %d, step %d, hint %v: waits from %v to %v, want %v to %v", p, b.steps, hint, shortest, longest, low, high)
	}
	// Nearly the whole range is used: that is what jitter is for.
	if span := high - low; shortest > low+span/20+1 || longest < high-span/20-1 {
		t.Errorf("pace %d, step %d, hint %v: waits only from %v to %v of %v to %v", p, b.steps, hint, shortest, longest, low, high)
	}
}

func TestBackoffPaces(t *testing.T) {
	const ms = time.Millisecond
	def := backoff{min: DefaultBackoffMin, max: DefaultBackoffMax}
	at := func(steps int) backoff { b := def; b.steps = steps; return b }
	placed := func(b backoff) backoff { b.placed = true; return b }
	for _, c := range []struct {
		b               backoff
		p               pace
		hint, low, high time.Duration
	}{
		// "One exponential backoff with full jitter": the whole of (0, b] where the server is down …
		{at(0), spread, 0, 1, 800 * ms},
		{at(1), spread, 0, 1, 1600 * ms},
		{at(5), spread, 0, 1, 25600 * ms},
		{at(6), spread, 0, 1, 30 * time.Second},
		{at(1000), spread, 0, 1, 30 * time.Second},
		// … and not for long where the server is up and the client stood in a queue.
		{at(0), queued, 0, 1, 800 * ms},
		{at(5), queued, 0, 1, 2 * time.Second},
		// Nobody listens: soon at first, then a place in a round of 4 s, then once in each round, for ever.
		{at(0), down, 0, 1, 800 * ms},
		{at(1), down, 0, 1, 3750 * ms},
		{at(1000), down, 0, 1, 3750 * ms},
		{placed(at(2)), down, 0, 3500*ms + 1, 4 * time.Second},
		{placed(at(1000)), down, 0, 3500*ms + 1, 4 * time.Second},
		// The limits that were set hold for that round as well.
		{backoff{min: 10 * ms, max: 800 * ms, steps: 9}, down, 0, 1, 750 * ms},
		{placed(backoff{min: 10 * ms, max: 800 * ms, steps: 9}), down, 0, 700*ms + 1, 800 * ms},
		{placed(backoff{min: 8 * time.Second, max: time.Minute}), down, 0, 7*time.Second + 1, 8 * time.Second},
		// … and the upper half where it answers, but is sick.
		{at(0), calm, 0, 400*ms + 1, 800 * ms},
		{at(3), calm, 0, 3200*ms + 1, 6400 * ms},
		{at(1000), calm, 0, 15*time.Second + 1, 30 * time.Second},
		// A watch that was ended early: the same, up to the round of a server that is down.
		{at(0), brief, 0, 400*ms + 1, 800 * ms},
		{at(2), brief, 0, 1600*ms + 1, 3200 * ms},
		{at(1000), brief, 0, 2*time.Second + 1, 4 * time.Second},
		// A quiet watch that was well: soon, for as long as that goes on.
		{at(0), quiet, 0, 1, 400 * ms},
		{at(1000), quiet, 0, 1, 400 * ms},
		// "403/401 back off long".
		{at(0), denied, 0, 3750*ms + 1, 7500 * ms},
		{at(4), denied, 0, time.Minute + 1, 2 * time.Minute},
		{at(1000), denied, 0, time.Minute + 1, 2 * time.Minute},
		// "Retry-After is honoured, capped and jittered."
		{at(0), calm, 2 * time.Second, 2*time.Second + 1, 3 * time.Second},
		{at(0), calm, 24 * time.Hour, time.Minute + 1, 90 * time.Second},
		{at(6), calm, time.Second, 15*time.Second + 1, 30 * time.Second},
		// A server that lags is given a moment, not what it asks for.
		{at(0), lagging, time.Hour, time.Second + 1, 1500 * ms},
		{at(9), lagging, 0, 500*ms + 1, time.Second},
		// Limits that are equal, and the smallest that are allowed.
		{backoff{min: MinBackoff, max: MinBackoff}, spread, 0, 1, MinBackoff},
		{backoff{min: MinBackoff, max: MinBackoff, steps: 99}, denied, 0, 2*MinBackoff + 1, 4 * MinBackoff},
	} {
		within(t, c.b, c.p, c.hint, c.low, c.high)
	}
}

func TestBackoffNeverZero(t *testing.T) {
	b := backoff{min: MinBackoff, max: DefaultBackoffMax}
	for range 100 {
		for _, p := range []pace{spread, down, calm, brief, quiet, denied, lagging} {
			if d := b.next(p, 0); d <= 0 {
				t.Fatalf("pace %d waits %v", p, d)
			}
		}
	}
	b.placed = true
	steps := b.steps
	if d := b.next(atOnce, time.Minute); d != 0 || b.steps != steps {
		t.Errorf("at once waits %v and counts %d steps", d, b.steps-steps)
	}
	// Everybody was there at the same time, and has no place of his own any more.
	if b.placed {
		t.Error("a server that was reached and is down again is not given a new round")
	}
	b.healthy(time.Minute, false)
	if d := b.next(calm, 0); d > MinBackoff {
		t.Errorf("after a reset the wait is %v", d)
	}
}

// "Reset only after a healthy period": one long watch, or several in a row that lived their time.
func TestBackoffHealthy(t *testing.T) {
	type watch struct {
		healthy time.Duration
		whole   bool
	}
	short := watch{9 * time.Second, true}
	for _, c := range []struct {
		max     time.Duration
		watches []watch
		reset   bool
	}{
		{DefaultBackoffMax, []watch{{time.Minute, false}}, true},
		{DefaultBackoffMax, []watch{{time.Minute - 1, false}}, false},
		{DefaultBackoffMax, []watch{short, short, short, short, short, short, short}, true},
		{DefaultBackoffMax, []watch{short, short, short, short, short, short}, false},
		{DefaultBackoffMax, []watch{short, short, short, short, {9 * time.Second, false}, short, short}, false},
		{time.Second, []watch{{2 * time.Second, false}}, true},
	} {
		b := backoff{min: MinBackoff, max: c.max, waits: 5, steps: 5, placed: true}
		for _, w := range c.watches {
			b.healthy(w.healthy, w.whole)
		}
		if reset := b.waits == 0 && b.steps == 0 && !b.placed; reset != c.reset {
			t.Errorf("up to %v, after %v: reset %v, want %v", c.max, c.watches, reset, c.reset)
		}
	}
}

// G2: "200 clients coming back at once: no spike of arrivals".
func TestBackoffSpreadsClients(t *testing.T) {
	for _, p := range []pace{spread, calm} {
		const clients, parts = 20000, 20
		arrivals := make([]int, parts)
		for range clients {
			b := backoff{min: 2 * time.Second, max: 30 * time.Second}
			hint := time.Duration(0)
			low, high := time.Duration(0), 2*time.Second
			if p == calm {
				hint, low, high = 4*time.Second, 4*time.Second, 6*time.Second
			}
			d := b.next(p, hint)
			arrivals[min(int(int64(d-low)*parts/int64(high-low)), parts-1)]++
		}
		for i, n := range arrivals {
			if n > 2*clients/parts || n < clients/parts/2 {
				t.Errorf("pace %d: %d of %d clients arrive in part %d of %d", p, n, clients, i, parts)
			}
		}
	}
}

// "At whatever moment the server is back, the next round of all clients is
// spread evenly over downProbe": nobody comes later, and no part of the round
// has more than its share.
func TestBackoffWhileDown(t *testing.T) {
	const (
		clients = 20000
		part    = 250 * time.Millisecond
		share   = clients / (4000 / 250)
	)
	for _, outage := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute, 10 * time.Minute} {
		arrivals := map[int]int{}
		for i := range clients {
			b := backoff{min: DefaultBackoffMin, max: DefaultBackoffMax, rand: rand.New(rand.NewPCG(uint64(i), 1))}
			at := time.Duration(0)
			for at < outage {
				at += b.next(down, 0)
			}
			late := at - outage
			if late > downProbe {
				t.Fatalf("outage of %v: client %d comes %v after it", outage, i, late)
			}
			arrivals[int(late/part)]++
			// It answers, but is sick: the scale goes on from the round, and has not grown in the meantime.
			if d := b.next(calm, 0); d > 2*downProbe || outage >= 10*time.Second && d <= 2*time.Second {
				t.Fatalf("outage of %v: the wait for a sick server after it is %v", outage, d)
			}
		}
		for i, n := range arrivals {
			if n > share*5/4 {
				t.Errorf("outage of %v: %d of %d clients come in the %d. part of %v, an even share is %d", outage, n, clients, i+1, part, share)
			}
		}
	}
}

// A seed gives the same waits each time.
func TestBackoffRand(t *testing.T) {
	draw := func(seed uint64) (out []time.Duration) {
		b := backoff{min: DefaultBackoffMin, max: DefaultBackoffMax, rand: rand.New(rand.NewPCG(seed, 0))}
		for _, p := range []pace{spread, down, down, calm, denied, lagging} {
			out = append(out, b.next(p, 0))
		}
		return append(out, b.next(calm, time.Second))
	}
	if a, b := draw(1), draw(1); !slices.Equal(a, b) {
		t.Errorf("the same seed gives %v and %v", a, b)
	}
	if a, b := draw(1), draw(2); slices.Equal(a, b) {
		t.Errorf("two seeds give %v", a)
	}
}

func TestPaceOf(t *testing.T) {
	want := map[reason.Reason]pace{
		reason.Transport: spread, reason.Expired: spread,
		reason.Forbidden: denied, reason.Unauthorized: denied,
	}
	for _, why := range reason.All() {
		p, ok := want[why]
		if !ok {
			p = calm
		}
		if got := paceOf(why, errors.New("x")); got != p {
			t.Errorf("%s: pace %d, want %d", why, got, p)
		}
	}
}

// Only an attempt that reached nobody makes a server down.
func TestUnreached(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	sys := func(call string, errno syscall.Errno) error { return os.NewSyscallError(call, errno) }
	refused := op("dial", sys("connect", syscall.ECONNREFUSED))
	asError := func(why reason.Reason, err error) error {
		return &listwatch.Error{Reason: why, Verb: "watch", Err: &url.Error{Op: "Get", URL: "https://server", Err: err}}
	}
	for _, c := range []struct {
		name string
		err  error
		want pace
	}{
		{"refused", asError(reason.Transport, refused), down},
		{"no route", asError(reason.Transport, op("dial", sys("connect", syscall.EHOSTUNREACH))), down},
		{"network down", asError(reason.Transport, op("dial", sys("connect", syscall.ENETUNREACH))), down},
		{"proxy refused", asError(reason.Transport, op("proxyconnect", refused)), down},
		{"ended in the TLS handshake", &listwatch.Error{Reason: reason.Transport, Verb: "watch", Unsent: true, Err: io.EOF}, down},
		{"proxy answers that it cannot", asError(reason.Transport, op("proxyconnect", errors.New("Bad Gateway"))), spread},
		{"first packet lost", asError(reason.Transport, op("dial", sys("connect", syscall.ETIMEDOUT))), spread},
		{"dial timeout", asError(reason.Deadline, &listwatch.TimeoutError{Waiting: "a connection"}), calm},
		{"unknown name", asError(reason.Transport, op("dial", &net.DNSError{Err: "no such host", IsNotFound: true})), spread},
		{"reset", asError(reason.Transport, op("read", sys("read", syscall.ECONNRESET))), spread},
		{"no route in the middle", asError(reason.Transport, op("read", sys("read", syscall.EHOSTUNREACH))), spread},
		{"cut", asError(reason.Transport, io.ErrUnexpectedEOF), spread},
		{"no network", errors.New("read from a file"), spread},
	} {
		if got := paceOf(reasonOf(c.err), c.err); got != c.want {
			t.Errorf("%s (%v): pace %d, want %d", c.name, c.err, got, c.want)
		}
	}
}
