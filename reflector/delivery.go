package reflector

import (
	"sync/atomic"
	"time"
)

// delivery counts what happens between a store and its subscribers.
type delivery struct {
	coalesced atomic.Uint64 // of subscriptions that are over
	panics    atomic.Uint64 // of handlers, caught
	handler   histogram     // how long a consumer took for one event
}

// deliveryStats is delivery at one moment.
type deliveryStats struct {
	subscribers int
	depth       int           // the longest backlog among them, in events
	age         time.Duration // of the oldest unread event
	coalesced   uint64
	panics      uint64
	handler     Histogram
}

func (s *Store[T]) deliveryStats() deliveryStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := time.Now()
	st := deliveryStats{
		subscribers: len(s.subscribers),
		coalesced:   s.delivery.coalesced.Load(),
		panics:      s.delivery.panics.Load(),
		handler:     s.delivery.handler.snapshot(),
	}
	for _, m := range s.subscribers {
		one := m.stats(now)
		st.depth = max(st.depth, one.depth)
		st.age = max(st.age, one.age)
		st.coalesced += one.coalesced
	}
	return st
}

// handlerBounds span a handler that only takes a note and one that calls a
// remote service.
var handlerBounds = []time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}
