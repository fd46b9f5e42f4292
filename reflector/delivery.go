package reflector

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// Mailbox is what one subscriber has not taken yet, at one moment.
type Mailbox struct {
	// Name, Policy and Limit are of the Subscription.
	Name   string
	Policy Policy
	Limit  int
	// Since is when it subscribed.
	Since time.Time
	// Depth is how many events are pending, Age how long the oldest of them has been.
	Depth int
	Age   time.Duration
	// Coalesced is how many events were merged into a later one, Resyncs how often what was
	// pending was dropped.
	Coalesced, Resyncs uint64
	// BlockedSince is since when the reflector has been waiting for room in it; zero when it does not.
	BlockedSince time.Time
}

// delivery counts what happens between a store and its subscribers.
type delivery struct {
	coalesced atomic.Uint64 // of subscriptions that are over
	resyncs   atomic.Uint64 // the same
	panics    atomic.Uint64 // of handlers and predicates, caught
	handler   histogram     // how long a consumer took for one event
	wait      wait          // for room
}

// over keeps the counts of a subscription that is over.
func (d *delivery) over(m Mailbox) {
	d.coalesced.Add(m.Coalesced)
	d.resyncs.Add(m.Resyncs)
}

// deliveryStats is delivery at one moment.
type deliveryStats struct {
	mailboxes []Mailbox
	depth     int           // the longest backlog among them, in events
	age       time.Duration // of the oldest unread event
	coalesced uint64
	resyncs   uint64
	panics    uint64
	handler   Histogram
	blocked   time.Time // since when the writer waits for room; zero when it does not
	waited    time.Duration
	retained  int
}

func (s *Store[T]) deliveryStats() deliveryStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := time.Now()
	st := deliveryStats{
		mailboxes: make([]Mailbox, len(s.subscribers)),
		coalesced: s.delivery.coalesced.Load(),
		resyncs:   s.delivery.resyncs.Load(),
		panics:    s.delivery.panics.Load(),
		handler:   s.delivery.handler.snapshot(),
		retained:  s.tombstones.len(),
	}
	st.blocked, st.waited = s.delivery.wait.read(now)
	for i, sub := range s.subscribers {
		one := sub.stats(now)
		st.mailboxes[i] = one
		st.depth = max(st.depth, one.Depth)
		st.age = max(st.age, one.Age)
		st.coalesced += one.Coalesced
		st.resyncs += one.Resyncs
	}
	return st
}

// addTo adds it to what a reflector counts.
func (d deliveryStats) addTo(c *Stats) {
	c.Panics += d.panics
	c.Mailboxes, c.Subscribers, c.HandlerDuration = d.mailboxes, len(d.mailboxes), d.handler
	c.MailboxDepth, c.MailboxAge, c.Coalesced, c.Resyncs = d.depth, d.age, d.coalesced, d.resyncs
	c.BlockedSince, c.BlockedTotal, c.Retained = d.blocked, d.waited, d.retained
}

// blocking says what the writer waits for, in a sentence; it is empty when it does not wait.
func (s *Store[T]) blocking() string {
	since, _ := s.delivery.wait.read(time.Time{})
	if since.IsZero() {
		return ""
	}
	var full []string
	for _, m := range s.deliveryStats().mailboxes {
		if !m.BlockedSince.IsZero() {
			full = append(full, fmt.Sprintf("%q", m.Name))
		}
	}
	return fmt.Sprintf("for room in the mailboxes of %d blocking subscribers (%s) since %s",
		len(full), strings.Join(full, ", "), since.UTC().Format(time.RFC3339))
}

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

// handlerBounds span a handler that only takes a note and one that calls a
// remote service.
var handlerBounds = []time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}
