package reflector

import (
	"sync"
	"time"

	"github.com/nodewatch-go/nodewatch/internal/linked"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// mailbox is what one subscriber has not read yet. The store pushes and is never
// held up; one consumer pops.
//
// Up to limit pending changes it is a plain queue: every version, in order. What becomes of a
// consumer that is further behind is the policy's:
//
// Coalesce: the pending changes of each object are merged into what the consumer has to know
// (see merge), so that memory is bound by the number of objects: at most two
// pending changes for each object that the consumer knows or that exists, and
// one Synced. It is a plain queue again when the consumer has caught up.
//
// Block: the store asks for room before it pushes (see room).
//
// Resync: the pending changes are dropped (see lag).
type mailbox[T any] struct {
	name   string
	policy Policy
	limit  int
	since  time.Time     // of the subscription
	wake   chan struct{} // holds one token when there may be something to read

	mu sync.Mutex
	// initial is the part of the first snapshot that was not read. It comes
	// before all changes and is not coalesced: pointers, not events.
	initial []*entry[T]
	queue   linked.List[letter[T]]
	// last is the last pending change of each object while the mailbox
	// coalesces, and nil while it does not.
	last map[decode.Key]*linked.Node[letter[T]]
	// marker is the pending Synced while the mailbox coalesces.
	marker *linked.Node[letter[T]]
	resync resync[T] // of that policy
	// full is closed when there is room again or the subscriber has left; nil unless somebody waits.
	full      chan struct{}
	fullSince time.Time
	coalesced uint64 // changes that the consumer will never see
	synced    bool   // the consumer has read a Synced
	ended     bool   // nothing will be pushed any more
	left      bool   // nobody will read any more
}

func newMailbox[T any](name string, policy Policy, limit int, initial []*entry[T], now time.Time) *mailbox[T] {
	m := &mailbox[T]{name: name, policy: policy, limit: limit, initial: initial, since: now, wake: make(chan struct{}, 1)}
	if len(initial) > 0 {
		m.signal()
	}
	return m
}

// signal wakes the consumer; a token that is there already is enough.
func (m *mailbox[T]) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// push adds a change. It never blocks on the consumer.
func (m *mailbox[T]) push(c change[T], now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return
	}
	defer m.signal()
	switch {
	case m.last != nil:
		m.merge(c, now)
	case m.policy == Resync && m.resync.takes(c):
	default:
		m.enqueue(c, now)
		if m.queue.Len() > m.limit {
			m.overflow()
		}
	}
}

// overflow acts on a plain queue that is longer than it may be.
func (m *mailbox[T]) overflow() {
	switch m.policy {
	case Coalesce:
		m.coalesce()
	case Resync:
		m.drop()
	case Block, policiesN: // the store does not push into a full mailbox, but where it must
	}
}

// end says that nothing will be pushed any more.
func (m *mailbox[T]) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.signal()
}

// leave says that nobody will read any more: what is pending is let go, and nobody waits for room.
func (m *mailbox[T]) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	m.initial, m.queue, m.last, m.marker = nil, linked.List[letter[T]]{}, nil, nil
	m.resync = resync[T]{}
	m.vacate()
}

// pop returns what is pending; more is false when nothing will ever be.
func (m *mailbox[T]) pop() (c change[T], ok, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resync.catchUp()
	switch {
	case len(m.initial) > 0:
		c = change[T]{typ: Added, e: m.initial[0]}
		m.initial[0] = nil // the consumer may take long; do not hold what it has
		m.initial = m.initial[1:]
	case len(m.resync.news) > 0:
		c = m.resync.pop()
	case m.queue.Len() > 0:
		c = m.popLetter()
	default:
		m.initial = nil
		return c, false, !m.ended
	}
	c.initial = !m.synced
	m.synced = m.synced || c.typ == Synced
	return c, true, true
}

func (m *mailbox[T]) popLetter() change[T] {
	first := m.queue.First()
	m.queue.Remove(first)
	if m.queue.Len() < m.limit {
		m.vacate()
	}
	l := &first.Value
	if m.last != nil {
		switch last := m.last[l.e.key]; {
		case first == m.marker:
			m.marker = nil
		case last == first:
			delete(m.last, l.e.key)
		default:
			last.Value.before = nil
		}
		if m.queue.Len() == 0 {
			m.last = nil // caught up
		}
	}
	return l.change
}

// coalesce turns the plain queue into a coalescing one.
func (m *mailbox[T]) coalesce() {
	l := m.queue.First()
	m.queue = linked.List[letter[T]]{}
	m.last = make(map[decode.Key]*linked.Node[letter[T]])
	for ; l != nil; l = l.Next() {
		m.merge(l.Value.change, l.Value.at)
	}
}

// merge adds c to a mailbox that coalesces.
func (m *mailbox[T]) merge(c change[T], now time.Time) {
	if c.typ == Synced {
		// Only the last complete list is of interest, and its mark has to
		// stay behind everything that the list brought.
		if m.marker != nil {
			m.queue.Remove(m.marker)
			m.coalesced++
		}
		m.marker = m.enqueue(c, now)
		return
	}
	last := m.last[c.e.key]
	if last == nil {
		m.last[c.e.key] = m.enqueue(c, now)
		return
	}
	merged, how := merge(last.Value.change, c)
	switch how {
	case mergedBoth:
		l := m.enqueue(c, now)
		l.Value.before = last
		m.last[c.e.key] = l
	case mergedOne:
		last.Value.change = merged
		m.last[c.e.key] = last // the key of the version before would keep its text
		m.coalesced++
	case mergedNone:
		m.coalesced += 2
		m.queue.Remove(last)
		if before := last.Value.before; before != nil {
			m.last[before.Value.e.key] = before
		} else {
			delete(m.last, c.e.key)
		}
	}
}

// merging is what is left of two changes of one object.
type merging uint8

const (
	mergedBoth merging = iota + 1 // both, as they are
	mergedOne                     // one that says what the two said
	mergedNone                    // nothing: the consumer need not know of it
)

// merge tells what a consumer that knows neither of two changes of one object,
// b right after a, has to be told.
//
//	Added    Modified  Added, the new version
//	Added    Deleted   nothing
//	Modified Modified  Modified, the new version; Old is the first Old
//	Modified Deleted   Deleted, the final state
//	Deleted  Added     both: the consumer has to let go of the old object first
//
// A store produces no other pair; one that it should not is kept as it is.
func merge[T any](a, b change[T]) (change[T], merging) {
	switch {
	case a.typ == Added && b.typ == Modified:
		b.typ, b.old = Added, nil
		return b, mergedOne
	case a.typ == Added && b.typ == Deleted:
		return change[T]{}, mergedNone
	case a.typ == Modified && b.typ == Modified:
		b.old = a.old
		return b, mergedOne
	case a.typ == Modified && b.typ == Deleted:
		b.old = a.old
		return b, mergedOne
	}
	return change[T]{}, mergedBoth
}

// depthLocked is how many events were not read.
func (m *mailbox[T]) depthLocked() int {
	return len(m.initial) + m.resync.depth() + m.queue.Len()
}

func (m *mailbox[T]) stats(now time.Time) Mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := Mailbox{
		Name: m.name, Policy: m.policy, Limit: m.limit, Since: m.since,
		Depth: m.depthLocked(), Coalesced: m.coalesced, Resyncs: m.resync.n,
	}
	switch {
	case len(m.initial) > 0:
		st.Age = now.Sub(m.since)
	case m.resync.depth() > 0:
		st.Age = now.Sub(m.resync.since)
	case m.queue.Len() > 0:
		st.Age = now.Sub(m.queue.First().Value.at)
	}
	if m.full != nil {
		st.BlockedSince = m.fullSince
	}
	return st
}

// letter is one pending event.
type letter[T any] struct {
	change[T]
	at     time.Time               // when it was pushed; of merged ones the first
	before *linked.Node[letter[T]] // of the same object, while the mailbox coalesces
}

func (m *mailbox[T]) enqueue(c change[T], at time.Time) *linked.Node[letter[T]] {
	e := &linked.Node[letter[T]]{Value: letter[T]{change: c, at: at}}
	m.queue.Push(e)
	return e
}
