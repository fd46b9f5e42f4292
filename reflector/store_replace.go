package reflector

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// replacement is one list or watch-list on its way into the store. Items are
// applied as they come, so that memory is the store plus one item; what the
// list did not bring is deleted at commit, and only then.
//
// Which entries were seen is a number in each entry, not a set: a relist of an
// unchanged collection allocates nothing.
type replacement[T any] struct {
	s      *Store[T]
	result replaceResult
	// doubtful: the stored versions may be of a history that the server lost, so
	// that one of the same UID and resourceVersion may have another content.
	doubtful bool
	// held is what is older than the stored version of the same object: either
	// the server answered from a cache that lags, and the stored version is
	// right, or it went back in time, and the older one is. commit is told which.
	held map[decode.Key]heldItem[T]
}

// heldItem is the last thing that the server said of an object.
type heldItem[T any] struct {
	draft[T]
	// gone: it was a DELETED; unknown: one that did not decode.
	gone, unknown bool
	// told is the resourceVersion of what was said. It is not the draft's, where that is what is stored.
	told string
}

// replaceResult counts what a replacement did, in objects.
type replaceResult struct {
	added, modified, deleted, unchanged int
	regressed                           int // held items that were applied; the others are dropped
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

// unchanged reports whether e, what is stored under the key of m, is this very version of the object. If
// so the object is marked as seen and nothing else is touched: no event, no
// decode, no allocation.
func (r *replacement[T]) unchanged(e *entry[T], m *decode.Meta) bool {
	if e == nil || e.uid != m.UID || e.rv != m.ResourceVersion {
		return false
	}
	e.seen = r.s.epoch
	r.forget(e.key) // the newer of two words of this list counts
	r.result.unchanged++
	return true
}

// put applies one item; old is what is stored under its key, or nil. An item that is older than the stored version of the
// same object is held until commit.
func (r *replacement[T]) put(old *entry[T], m *decode.Meta, c content[T]) {
	same := old != nil && old.uid == m.UID
	if same && old.rv == m.ResourceVersion && !(r.doubtful && !sameContent(old.object(old.key), c.obj)) {
		r.unchanged(old, m)
		return
	}
	d := r.s.newEntry(old, m, c)
	if same && olderRV(d.rv, old.rv) {
		r.hold(old, m, heldItem[T]{draft: d})
		return
	}
	r.s.set(old, d)
	r.forget(d.key)
	switch {
	case old == nil:
		r.result.added++
	case !same:
		r.result.deleted++
		r.result.added++
	default:
		r.result.modified++
	}
}

// sameContent compares two versions. They may have come in different encodings,
// or one in a list and one in an event, so that kind and apiVersion, and empty
// fields, are there or not. It is slow, and needed only in doubt.
func sameContent[T any](a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	plain := func(obj T) (fields map[string]any) {
		text, err := json.Marshal(obj)
		if err != nil || json.Unmarshal(text, &fields) != nil {
			return nil
		}
		delete(fields, "kind")
		delete(fields, "apiVersion")
		return fields
	}
	x := plain(a)
	return x != nil && reflect.DeepEqual(x, plain(b))
}

// retain marks what is stored of an object as seen: the list has the object in
// a version that does not decode. What is stored under its name of another UID
// is gone. A stored version that is newer is held as gone, as it is of a history
// that never was where the server went back in time.
func (r *replacement[T]) retain(m *decode.Meta) {
	old := r.s.find(m.Key())
	if old == nil || old.uid != m.UID {
		return
	}
	if olderRV(m.ResourceVersion, old.rv) {
		r.hold(old, m, heldItem[T]{draft: draft[T]{entry: old}, gone: true, unknown: true})
	} else {
		r.forget(old.key)
	}
	old.seen = r.s.epoch
}

// hold keeps what m says, which is older than the stored version until commit. The object
// counts as seen. What this list itself made the stored version is told twice,
// and is not held.
func (r *replacement[T]) hold(stored *entry[T], m *decode.Meta, item heldItem[T]) {
	before, held := r.held[stored.key]
	if !held && stored.seen == r.s.epoch || held && olderRV(m.ResourceVersion, before.told) {
		return
	}
	item.told = strings.Clone(m.ResourceVersion)
	stored.seen = r.s.epoch
	if r.held == nil {
		r.held = make(map[decode.Key]heldItem[T])
	}
	r.held[stored.key] = item
}

// forget drops a held item because something newer came.
func (r *replacement[T]) forget(k decode.Key) {
	delete(r.held, k)
}

// has reports whether the list brought k already, as far as the store can tell.
func (r *replacement[T]) has(k decode.Key) bool {
	e := r.s.find(k)
	return e != nil && e.seen == r.s.epoch
}

// unsee takes back that the list brought k: it was deleted before the list was
// complete. Where the store did not take the delete because it knows a newer
// version, that is of a history which the server does not have any more.
func (r *replacement[T]) unsee(k decode.Key) {
	r.forget(k)
	if e := r.s.find(k); e != nil {
		e.seen = 0
	}
}

// commit ends the list: what it did not bring is deleted, with
// FinalStateUnknown because nobody saw the delete. rewound says that the server
// went back in time; then the held items are the truth and are applied, with
// resourceVersions below those before. They are also where the list is not older
// than the stored version: a list that comes after a version has that or a newer
// one, so the stored one is of a history that the server lost, unnoticed since
// its numbers have passed ours. rv is the list's own resourceVersion.
// Subscribers get Synced last.
func (r *replacement[T]) commit(rv string, rewound bool) replaceResult {
	s := r.s
	for k, item := range r.held {
		old := s.find(k)
		if !rewound && !follows(rv, old.rv) {
			continue
		}
		r.result.regressed++
		if item.gone {
			s.drop(old, item.entry, item.unknown)
			r.result.deleted++
		} else {
			s.set(old, item.draft)
			r.result.modified++
		}
	}
	s.open = nil
	var gone []*entry[T]
	for _, e := range s.objects.slots {
		if e != nil && e.seen != s.epoch {
			gone = append(gone, e)
		}
	}
	for _, e := range gone {
		s.drop(e, e, true)
	}
	r.result.deleted += len(gone)
	s.awaitRoom()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.syncedRV = true, rv
	c := syncedAt[T](rv)
	c.rewound = rewound || r.result.regressed > 0
	s.publishLocked(c)
	return r.result
}

// follows reports whether a list at rv is known to come after a version, or with it.
func follows(rv, version string) bool {
	c, ok := compareRV(rv, version)
	return ok && c >= 0
}

// disproves reports whether the list, at rv, holds an item that is older than
// the stored version although the list is not: the server lost the history that
// the stored version is of.
func (r *replacement[T]) disproves(rv string) bool {
	for k := range r.held {
		if stored := r.s.find(k); follows(rv, stored.rv) {
			return true
		}
	}
	return false
}

// abandon ends a list that did not come to its end. What it brought stays,
// since each item is a true version of its object; nothing is deleted.
func (r *replacement[T]) abandon() {
	if r.s.open == r {
		r.s.open = nil
	}
}
