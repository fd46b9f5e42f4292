package reflector

import (
	"iter"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Store is the collection as a reflector knows it: typed objects by namespace
// and name, with indexes.
//
// The stored objects are SHARED AND IMMUTABLE. Get, All, By and events hand out
// the very object that the store, its indexes and every other consumer hold.
// Whoever wants to change one makes a deep copy first; a write into a stored
// object is a data race and corrupts everybody's view.
//
// All exported methods are safe from any goroutine, and none of them is held up
// by a consumer: no lock is held while a consumer's code runs. A Store is
// filled by one reflector; a second one is refused by its Run.
//
// Memory: an object is held alone. Keys and index values are copies, so that no
// object that stays keeps a response, a page or a deleted neighbour alive, and
// the maps shrink when the collection does.
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
	objects shrinkingMap[decode.Key, *entry[T]]
	byIndex []indexTable[T] // parallel to indexes
	// subscribers get each change while mu is held for writing, which makes
	// snapshot and changes of a subscription one sequence without gap or double.
	subscribers []*mailbox[T]
	synced      bool
	syncedRV    string // of the last complete list
	claimed     bool
	ended       bool // no change will ever come

	// Only the writer touches these.
	epoch uint64          // of the last replacement that was begun
	open  *replacement[T] // nil when none is under way

	delivery delivery
}

// entry is one version of an object. It is never changed after it was
// published, so that a snapshot of pointers is a snapshot of the collection;
// only seen, which no reader looks at, is.
type entry[T any] struct {
	key    decode.Key
	uid    types.UID
	rv     string
	obj    T
	values [][]string // index values, parallel to Store.indexes
	seen   uint64     // the epoch of the last replacement that brought it
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

// Get returns the object. It is shared and immutable.
func (s *Store[T]) Get(namespace, name string) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e, ok := s.objects.get(decode.Key{Namespace: namespace, Name: name}); ok {
		return e.obj, true
	}
	var zero T
	return zero, false
}

// Len returns how many objects there are.
func (s *Store[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.len()
}

// All ranges over all objects, in no particular order. What is ranged over is
// the collection at the moment when the range statement starts: the price is
// one slice of pointers (8 bytes an object), and the loop's body runs without
// any lock, may take its time and may call the store. Changes that come
// meanwhile are not seen.
func (s *Store[T]) All() iter.Seq2[decode.Key, T] {
	return func(yield func(decode.Key, T) bool) {
		s.mu.RLock()
		snapshot := s.snapshotLocked()
		s.mu.RUnlock()
		yieldEntries(snapshot, yield)
	}
}

func (s *Store[T]) snapshotLocked() []*entry[T] {
	snapshot := make([]*entry[T], 0, s.objects.len())
	for _, e := range s.objects.m {
		snapshot = append(snapshot, e)
	}
	return snapshot
}

func yieldEntries[T any](entries []*entry[T], yield func(decode.Key, T) bool) {
	for _, e := range entries {
		if !yield(e.key, e.obj) {
			return
		}
	}
}

// version returns what is stored under k. Safe from any goroutine.
func (s *Store[T]) version(k decode.Key) (uid types.UID, rv string, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.objects.get(k)
	if !ok {
		return "", "", false
	}
	return e.uid, e.rv, true
}

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
}

// upsert applies an ADDED or MODIFIED event. A different UID under a known name
// is a delete of the old object, whose last state nobody saw, and an add of the
// new one. An object that comes while a replacement is open counts as seen.
//
// When a Values function of an index panics, the store is as it was.
func (s *Store[T]) upsert(m decode.Meta, obj T) outcome {
	k := m.Key()
	old, known := s.objects.get(k)
	if known && old.uid == m.UID {
		if olderRV(m.ResourceVersion, old.rv) {
			if s.open != nil {
				s.open.hold(old, heldItem[T]{entry: s.newEntry(old, m, obj)})
			}
			return stale
		}
		if old.rv == m.ResourceVersion {
			old.seen = s.epoch
			s.forgetHeld(k)
			return duplicate
		}
	}
	s.set(old, s.newEntry(old, m, obj))
	s.forgetHeld(k)
	return applied
}

// forgetHeld drops what an open replacement holds of k.
func (s *Store[T]) forgetHeld(k decode.Key) {
	if s.open != nil {
		s.open.forget(k)
	}
}

// set makes e the stored version; old is what is stored under its key, or nil.
func (s *Store[T]) set(old, e *entry[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old != nil && old.uid != e.uid {
		s.dropLocked(old, old.obj, old.rv, true)
		old = nil
	}
	s.reindexLocked(old, e)
	s.objects.set(e.key, e)
	ev := Event[T]{Type: Added, Key: e.key, UID: e.uid, ResourceVersion: e.rv, Object: e.obj}
	if old != nil {
		ev.Type, ev.Old = Modified, old.obj
	}
	s.publishLocked(ev)
}

// newEntry makes a version that may be set. The functions of indexes are called
// here, before anything changes, since they may panic. The strings of m are
// copied, as they may be parts of something larger; a new version of a known
// object keeps those that do not change.
func (s *Store[T]) newEntry(old *entry[T], m decode.Meta, obj T) *entry[T] {
	e := &entry[T]{rv: strings.Clone(m.ResourceVersion), obj: obj, seen: s.epoch}
	if old != nil {
		e.key = old.key
	} else {
		e.key = decode.Key{Namespace: strings.Clone(m.Namespace), Name: strings.Clone(m.Name)}
	}
	if old != nil && old.uid == m.UID {
		e.uid = old.uid
	} else {
		e.uid = types.UID(strings.Clone(string(m.UID)))
	}
	if len(s.indexes) > 0 {
		e.values = indexValues(s.indexes, obj)
	}
	return e
}

// remove applies a DELETED event. final is the state that the event carries;
// without one (it did not decode) the stored version is the last that is known,
// and the event says FinalStateUnknown. An event about another UID than the
// stored one never deletes: it is late news of an object that was replaced. Nor
// does one that is older than what is stored. A server that leaves the UID out
// is taken to mean the stored object.
func (s *Store[T]) remove(m decode.Meta, final T, haveFinal bool) outcome {
	old, known := s.objects.get(m.Key())
	if !known {
		return ignored
	}
	if m.UID != "" && m.UID != old.uid {
		return stale
	}
	rv := old.rv
	if haveFinal {
		rv = strings.Clone(m.ResourceVersion)
	} else {
		final = old.obj
	}
	if olderRV(m.ResourceVersion, old.rv) {
		if s.open != nil {
			s.open.hold(old, heldItem[T]{entry: &entry[T]{obj: final, rv: rv}, gone: true, unknown: !haveFinal})
		}
		return stale
	}
	s.drop(old, final, rv, !haveFinal)
	s.forgetHeld(old.key)
	return applied
}

// replaced notes that another object took the name of a stored one, and does
// not decode: the stored one is gone, and nobody saw how.
func (s *Store[T]) replaced(m decode.Meta) {
	if old, known := s.objects.get(m.Key()); known && old.uid != m.UID {
		s.drop(old, old.obj, old.rv, true)
		s.forgetHeld(old.key)
	}
}

func (s *Store[T]) drop(e *entry[T], final T, rv string, unknown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(e, final, rv, unknown)
}

// dropLocked takes e out and tells it with the given last state.
func (s *Store[T]) dropLocked(e *entry[T], final T, rv string, unknown bool) {
	s.reindexLocked(e, nil)
	s.objects.delete(e.key)
	s.publishLocked(Event[T]{
		Type: Deleted, Key: e.key, UID: e.uid, ResourceVersion: rv,
		Object: final, FinalStateUnknown: unknown,
	})
}

func (s *Store[T]) publishLocked(ev Event[T]) {
	if len(s.subscribers) == 0 {
		return
	}
	now := time.Now()
	for _, m := range s.subscribers {
		m.push(ev, now)
	}
}

// subscribe returns a mailbox that begins with the collection as it is now,
// then Synced if a list was complete, and gets every change from now on.
// limit is the backlog up to which it is loss-free.
func (s *Store[T]) subscribe(limit int) *mailbox[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := newMailbox(limit, s.snapshotLocked(), time.Now())
	if s.synced {
		m.push(Event[T]{Type: Synced, ResourceVersion: s.syncedRV}, m.since)
	}
	if s.ended {
		m.end()
	}
	s.subscribers = append(s.subscribers, m)
	return m
}

func (s *Store[T]) unsubscribe(m *mailbox[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.subscribers {
		if have == m {
			// A fresh slice: the old array must not keep the mailbox alive.
			rest := make([]*mailbox[T], 0, len(s.subscribers)-1)
			s.subscribers = append(append(rest, s.subscribers[:i]...), s.subscribers[i+1:]...)
			s.delivery.coalesced.Add(m.stats(time.Time{}).coalesced)
			return
		}
	}
}
