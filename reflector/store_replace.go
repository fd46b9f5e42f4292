package reflector

import "github.com/nodewatch-go/nodewatch/streamwatcher/decode"

// replacement is one list or watch-list on its way into the store. Items are
// applied as they come, so that memory is the store plus one item; what the
// list did not bring is deleted at commit, and only then.
//
// Which entries were seen is a number in each entry, not a set: a relist of an
// unchanged collection allocates nothing.
type replacement[T any] struct {
	s      *Store[T]
	result replaceResult
	// held is what is older than the stored version of the same object: either
	// the server answered from a cache that lags, and the stored version is
	// right, or it went back in time, and the older one is. commit is told which.
	held map[decode.Key]heldItem[T]
}

// heldItem is the last thing that the server said of an object.
type heldItem[T any] struct {
	*entry[T]
	// gone: it was a DELETED; unknown: one that did not decode.
	gone, unknown bool
}

// replaceResult counts what a replacement did, in objects.
type replaceResult struct {
	added, modified, deleted, unchanged int
	held                                int // older than stored: applied by a rewound commit, else dropped
}

// beginReplace opens a replacement. One that is still open is abandoned.
func (s *Store[T]) beginReplace() *replacement[T] {
	if s.open != nil {
		s.open.abandon()
	}
	s.epoch++
	s.open = &replacement[T]{s: s}
	return s.open
}

// unchanged reports whether the store has this very version of the object. If
// so the object is marked as seen and nothing else is touched: no event, no
// decode, no allocation.
func (r *replacement[T]) unchanged(m decode.Meta) bool {
	e, ok := r.s.objects.get(m.Key())
	if !ok || e.uid != m.UID || e.rv != m.ResourceVersion {
		return false
	}
	e.seen = r.s.epoch
	r.result.unchanged++
	return true
}

// put applies one item. An item that is older than the stored version of the
// same object is held until commit.
func (r *replacement[T]) put(m decode.Meta, obj T) {
	if r.unchanged(m) {
		return
	}
	old, known := r.s.objects.get(m.Key())
	e := r.s.newEntry(old, m, obj)
	if known && old.uid == e.uid && olderRV(e.rv, old.rv) {
		r.hold(old, heldItem[T]{entry: e})
		return
	}
	r.s.set(old, e)
	r.forget(e.key)
	switch {
	case !known:
		r.result.added++
	case old.uid != e.uid:
		r.result.deleted++
		r.result.added++
	default:
		r.result.modified++
	}
}

// retain marks what is stored under k as seen: the list has an object of that
// name which does not decode.
func (r *replacement[T]) retain(k decode.Key) {
	if e, ok := r.s.objects.get(k); ok {
		e.seen = r.s.epoch
	}
}

// hold keeps what is older than the stored version until commit. The object
// counts as seen.
func (r *replacement[T]) hold(stored *entry[T], item heldItem[T]) {
	stored.seen = r.s.epoch
	if r.held == nil {
		r.held = make(map[decode.Key]heldItem[T])
	}
	r.held[stored.key] = item
	r.result.held = len(r.held)
}

// forget drops a held item because something newer came.
func (r *replacement[T]) forget(k decode.Key) {
	delete(r.held, k)
	r.result.held = len(r.held)
}

// commit ends the list: what it did not bring is deleted, with
// FinalStateUnknown because nobody saw the delete. rewound says that the server
// went back in time; then the held items are the truth and are applied, with
// resourceVersions below those before. rv is the list's own resourceVersion.
// Subscribers get Synced last.
func (r *replacement[T]) commit(rv string, rewound bool) replaceResult {
	s := r.s
	if rewound {
		for k, item := range r.held {
			old, _ := s.objects.get(k)
			if item.gone {
				s.drop(old, item.obj, item.rv, item.unknown)
				r.result.deleted++
			} else {
				s.set(old, item.entry)
				r.result.modified++
			}
		}
	}
	s.open = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []*entry[T]
	for _, e := range s.objects.m {
		if e.seen != s.epoch {
			gone = append(gone, e)
		}
	}
	for _, e := range gone {
		s.dropLocked(e, e.obj, e.rv, true)
	}
	r.result.deleted += len(gone)
	s.synced, s.syncedRV = true, rv
	s.publishLocked(Event[T]{Type: Synced, ResourceVersion: rv})
	return r.result
}

// abandon ends a list that did not come to its end. What it brought stays,
// since each item is a true version of its object; nothing is deleted.
func (r *replacement[T]) abandon() {
	if r.s.open == r {
		r.s.open = nil
	}
}
