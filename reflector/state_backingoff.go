package reflector

import (
	"context"
	"time"
)

// backingOff: a wait between two attempts.
//
// Exits, without a reason since no attempt ended:
//   - the state that was put off, when the wait is over;
//   - stopped, when ctx ends.
type backingOff struct {
	until time.Time
	delay time.Duration
	then  state
	quiet bool // the wait after a quiet watch, which may come again and again
}

func (backingOff) name() State { return StateBackingOff }

func (b backingOff) detail() string { return "then " + string(b.then.name()) }

func (r *Reflector[T]) wait(ctx context.Context, b backingOff) exit {
	began := time.Now()
	timer := time.NewTimer(time.Until(b.until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.seen.update(func(_ *Status, c *Stats) { c.BackoffTotal += time.Since(began) })
	if !b.quiet {
		r.session.waited = time.Now() // and what follows from the next answer may go at once
	}
	return exit{next: b.then}
}
