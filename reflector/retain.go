package reflector

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/internal/linked"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Retain says which deleted objects a store keeps for look-ups: an agent that enriches log lines needs
// the metadata of a pod for some time after it is gone. The zero value keeps none.
type Retain struct {
	// For is how long one is kept after its deletion became known.
	For time.Duration
	// Max is how many there are at most; the oldest give way. 0 is DefaultRetainMax.
	Max int
}

// DefaultRetainMax is how many deleted objects are kept where Retain.For is set and Retain.Max is not.
const DefaultRetainMax = 1000

func (r Retain) withDefaults() Retain {
	if r.For > 0 && r.Max == 0 {
		r.Max = DefaultRetainMax
	}
	return r
}

// validate tells every fault of r; of is the field that has it.
func (r Retain) validate(of string) error {
	var errs []error
	if r.For < 0 {
		errs = append(errs, fmt.Errorf("%s.For is %v: use a positive time, or 0 to keep nothing that was deleted", of, r.For))
	}
	switch {
	case r.Max < 0:
		errs = append(errs, fmt.Errorf("%s.Max is %d: use a positive number of objects, or 0 for %d", of, r.Max, DefaultRetainMax))
	case r.Max > 0 && r.For == 0:
		errs = append(errs, fmt.Errorf("%s.Max is %d and For is 0: set For to how long they are kept", of, r.Max))
	}
	return errors.Join(errs...)
}

// Tombstone is a deleted object.
type Tombstone[T any] struct {
	Key decode.Key
	UID types.UID
	// Object is its last known state, usually the final one. It is shared and immutable.
	Object T
	// DeletedAt is when the store learned of the deletion.
	DeletedAt time.Time
	// FinalStateUnknown says that nobody saw the delete: see Event.
	FinalStateUnknown bool
}

// Tombstones are the deleted objects that a store keeps, as Config.Retain says. Nothing is kept
// by default, nor of objects without a UID, nor of what never was in the store. An object that comes back under its
// UID is not deleted any more.
//
// It takes at most Max objects with their indexes. What is over is not found any more; its memory is let go with the
// next deletion, and without one after a sixteenth of For at most, by a timer and not by a goroutine. Once Run has
// returned, memory is let go with the store.
//
// All methods are safe from any goroutine. No lock is held while a range runs.
//
// Promises, with their tests:
//   - Deleted objects are kept for a time, at most so many. Test: TestRetain, TestRetainIsBounded,
//     TestRetainLetsGoInAQuietCluster.
type Tombstones[T any] struct{ s *Store[T] }

// Tombstones returns the deleted objects that the store keeps.
func (s *Store[T]) Tombstones() Tombstones[T] { return Tombstones[T]{s} }

// Get returns the object that had the name last, among the deleted ones. Whether one has it now, Store.Get tells.
func (t Tombstones[T]) Get(namespace, name string) (Tombstone[T], bool) {
	return t.one(func(all *tombstones[T]) *grave[T] {
		if of, _ := all.byKey.get(decode.Key{Namespace: namespace, Name: name}); len(of) > 0 {
			return of[len(of)-1]
		}
		return nil
	})
}

// ByUID returns the object with the UID.
func (t Tombstones[T]) ByUID(uid types.UID) (Tombstone[T], bool) {
	return t.one(func(all *tombstones[T]) *grave[T] {
		g, _ := all.byUID.get(uid)
		return g
	})
}

// By ranges over those of which the named index had value in the last version that was stored, in no particular
// order. Like Store.By it panics when the store has no index of that name.
func (t Tombstones[T]) By(index, value string) iter.Seq[Tombstone[T]] {
	at := t.s.indexAt(index)
	return t.seq(func(all *tombstones[T]) (graves []*grave[T]) {
		if b, ok := all.byIndex[at].get(value); ok {
			for _, e := range b.entries {
				g, _ := all.byUID.get(e.uid)
				graves = append(graves, g)
			}
		}
		return graves
	})
}

// All ranges over all of them, the oldest first.
func (t Tombstones[T]) All() iter.Seq[Tombstone[T]] {
	return t.seq(func(all *tombstones[T]) (graves []*grave[T]) {
		for g := all.byAge.First(); g != nil; g = g.Next() {
			graves = append(graves, g)
		}
		return graves
	})
}

func (t Tombstones[T]) one(find func(*tombstones[T]) *grave[T]) (found Tombstone[T], ok bool) {
	t.seq(func(all *tombstones[T]) []*grave[T] {
		if g := find(all); g != nil {
			return []*grave[T]{g}
		}
		return nil
	})(func(one Tombstone[T]) bool {
		found, ok = one, true
		return false
	})
	return found, ok
}

// seq ranges over what find returns, but for what is over.
func (t Tombstones[T]) seq(find func(*tombstones[T]) []*grave[T]) iter.Seq[Tombstone[T]] {
	return func(yield func(Tombstone[T]) bool) {
		t.s.mu.RLock()
		var graves []*grave[T]
		var since time.Time
		if all := t.s.tombstones; all != nil {
			graves, since = find(all), time.Now().Add(-all.keep.For)
		}
		t.s.mu.RUnlock()
		for _, g := range graves {
			b := &g.Value
			if !b.at.After(since) {
				continue
			}
			if !yield(Tombstone[T]{Key: b.key, UID: b.uid, Object: b.object(b.key), DeletedAt: b.at, FinalStateUnknown: b.unknown}) {
				return
			}
		}
	}
}

// tombstones are what a store keeps of deleted objects. A nil one keeps nothing. The store's lock guards it.
type tombstones[T any] struct {
	keep    Retain
	byAge   linked.List[buried[T]] // the oldest first
	byUID   shrinkingMap[types.UID, *grave[T]]
	byKey   shrinkingMap[decode.Key, []*grave[T]] // the oldest first
	byIndex []indexTable[T]                       // parallel to Store.indexes
	timer   *time.Timer                           // runs while there is any
	lapse   func()                                // what it does
	stopped bool
}

type grave[T any] = linked.Node[buried[T]]

// buried is never changed, so that it can be read without a lock.
type buried[T any] struct {
	*entry[T]
	at      time.Time
	unknown bool
}

// retain makes the store keep what is deleted from now on. It is called once at most.
func (s *Store[T]) retain(keep Retain) {
	if keep = keep.withDefaults(); keep.For <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tombstones = &tombstones[T]{keep: keep, byIndex: make([]indexTable[T], len(s.indexes)), lapse: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tombstones.expire(time.Now())
	}}
}

// add keeps e, which is the store's no more; values are those of it in Store.indexes.
func (t *tombstones[T]) add(e *entry[T], values [][]string, unknown bool) {
	if t == nil || e.uid == "" {
		return
	}
	now := time.Now()
	t.revive(e.uid) // a server that does not keep UIDs apart
	e = e.copied()  // without what a next version would be made with, which a pod has some 500 bytes of
	g := &grave[T]{Value: buried[T]{entry: e, at: now, unknown: unknown}}
	t.byAge.Push(g)
	t.byUID.set(e.uid, g)
	of, _ := t.byKey.get(e.key)
	t.byKey.set(e.key, append(of, g))
	reindex(t.byIndex, nil, draft[T]{entry: e, values: values})
	if t.byAge.Len() > t.keep.Max {
		t.remove(t.byAge.First())
	}
	t.expire(now)
}

// revive forgets what is kept under the UID: it is there again.
func (t *tombstones[T]) revive(uid types.UID) {
	if t == nil {
		return
	}
	if g, ok := t.byUID.get(uid); ok {
		t.remove(g)
	}
}

func (t *tombstones[T]) remove(g *grave[T]) {
	e := g.Value.entry
	t.byAge.Remove(g)
	t.byUID.delete(e.uid)
	of, _ := t.byKey.get(e.key)
	if of = slices.DeleteFunc(of, func(have *grave[T]) bool { return have == g }); len(of) == 0 {
		t.byKey.delete(e.key)
	} else {
		t.byKey.set(of[0].Value.key, of)
	}
	unindex(e)
}

// expire lets go of what is over, and sets the timer for the next one. That it comes a little later
// than that is due makes it do many at a time.
func (t *tombstones[T]) expire(now time.Time) {
	first := t.byAge.First()
	for ; first != nil && now.Sub(first.Value.at) >= t.keep.For; first = t.byAge.First() {
		t.remove(first)
	}
	if first == nil || t.stopped {
		return
	}
	left := t.keep.For - now.Sub(first.Value.at) + t.keep.For/16
	if t.timer == nil {
		t.timer = time.AfterFunc(left, t.lapse)
	} else {
		t.timer.Reset(left)
	}
}

// stop says that nothing changes any more.
func (t *tombstones[T]) stop() {
	if t == nil {
		return
	}
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *tombstones[T]) len() int {
	if t == nil {
		return 0
	}
	return t.byAge.Len()
}
