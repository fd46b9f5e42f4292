package reflector

import (
	"math/rand/v2"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// pace says how soon the next attempt may come.
type pace uint8

const (
	// atOnce: no wait. Only for what cannot repeat itself without a wait in between.
	atOnce pace = iota
	// spread: the server is down (no answer at all), or it forgot its history,
	// as it does when it restarts. Every client notices in the same instant, so
	// the wait is uniform over (0, b]: full jitter, which spreads the arrivals
	// evenly and lets a few clients back soon.
	spread
	// calm: the server answers but is sick (429, 5xx, silence). It is busy with
	// the work it has, so nobody comes back early: uniform over [b/2, b].
	calm
	// denied: 401 or 403. A human or a controller has to act first; each try
	// costs the server an authorization and an audit record. Its own, longer
	// scale, half jittered like calm.
	denied
	// lagging: the server asked for a moment to catch up with a
	// resourceVersion. One short wait, whatever it names.
	lagging
)

const (
	// maxRetryAfter caps what a server may ask for, so that a typo of it (99999)
	// does not take a client out for a day.
	maxRetryAfter = time.Minute
	// maxLag caps the wait for a lagging server: what is behind for longer is
	// not behind, it is another history.
	maxLag = time.Second
	// deniedFactor: refusals wait from Max/deniedFactor to Max*deniedFactor.
	deniedFactor = 4
)

// paceOf is how to go on after why where nothing more is known.
func paceOf(why reason.Reason) pace {
	switch why {
	case reason.Transport, reason.Expired:
		return spread
	case reason.Forbidden, reason.Unauthorized:
		return denied
	}
	return calm
}

// backoff is the one exponential backoff of a reflector. It grows with each
// wait and is reset by a healthy watch only (see session.healthy), never by one
// good LIST: a server that lists and refuses to watch would be listed for ever.
type backoff struct {
	min, max time.Duration
	steps    int // waits since the last healthy period
}

// next returns the wait before the next attempt, which is 0 for atOnce only.
// hint is what the server asked for (Retry-After), 0 for nothing. The wait is
// never shorter than the hint, up to maxRetryAfter, and longer by up to half of
// it, because the server told the same number to everybody.
func (b *backoff) next(p pace, hint time.Duration) time.Duration {
	var wait time.Duration
	switch p {
	case atOnce:
		return 0
	case spread:
		wait = uniform(0, grown(b.min, b.max, b.steps))
	case calm:
		limit := grown(b.min, b.max, b.steps)
		wait = uniform(limit/2, limit)
	case denied:
		limit := grown(max(b.max/deniedFactor, b.min), b.max*deniedFactor, b.steps)
		wait = uniform(limit/2, limit)
	case lagging:
		limit := min(grown(b.min, b.max, b.steps), maxLag)
		wait = uniform(limit/2, limit)
		hint = min(hint, maxLag)
	}
	b.steps++
	if hint = min(hint, maxRetryAfter); hint > 0 {
		wait = max(wait, uniform(hint, hint+hint/2))
	}
	return wait
}

func (b *backoff) reset() { b.steps = 0 }

// grown is from doubled steps times, at most limit.
func grown(from, limit time.Duration, steps int) time.Duration {
	for range steps {
		if from >= limit/2 {
			return limit
		}
		from *= 2
	}
	return min(from, limit)
}

// uniform returns a time in (low, high].
func uniform(low, high time.Duration) time.Duration {
	if high <= low {
		return high
	}
	return low + 1 + rand.N(high-low)
}
