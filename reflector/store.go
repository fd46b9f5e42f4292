package reflector

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Store is the collection as a reflector knows it: typed objects by namespace
// and name, with indexes.
//
// The stored objects are SHARED AND IMMUTABLE. Get, All, By and events hand out
// the very object that the store, its indexes and every other consumer hold, and
// by default (ObjectsShared) its maps, slices and what its pointers point to are parts of other
// objects, too. Whoever wants to change one makes a deep copy first; a write into a stored
// object is a data race and corrupts everybody's view. Package mutationtest finds such writes
// in tests. Only a compact store (ObjectsCompact) makes an object for each read.
//
// All exported methods are safe from any goroutine, and none of them is held up
// by a consumer: no lock is held while a consumer's code runs. A Store is
// filled by one reflector; a second one is refused by its Run.
//
// Memory: beside the objects about 140 bytes for each, and 40 for each value of an index. Keys, UIDs
// and resourceVersions are the strings that the objects have themselves, so who keeps an
// Event's Key for longer than the object keeps the text of the object with it, and better
// keeps a copy. No object that stays keeps a response, a page or a deleted neighbour
// alive, and tables shrink when the collection does.
//
// Promises, with their tests:
//   - After every list or watch-list the store equals the server's collection at that RV. Test:
//     TestReplace, TestSeeds.
//   - What kept UID and RV is untouched (no event, no decode, no allocation). Test:
//     TestUnchangedTouchesNothing, TestRelistOfUnchangedAllocatesAConstant.
type Store[T any] struct {
	indexes []Index[T]

	// One goroutine, the reflector's, changes what mu guards. It therefore
	// reads without mu and takes it only to change.
	mu      sync.RWMutex
	objects table[T]
	byIndex []indexTable[T] // parallel to indexes
	// subscribers get each change while mu is held for writing, which makes
	// snapshot and changes of a subscription one sequence without gap or double.
	subscribers []subscriber[T]
	synced      bool
	syncedRV    string // of the last complete list
	claimed     bool
	ended       bool           // no change will ever come
	tombstones  *tombstones[T] // nil where none are kept

	// blockers is how many subscribers there are that the writer may have to wait for.
	blockers atomic.Int32

	// Only the writer touches these.
	epoch  uint32          // of the last replacement that was begun
	open   *replacement[T] // nil when none is under way
	stop   <-chan struct{} // ends the waits for room; nil: there are none
	waited time.Duration   // for room, in all

	delivery delivery
}

// subscriber is told each change of a store while the store's lock is held for
// writing, so it must not call the store and must not wait for anybody. One that wants to be
// waited for is a blocker, too.
type subscriber[T any] interface {
	push(c change[T], now time.Time)
	// end says that nothing will be pushed any more.
	end()
	stats(now time.Time) Mailbox
}

// outcome is what became of one event.
type outcome uint8

const (
	applied   outcome = iota + 1
	duplicate         // same UID and resourceVersion as stored
	stale             // older than what is stored, or about an object that was replaced
	ignored           // a delete of an object that is not there
)

// NewStore returns an empty store. It panics when an index has no name or no
// Values, or when two have the same name: such a program is wrong before it
// sees an object.
func NewStore[T any](indexes ...Index[T]) *Store[T] {
	checkIndexes(indexes)
	s := &Store[T]{indexes: indexes, byIndex: make([]indexTable[T], len(indexes))}
	s.delivery.handler.bounds = handlerBounds
	return s
}

// Get returns the object. It is shared and immutable; of a compact store it is a new one.
func (s *Store[T]) Get(namespace, name string) (T, bool) {
	k := decode.Key{Namespace: namespace, Name: name}
	s.mu.RLock()
	e := s.objects.find(k)
	s.mu.RUnlock()
	if e == nil {
		var zero T
		return zero, false
	}
	return e.object(k), true
}

// Len returns how many objects there are.
func (s *Store[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.n
}

// All ranges over all objects, in no particular order. What is ranged over is
// the collection at the moment when the range statement starts: the price is
// one slice of pointers (8 bytes an object), and the loop's body runs without
// any lock, may take its time and may call the store. Changes that come
// meanwhile are not seen.
func (s *Store[T]) All() iter.Seq2[decode.Key, T] {
	return func(yield func(decode.Key, T) bool) {
		s.mu.RLock()
		snapshot := s.objects.entries()
		s.mu.RUnlock()
		yieldEntries(snapshot, yield)
	}
}

func yieldEntries[T any](entries []*entry[T], yield func(decode.Key, T) bool) {
	for _, e := range entries {
		if !yield(e.key, e.object(e.key)) {
			return
		}
	}
}

// find returns what is stored under k, or nil. It is the writer's alone.
func (s *Store[T]) find(k decode.Key) *entry[T] { return s.objects.find(k) }

// claim makes the caller the one writer of the store.
func (s *Store[T]) claim() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := !s.claimed
	s.claimed = true
	return free
}

// end says that no change will come any more: subscribers get what they have
// not read yet, and then their loops end. What is stored stays readable.
func (s *Store[T]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, m := range s.subscribers {
		m.end()
	}
	s.tombstones.stop()
}

// upsert applies an ADDED or MODIFIED event; old is what is stored under its key, or nil. A different
// UID under a known name is a delete of the old object, whose last state nobody saw, and an add of the
// new one. An object that comes while a replacement is open counts as seen.
//
// When a Values function of an index panics, the store is as it was.
func (s *Store[T]) upsert(old *entry[T], m *decode.Meta, c content[T]) outcome {
	if old != nil && old.uid == m.UID {
		if olderRV(m.ResourceVersion, old.rv) {
			if s.open != nil {
				s.open.hold(old, m, heldItem[T]{draft: s.newEntry(old, m, c)})
			}
			return stale
		}
		if old.rv == m.ResourceVersion {
			old.seen = s.epoch
			s.forgetHeld(old.key)
			return duplicate
		}
	}
	d := s.newEntry(old, m, c)
	s.set(old, d)
	s.forgetHeld(d.key)
	return applied
}

// forgetHeld drops what an open replacement holds of k.
func (s *Store[T]) forgetHeld(k decode.Key) {
	if s.open != nil {
		s.open.forget(k)
	}
}

// set makes d the stored version; old is what is stored under its key, or nil.
func (s *Store[T]) set(old *entry[T], d draft[T]) {
	e := d.entry
	s.awaitRoom()
	s.mu.Lock()
	defer s.mu.Unlock()
	if old != nil && old.uid != e.uid {
		s.dropLocked(old, old, true)
		old = nil
	}
	reindex(s.byIndex, old, d)
	if old == nil {
		s.tombstones.revive(e.uid)
		s.objects.put(e)
		s.publishLocked(change[T]{typ: Added, e: e})
		return
	}
	s.objects.replace(old, e)
	s.publishLocked(change[T]{typ: Modified, e: e, old: old})
}

// remove applies a DELETED event; old is what is stored under its key, or nil. final is the state
// that the event carries; without one (it did not decode) the stored version is the last that is known,
// and the event says FinalStateUnknown. An event about another UID than the
// stored one never deletes: it is late news of an object that was replaced. Nor
// does one that is older than what is stored. A server that leaves the UID out
// is taken to mean the stored object.
func (s *Store[T]) remove(old *entry[T], m *decode.Meta, final content[T], haveFinal bool) outcome {
	if old == nil {
		return ignored
	}
	if m.UID != "" && m.UID != old.uid {
		return stale
	}
	last := old
	if haveFinal {
		last = old.ended(m, final)
	}
	if olderRV(m.ResourceVersion, old.rv) {
		if s.open != nil {
			s.open.hold(old, m, heldItem[T]{draft: draft[T]{entry: last}, gone: true, unknown: !haveFinal})
		}
		return stale
	}
	s.drop(old, last, !haveFinal)
	s.forgetHeld(old.key)
	return applied
}

// replaced notes that another object took the name of a stored one, and does
// not decode: the stored one is gone, and nobody saw how.
func (s *Store[T]) replaced(m *decode.Meta) {
	if old := s.find(m.Key()); old != nil && old.uid != m.UID {
		s.drop(old, old, true)
		s.forgetHeld(old.key)
	}
}

// drop takes e out and tells it with its last state, which may be e.
func (s *Store[T]) drop(e, last *entry[T], unknown bool) {
	s.awaitRoom()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(e, last, unknown)
}

func (s *Store[T]) dropLocked(e, last *entry[T], unknown bool) {
	var values [][]string
	if s.tombstones != nil {
		values = e.valuesIn(s.byIndex)
	}
	unindex(e)
	s.objects.delete(e)
	s.tombstones.add(last, values, unknown)
	s.publishLocked(change[T]{typ: Deleted, e: last, old: e, unknown: unknown})
}

func (s *Store[T]) publishLocked(c change[T]) {
	if len(s.subscribers) == 0 {
		return
	}
	now := time.Now()
	for _, m := range s.subscribers {
		m.push(c, now)
	}
}

// subscribe returns a mailbox that begins with the collection as it is now,
// then Synced if a list was complete, and gets every change from now on.
func (s *Store[T]) subscribe(sub Subscription[T]) *mailbox[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := newMailbox(sub.Name, sub.Policy, sub.Limit, s.objects.entries(), time.Now())
	s.joinLocked(m, m.since)
	return m
}

// joinLocked makes sub, which has what is stored, a subscriber.
func (s *Store[T]) joinLocked(sub subscriber[T], now time.Time) {
	if s.synced {
		sub.push(syncedAt[T](s.syncedRV), now)
	}
	if s.ended {
		sub.end()
	}
	s.subscribers = append(s.subscribers, sub)
	if mayBlock(sub) {
		s.blockers.Add(1)
	}
}

func (s *Store[T]) unsubscribe(sub subscriber[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsubscribeLocked(sub)
}

func (s *Store[T]) unsubscribeLocked(sub subscriber[T]) {
	for i, have := range s.subscribers {
		if have == sub {
			// A fresh slice: the old array must not keep the mailbox alive.
			rest := make([]subscriber[T], 0, len(s.subscribers)-1)
			s.subscribers = append(append(rest, s.subscribers[:i]...), s.subscribers[i+1:]...)
			s.delivery.over(sub.stats(time.Time{}))
			if mayBlock(sub) {
				s.blockers.Add(-1)
			}
			return
		}
	}
}
