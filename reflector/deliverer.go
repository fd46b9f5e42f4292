package reflector

import (
	"context"
	"iter"
	"log/slog"
	"time"
)

// events is a subscription of its own for each range. A wrong sub panics here, not in the range.
func (s *Store[T]) events(ctx context.Context, sub Subscription[T], log *slog.Logger) iter.Seq[Event[T]] {
	if err := sub.Validate(); err != nil {
		panic(err.Error())
	}
	sub = sub.withDefaults()
	return func(yield func(Event[T]) bool) {
		d := s.deliver(sub, log)
		defer d.end()
		if sub.OnStart != nil {
			sub.OnStart()
		}
		if sub.Policy == Block {
			// A consumer that is told to end may be in its body for long.
			defer context.AfterFunc(ctx, d.m.leave)()
		}
		for ctx.Err() == nil {
			told, more := d.tell(yield)
			if !more {
				return
			}
			if !told {
				d.wait(ctx)
			}
		}
	}
}

// deliverer is the consumer's end of a subscription: it takes what is in the mailbox, leaves out what is
// not wanted, and tells again what is due. One goroutine uses it.
type deliverer[T any] struct {
	s      *Store[T]
	m      *mailbox[T]
	filter *filter[T] // nil: everything is wanted
	replay *replay[T] // nil: nothing is told again
}

func (s *Store[T]) deliver(sub Subscription[T], log *slog.Logger) *deliverer[T] {
	d := &deliverer[T]{s: s, m: s.subscribe(sub)}
	if sub.Where != nil {
		d.filter = &filter[T]{where: sub.Where, panics: &s.delivery.panics, log: log}
	}
	if sub.Replay > 0 {
		d.replay = &replay[T]{every: sub.Replay}
	}
	return d
}

func (d *deliverer[T]) end() {
	d.s.unsubscribe(d.m)
	d.m.leave()
	d.replay.stop()
}

// tell gives yield the next event, if there is one. more is false when yield wants none any more, or when the
// reflector has stopped and the backlog is read. It is not inlined, so that a subscriber that waits has no
// room for events on its stack.
//
//go:noinline
func (d *deliverer[T]) tell(yield func(Event[T]) bool) (told, more bool) {
	ev, told, more := d.take()
	if told {
		began := time.Now()
		more = yield(ev)
		d.s.delivery.handler.observe(time.Since(began))
	}
	return told, more
}

// wait waits until there may be something to tell, or ctx has ended.
func (d *deliverer[T]) wait(ctx context.Context) {
	select {
	case <-d.m.wake:
	case <-d.replay.wait():
	case <-ctx.Done():
	}
}

// tellAgain returns what is due to be replayed.
func (d *deliverer[T]) tellAgain(now time.Time) (ev Event[T], ok bool) {
	e := d.replay.due(d, now)
	if e == nil {
		return ev, false
	}
	ev = change[T]{typ: Modified, e: e}.event()
	ev.Old, ev.Replay = ev.Object, true
	return ev, true
}

// take returns what there is to tell now; more is false when there will never be anything.
func (d *deliverer[T]) take() (ev Event[T], ok, more bool) {
	for {
		c, ok, more := d.m.pop()
		switch {
		case !ok && (!more || d.replay == nil):
			return ev, false, more
		case !ok:
			ev, ok := d.tellAgain(time.Now())
			return ev, ok, true
		case c.tellsNothing():
			ok = false
		case d.filter == nil:
			ev, ok = c.event(), true
		default:
			ev, ok = d.filter.event(c)
		}
		if c.typ == Synced {
			d.replay.begin()
		}
		if ok {
			return ev, true, true
		}
	}
}
