package reflector

import (
	"sync"
	"time"
)

// blocker is a subscriber for which the reflector may have to wait.
type blocker interface {
	// room returns nil where one more change has room, else a channel that is
	// closed when it is time to ask again. It is called without the store's lock held for writing.
	room() <-chan struct{}
}

// mayBlock reports whether the reflector may ever have to wait for sub. Of mailboxes only those of
// policy Block are waited for; what else has a room, such as the part that a reflector
// has in a union, is asked each time.
func mayBlock[T any](sub subscriber[T]) bool {
	if m, ok := sub.(*mailbox[T]); ok {
		return m.policy == Block
	}
	_, ok := sub.(blocker)
	return ok
}

// room implements blocker.
func (m *mailbox[T]) room() <-chan struct{} {
	if m.policy != Block {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left || m.ended || m.queue.Len() < m.limit {
		return nil
	}
	if m.full == nil {
		m.full, m.fullSince = make(chan struct{}), time.Now()
	}
	return m.full
}

// vacate lets those go on who wait for room. Its caller holds m.mu.
func (m *mailbox[T]) vacate() {
	if m.full != nil {
		close(m.full)
		m.full = nil
	}
}

// room returns nil where every subscriber has room for one more change, else a channel that is
// closed when it is time to ask again.
func (s *Store[T]) room() <-chan struct{} {
	if s.blockers.Load() == 0 {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sub := range s.subscribers {
		if b, ok := sub.(blocker); ok {
			if room := b.room(); room != nil {
				return room
			}
		}
	}
	return nil
}

// awaitRoom holds the writer up until every subscriber has room for one more change, or Run's
// context has ended. The writer calls it before it takes the store's lock, so nobody else waits.
//
// A store that no reflector fills does not wait: it is filled under the lock of another store, whose
// reflector has waited for it.
func (s *Store[T]) awaitRoom() {
	if s.stop == nil {
		return
	}
	room := s.room()
	if room == nil {
		return
	}
	s.delivery.wait.begin()
	for room != nil {
		select {
		case <-room:
			room = s.room()
		case <-s.stop:
			room = nil
		}
	}
	s.waited += s.delivery.wait.end()
}

// wait is the reflector's waiting for room.
type wait struct {
	mu    sync.Mutex
	since time.Time // of the one under way; zero when there is none
	total time.Duration
}

func (w *wait) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
}

func (w *wait) end() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := time.Since(w.since)
	w.total += took
	w.since = time.Time{}
	return took
}

// read returns since when the reflector waits, zero when it does not, and how long it has waited in all.
func (w *wait) read(now time.Time) (since time.Time, total time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total = w.total
	if !w.since.IsZero() {
		total += now.Sub(w.since)
	}
	return w.since, total
}

var _ blocker = (*mailbox[any])(nil)
