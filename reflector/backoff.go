package reflector

import (
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// pace says how soon the next attempt may come. docs/herd.md has the
// arithmetic behind the waits, and what 2,000 clients make of them.
type pace uint8

const (
	// atOnce: no wait. Only for what cannot repeat itself without a wait in between.
	atOnce pace = iota
	// spread: the connection broke, or the server forgot its history, as it
	// does when it restarts. Every client notices in the same instant, so the
	// wait is uniform over (0, b]: full jitter, which spreads the arrivals
	// evenly and lets a few clients back soon.
	spread
	// down: no server was reached, so the attempt cost the server nothing. It is asked
	// again within downProbe for as long as that lasts: the moment it is back
	// is the moment to be there.
	down
	// queued: the client had a place of its own among all clients and lost it in
	// the queue of a server that was starting. Uniform over (0, b], but not for
	// long, since the server is up.
	queued
	// calm: the server answers but is sick (429, 5xx, silence). It is busy with
	// the work it has, so nobody comes back early: uniform over [b/2, b].
	calm
	// brief: the server ended a watch cleanly after a second or more, long before
	// its time and with nothing in it. A change may come at any moment, so the
	// wait grows to downProbe only: uniform over [b/2, b].
	brief
	// quiet: a watch was silent for a limit of the caller's within which a server
	// need not say anything. As like as not it was well, so the wait is short,
	// uniform over (0, Min/2], and does not grow: with a limit of 2 s, what a dead
	// connection held back is there within 2.5 s.
	quiet
	// denied: 401 or 403. A human or a controller has to act first; each try
	// costs the server an authorization and an audit record. Its own, longer
	// scale, half jittered like calm.
	denied
	// lagging: the server asked for a moment to catch up with a
	// resourceVersion. One short wait, whatever it names.
	lagging
)

const (
	// downProbe is the longest wait for a server that is down, whatever its
	// outage lasted (Backoff.Max, where that is less). So it is how stale a
	// client may be when the server is back, and its inverse is the part of all
	// clients that arrive in each second then.
	downProbe = 4 * time.Second
	// downJitter: waits of downProbe are shorter by up to this part of it.
	// Arrivals at a server that is back are spread as evenly as can be when the
	// waits hardly differ: full jitter would let twice as many come in the
	// first second, for the same longest wait.
	downJitter = 8
	// maxRetryAfter caps what a server may ask for, so that a typo of it (99999)
	// does not take a client out for a day.
	maxRetryAfter = time.Minute
	// maxQueued is over how long those who lost their places are spread.
	maxQueued = 2 * time.Second
	// maxLag caps the wait for a lagging server: what is behind for longer is
	// not behind, it is another history.
	maxLag = time.Second
	// deniedFactor: refusals wait from Max/deniedFactor to Max*deniedFactor.
	deniedFactor = 4
)

// paceOf is how to go on after an attempt that ended with why and err, where
// nothing more is known.
func paceOf(why reason.Reason, err error) pace {
	switch why {
	case reason.Transport:
		if unreached(err) {
			return down
		}
		return spread
	case reason.Expired:
		return spread
	case reason.Forbidden, reason.Unauthorized:
		return denied
	}
	return calm
}

// unreached reports whether err says that no connection to an API server came
// about: refused, no route, network down, or ended in the TLS handshake, as a
// load balancer does whose servers are down. A connection that is not answered at all (a timeout)
// does not count, since an overloaded server drops its first packets too; nor
// does a name that does not resolve, since the name server was asked.
func unreached(err error) bool {
	var e *listwatch.Error
	if errors.As(err, &e) && e.Unsent {
		return true
	}
	for op := (*net.OpError)(nil); errors.As(err, &op); err = op.Err {
		if op.Op != "dial" {
			continue // "proxyconnect" holds the dial of the proxy
		}
		dns := (*net.DNSError)(nil)
		return !op.Timeout() && !errors.As(op.Err, &dns)
	}
	return false
}

// backoff is the one exponential backoff of a reflector. It grows with each
// wait and is reset by a healthy period only (see backoff.healthy), never by one
// good LIST: a server that lists and refuses to watch would be listed for ever.
//
// Waits for a server that is down grow to downProbe only, and take the scale no
// further than that: of a server that was not reached nobody knows that it is
// sick. When it comes back sick, the scale goes on from there.
type backoff struct {
	min, max time.Duration
	rand     *rand.Rand // nil is the runtime's
	waits    int        // since the last healthy period
	steps    int        // how often the scale was doubled since then
	placed   bool       // the last wait was one for a server that is down, over all of downProbe
	// well is how long the last watches were healthy, of which all but the last were sound.
	well time.Duration
}

// next returns the wait before the next attempt, which is 0 for atOnce only.
// hint is what the server asked for (Retry-After), 0 for nothing. The wait is
// never shorter than the hint, up to maxRetryAfter, and longer by up to half of
// it, because the server told the same number to everybody.
func (b *backoff) next(p pace, hint time.Duration) time.Duration {
	limit := grown(b.min, b.max, b.steps)
	var wait time.Duration
	switch p {
	case atOnce:
		b.placed = false // the server was reached
		return 0
	case down:
		b.waits++
		return b.probe(limit)
	case spread:
		wait = b.uniform(0, limit)
	case queued:
		wait = b.uniform(0, min(limit, maxQueued))
	case calm:
		wait = b.uniform(limit/2, limit)
	case brief:
		wait = b.uniform(min(limit, downProbe)/2, min(limit, downProbe))
		if limit >= downProbe {
			b.steps-- // it goes no further than that
		}
	case quiet:
		b.waits++
		b.placed = false
		return b.uniform(0, b.min/2)
	case denied:
		limit = grown(max(b.max/deniedFactor, b.min), b.max*deniedFactor, b.steps)
		wait = b.uniform(limit/2, limit)
	case lagging:
		limit = min(limit, maxLag)
		wait = b.uniform(limit/2, limit)
		hint = min(hint, maxLag)
	}
	b.waits++
	b.steps++
	b.placed = false
	if hint = min(hint, maxRetryAfter); hint > 0 {
		wait = max(wait, b.uniform(hint, hint+hint/2))
	}
	return wait
}

// probe is the wait for a server that is down. The first of an outage is as
// short as any, for the server that is back in a moment. The second gives each
// client a place of its own in a round of downProbe, and the later ones keep it
// there: at whatever moment the server is back, the next round of all clients
// is spread evenly over downProbe.
func (b *backoff) probe(limit time.Duration) time.Duration {
	round := max(min(downProbe, b.max), b.min)
	first := b.steps == 0
	if limit < round {
		b.steps++
	}
	jitter := round / downJitter
	switch {
	case first && limit < round:
		return b.uniform(0, limit)
	case !b.placed:
		b.placed = true
		return b.uniform(0, round-jitter/2) // as long as the later ones on average, so that rounds meet
	}
	return b.uniform(round-jitter, round)
}

// healthy notes how long a watch was healthy, and whether it was sound: it lived
// its time, or long enough until its connection was cut. Enough of that, in one
// watch or in several in a row, begins the backoff anew. Who asks for short
// watches, or is behind a load balancer that cuts what is quiet for a minute, has
// no watch that is long enough by itself. No watch at all is 0, and not sound.
func (b *backoff) healthy(d time.Duration, sound bool) {
	if b.well += d; b.well >= min(2*b.max, time.Minute) {
		b.waits, b.steps, b.placed, b.well = 0, 0, false, 0
	}
	if !sound {
		b.well = 0
	}
}

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
func (b *backoff) uniform(low, high time.Duration) time.Duration {
	if high <= low {
		return high
	}
	return low + 1 + randN(b.rand, high-low)
}

// randN returns a time in [0, n), from the runtime's source where r is nil.
func randN(r *rand.Rand, n time.Duration) time.Duration {
	if r == nil {
		return rand.N(n)
	}
	return time.Duration(r.Int64N(int64(n)))
}
