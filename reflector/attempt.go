package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// errOutlived is the cause of reason.Deadline on a watch.
var errOutlived = errors.New("the watch outlived the timeout that the server was asked for")

// attempt is one WATCH request and its stream. It knows no retry, and what it
// learned of the connection dies with it.
type attempt[T any] struct {
	sw      *streamwatcher.StreamWatcher[T]
	start   string // the resourceVersion asked for
	asked   time.Time
	opened  time.Time
	timeout time.Duration // what the server was asked for

	ctx    context.Context // ends the request; its cause tells our deadline from the caller
	cancel context.CancelCauseFunc
	timer  *time.Timer
	unhook func() bool

	brought int       // events and bookmarks that were dealt with
	last    time.Time // when the last one of them was
	replays int       // events in a row from before start
	gone    graves    // what the stream deleted
	cadence cadence
	burst   *burst[T] // nil before the watch is followed
}

// openWatch makes one WATCH request. opts comes with its resourceVersion and
// the like; the timeout and the wish for bookmarks are set here.
func (r *Reflector[T]) openWatch(ctx context.Context, opts metav1.ListOptions) (*attempt[T], error) {
	timeout := r.cfg.WatchTimeout + randN(r.cfg.Rand, r.cfg.WatchTimeout)
	seconds := max(int64(timeout/time.Second), 1)
	timeout = time.Duration(seconds) * time.Second
	opts.TimeoutSeconds, opts.AllowWatchBookmarks = &seconds, true

	a := &attempt[T]{start: opts.ResourceVersion, asked: time.Now(), timeout: timeout}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(timeout+margin(timeout), func() { a.cancel(errOutlived) })
	sw, err := r.cfg.ListerWatcher.Watch(a.ctx, opts)
	if err != nil {
		a.timer.Stop()
		err = a.judge(ctx, err)
		a.cancel(nil)
		return nil, err
	}
	a.sw, a.opened = sw, time.Now()
	// The contract says that the stream ends with its context; this makes it so
	// for a ListerWatcher that reads from something else than a socket, too.
	a.unhook = context.AfterFunc(a.ctx, sw.Stop)
	r.seen.opened(sw.LastByte)
	return a, nil
}

// margin is how much longer than asked a watch may live before it is cut: the
// server counts from when it got the request, and says goodbye first.
func margin(timeout time.Duration) time.Duration {
	return min(max(timeout/2, time.Second), 10*time.Second)
}

// next returns the next event. limit is the longest silence.
func (a *attempt[T]) next(ctx context.Context, limit time.Duration) (*streamwatcher.Event[T], error) {
	a.sw.SetIdleTimeout(limit)
	ev, err := a.sw.Next()
	if err != nil {
		return nil, a.judge(ctx, err)
	}
	return ev, nil
}

// judge makes err say whose doing it was: the caller's (ctx), our deadline's, or its own.
func (a *attempt[T]) judge(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return &fault{reason.Stopped, context.Cause(ctx)}
	case errors.Is(context.Cause(a.ctx), errOutlived):
		return &fault{reason.Deadline, fmt.Errorf("%w (%v, and %v more)", errOutlived, a.timeout, margin(a.timeout))}
	}
	return err
}

// close ends the request. What has ended already is not touched.
func (r *Reflector[T]) close(a *attempt[T]) {
	a.unhook()
	a.timer.Stop()
	a.sw.Stop()
	a.cancel(nil)
	r.seen.closed(time.Since(a.asked))
}

// note counts an event or bookmark that was dealt with.
func (a *attempt[T]) note(now time.Time) {
	a.brought++
	a.last = now
}

// health is how long the watch was alive and delivering: up to the last thing
// that it brought, and to its end where it was sound.
func (a *attempt[T]) health(sound bool, now time.Time) time.Duration {
	switch {
	case sound:
		return now.Sub(a.opened)
	case a.brought == 0:
		return 0
	}
	return a.last.Sub(a.opened)
}

// cadence tunes the idle limit of one stream to its bookmarks: "tuned to the
// bookmark cadence seen (3x, at least 30 s, 3 min until the first)", which here is the second: API servers
// send one a minute, but the first may come at any moment (the mark of a
// watch-list, the one before the timeout), so one alone tells nothing yet.
type cadence struct {
	last    time.Time
	longest time.Duration
	seen    int
	waited  time.Duration // for subscribers since last: no part of the cadence
}

// idleLeast is the least of the limits that bookmarks tell.
const idleLeast = 30 * time.Second

func (c *cadence) bookmark(opened, now time.Time) {
	since := c.last
	if c.seen == 0 {
		since = opened
	}
	c.longest = max(c.longest, now.Sub(since)-c.waited)
	c.last, c.waited = now, 0
	c.seen++
}

func (c *cadence) limit() time.Duration {
	if c.seen < 2 {
		return DefaultIdleTimeout
	}
	return max(3*c.longest, idleLeast)
}

// fault is an error that this package found.
type fault struct {
	why reason.Reason
	err error
}

func (f *fault) Error() string              { return f.err.Error() }
func (f *fault) Unwrap() error              { return f.err }
func (f *fault) FaultReason() reason.Reason { return f.why }

// reasonOf names why an attempt ended.
func reasonOf(err error) reason.Reason {
	if why, ok := reason.Of(err); ok {
		return why
	}
	if errors.Is(err, io.EOF) {
		return reason.EOF
	}
	return reason.Transport
}

// statusError is what an ERROR event says.
func (r *Reflector[T]) statusError(s *metav1.Status) error {
	e := listwatch.FromStatus(s)
	e.Resource = r.resource
	return e
}

// retryAfter returns what the answer that err tells of asked for, 0 where it
// asked for nothing or there was none.
func retryAfter(err error) time.Duration {
	var e *listwatch.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

var _ reason.Carrier = (*fault)(nil)
