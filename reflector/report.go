package reflector

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// denial is the last refusal that was told in full.
type denial struct {
	what string
	at   time.Time
}

// denialRepeat is how often the same refusal is told again.
const denialRepeat = time.Hour

// An outage is what lies between two healthy watches. So many failures of it are
// told aloud, each step of the backoff among them, and after them one in each
// toldEvery. Of a server that is down they are about the first minute.
const (
	toldAloud = 16
	toldEvery = time.Minute
)

// failures is what was told of an outage.
type failures struct {
	at     time.Time // when the last one was told aloud
	untold int       // how many there were since
}

// aloud notes a failure, the one before the attempt'th wait of an outage. It
// reports whether to tell it aloud, and if so how many failures there were since
// the last one that was told, this one among them.
func (f *failures) aloud(attempt int, now time.Time) (tries int, tell bool) {
	f.untold++
	if attempt > toldAloud && now.Sub(f.at) < toldEvery {
		return 0, false
	}
	tries = f.untold
	if attempt <= toldAloud {
		tries = 1 // those before were of another outage
	}
	*f = failures{at: now}
	return tries, true
}

// report logs a transition. The keys are stable: reflector, resource, state,
// next, reason, rv, attempt, delay, tries, err.
//
// A server that is away is asked every few seconds, for hours perhaps: the first
// failures of an outage (toldAloud) are warnings, then one a minute at most with the
// number of tries since the one before. The others are debug lines.
func (r *Reflector[T]) report(ctx context.Context, from state, e exit, next state, delay time.Duration, attempt int) {
	level := slog.LevelWarn
	switch e.why {
	case "", reason.EOF:
		level = slog.LevelDebug
	case reason.Stopped, reason.Expired:
		level = slog.LevelInfo
	case reason.WatchListUnsupported:
		if delay == 0 { // a list follows
			level = slog.LevelInfo
		}
	case reason.Forbidden, reason.Unauthorized:
		if r.denied(ctx, e.err, delay) {
			level = slog.LevelDebug
		}
	}
	tries := 1
	if level == slog.LevelWarn {
		told := false
		if tries, told = r.failures.aloud(attempt, time.Now()); !told {
			level = slog.LevelDebug
		}
	}
	if !r.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("state", string(from.name())), slog.String("next", string(next.name())), slog.String("rv", r.session.rv),
	}
	if e.why != "" {
		attrs = append(attrs, slog.String("reason", string(e.why)))
	}
	if delay > 0 {
		attrs = append(attrs, slog.Int("attempt", attempt), slog.Duration("delay", delay.Round(time.Millisecond)))
	}
	if tries > 1 {
		attrs = append(attrs, slog.Int("tries", tries))
	}
	if e.err != nil && e.why != reason.EOF && e.why != reason.Stopped {
		attrs = append(attrs, slog.Any("err", e.err))
	}
	r.log.LogAttrs(ctx, level, said(from, e.why), attrs...)
}

// said is the message of a transition.
func said(from state, why reason.Reason) string {
	if why == reason.Stopped {
		return "stopped"
	}
	if why == "" {
		return "state changed"
	}
	switch from.name() {
	case StateListing:
		return "list failed"
	case StateWatchListing:
		return "watch-list failed"
	case StateWatching:
		return "watch ended"
	case StateBackingOff, StateStopped:
	}
	return "state changed"
}

// denied tells a refusal so that whoever reads it can mend it: verb, resource,
// user, and in err the rule where a node broke it. The same one is told again
// after an hour only. It reports whether err is such a refusal, so that nobody
// else needs to tell it.
func (r *Reflector[T]) denied(ctx context.Context, err error, delay time.Duration) bool {
	var e *listwatch.Error
	if !errors.As(err, &e) {
		return false
	}
	what := strings.Join([]string{string(e.Reason), e.Verb, e.User}, "|")
	if what == r.denial.what && time.Since(r.denial.at) < denialRepeat {
		return true
	}
	r.denial = denial{what: what, at: time.Now()}
	attrs := []slog.Attr{
		slog.String("reason", string(e.Reason)), slog.String("verb", e.Verb),
		slog.Duration("delay", delay.Round(time.Millisecond)), slog.Any("err", err),
	}
	if e.User != "" {
		attrs = append(attrs, slog.String("user", e.User))
	}
	message := "access denied: the server does not accept the credentials to " + e.Verb + " " + r.cfg.Resource
	if e.Reason == reason.Forbidden {
		message = "access denied: this user needs the verbs list and watch on " + r.cfg.Resource
	}
	r.log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
	return true
}
