package reflector

import (
	"fmt"
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
	if len(full) == 0 {
		return "" // it is over meanwhile
	}
	return fmt.Sprintf("for room in the mailboxes of %d blocking subscribers (%s) since %s",
		len(full), strings.Join(full, ", "), since.UTC().Format(time.RFC3339))
}

// handlerBounds span a handler that only takes a note and one that calls a
// remote service.
var handlerBounds = []time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}
