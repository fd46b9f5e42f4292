package reflector

import (
	"testing"
	"time"

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
	def := backoff{min: defaultBackoffMin, max: defaultBackoffMax}
	at := func(steps int) backoff { b := def; b.steps = steps; return b }
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
		// … and the upper half where it answers, but is sick.
		{at(0), calm, 0, 400*ms + 1, 800 * ms},
		{at(3), calm, 0, 3200*ms + 1, 6400 * ms},
		{at(1000), calm, 0, 15*time.Second + 1, 30 * time.Second},
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
		{backoff{min: minBackoff, max: minBackoff}, spread, 0, 1, minBackoff},
		{backoff{min: minBackoff, max: minBackoff, steps: 99}, denied, 0, 2*minBackoff + 1, 4 * minBackoff},
	} {
		within(t, c.b, c.p, c.hint, c.low, c.high)
	}
}

func TestBackoffNeverZero(t *testing.T) {
	b := backoff{min: minBackoff, max: defaultBackoffMax}
	for range 100 {
		for _, p := range []pace{spread, calm, denied, lagging} {
			if d := b.next(p, 0); d <= 0 {
				t.Fatalf("pace %d waits %v", p, d)
			}
		}
	}
	steps := b.steps
	if d := b.next(atOnce, time.Minute); d != 0 || b.steps != steps {
		t.Errorf("at once waits %v and counts %d steps", d, b.steps-steps)
	}
	b.reset()
	if d := b.next(calm, 0); d > minBackoff {
		t.Errorf("after a reset the wait is %v", d)
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
		if got := paceOf(why); got != p {
			t.Errorf("%s: pace %d, want %d", why, got, p)
		}
	}
}
