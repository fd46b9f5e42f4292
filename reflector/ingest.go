package reflector

import (
	"fmt"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// belongs reports whether an object may be one of the collection: it has a name
// and is of the kind that is expected. "An object of another kind or with no
// name is never stored." Items of lists need not say their kind.
//
// Where the kind is not known it is learned from the first object that may be one.
func (r *Reflector[T]) belongs(m *decode.Meta) bool {
	if r.kind == "" && learnable(m) {
		r.kind = strings.Clone(m.Kind)
	}
	if m.Name != "" && (m.Kind == "" || m.Kind == r.kind) {
		return true
	}
	r.seen.ignored(ignoredForeign)
	return false
}

// learnable reports whether an object may tell the kind of the collection:
// Status and Table come where an object should be, and have no name as a rule.
func learnable(m *decode.Meta) bool {
	if m.Name == "" || m.Kind == "Status" {
		return false
	}
	return !strings.HasPrefix(m.APIVersion, "meta.k8s.io/") || m.Kind == "PartialObjectMetadata"
}

// receive makes the object and hands it to put, which stores it. What does not
// decode, what Transform fails for, and what makes a function of the caller
// panic (Transform, Accept, an index) is quarantined: "An object that does not
// decode is quarantined by key and the rest goes on; a later good version frees it."
func (r *Reflector[T]) receive(o *decode.Object[T], put func(T), refuse func(T)) (good bool) {
	err := r.guard(func() error {
		obj, err := o.Decode()
		if err != nil {
			return err
		}
		if r.cfg.Transform != nil {
			if obj, err = r.cfg.Transform(obj); err != nil {
				return fmt.Errorf("transform: %w", err)
			}
		}
		if r.cfg.Accept != nil && !r.cfg.Accept(obj) {
			r.seen.ignored(ignoredFiltered)
			refuse(obj)
			return nil
		}
		put(obj)
		return nil
	})
	if err != nil {
		r.seen.quarantine(o.Meta, err)
		r.log.Warn("object quarantined", "key", o.Meta.Key().String(), "rv", o.Meta.ResourceVersion, "err", err)
		return false
	}
	r.seen.release(o.Meta.Key())
	return true
}

// guard turns a panic of a caller's function into an error. The panic's value is
// the caller's, who decides what is in it: it is logged.
func (r *Reflector[T]) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.seen.update(func(_ *Status, c *Stats) { c.Panics++ })
			r.log.Error("panic caught", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// verdict is what an event was to the session.
type verdict uint8

const (
	taken    verdict = iota + 1 // dealt with: its resourceVersion counts
	skipped                     // not an object of the collection: its resourceVersion says nothing
	old                         // from before the watch's start, and known already
	doubtful                    // from before the watch's start, and not known: neither to apply nor to ignore
)

// apply puts one event of a watch, other than BOOKMARK and ERROR, into the
// store. start is the resourceVersion at which the watch began, empty where it
// began with the collection itself; gone is what the same stream deleted.
func (r *Reflector[T]) apply(ev *streamwatcher.Event[T], start string, gone *graves) verdict {
	o := &ev.Object
	m := o.Meta
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		// "Unknown event types are skipped and counted."
		return skipped
	}
	if r.lost(o) || !r.belongs(&m) {
		return skipped
	}
	if ev.Type == watch.Deleted {
		r.deleted(o)
		gone.bury(m.UID, m.ResourceVersion)
		return taken
	}
	if gone.hold(m.UID, m.ResourceVersion) {
		r.seen.ignored(ignoredStale)
		return taken
	}
	uid, rv, known := r.store.version(m.Key())
	same := known && uid == m.UID
	if olderRV(m.ResourceVersion, start) {
		// A watch brings what happened after its start, so this is history.
		r.seen.ignored(ignoredStale)
		if same && !olderRV(rv, m.ResourceVersion) {
			return old
		}
		return doubtful
	}
	if same && rv == m.ResourceVersion {
		r.seen.ignored(ignoredDuplicate)
		return taken
	}
	if same && olderRV(m.ResourceVersion, rv) {
		r.seen.ignored(ignoredStale)
		return taken
	}
	if known && !same {
		gone.bury(uid, m.ResourceVersion)
	}
	good := r.receive(o,
		func(obj T) { r.count(r.store.upsert(m, obj)) },
		func(obj T) { r.store.remove(m, obj, true) })
	if !good && known && !same {
		r.store.replaced(m)
	}
	return taken
}

// lost reports whether o was too large to hold, or is no object at all, so that
// nothing is known of it but that it came: "costs that item, not the stream".
func (r *Reflector[T]) lost(o *decode.Object[T]) bool {
	if o.Meta.Name != "" || o.Meta.Kind != "" {
		return false
	}
	_, err := o.Decode()
	if err == nil {
		return false
	}
	r.seen.quarantine(o.Meta, err)
	r.log.Warn("object lost", "rv", o.Meta.ResourceVersion, "err", err)
	return true
}

// deleted applies a DELETED event. Its metadata is enough; the final state is
// taken from it where it decodes, and is transformed like any other. Its
// resourceVersion may lie before the watch's start: servers have sent the last
// content as it was. The store judges by UID and by what it has.
func (r *Reflector[T]) deleted(o *decode.Object[T]) {
	m := o.Meta
	if _, _, known := r.store.version(m.Key()); !known {
		r.seen.release(m.Key())
		return
	}
	var final T
	err := r.guard(func() (err error) {
		if final, err = o.Decode(); err == nil && r.cfg.Transform != nil {
			final, err = r.cfg.Transform(final)
		}
		return err
	})
	if err != nil {
		r.seen.update(func(_ *Status, c *Stats) { c.DecodeErrors++ })
		r.log.Warn("final state lost", "key", m.Key().String(), "rv", m.ResourceVersion, "err", err)
	}
	r.count(r.store.remove(m, final, err == nil))
	r.seen.release(m.Key())
}

// count counts an event that the store did not apply.
func (r *Reflector[T]) count(out outcome) {
	switch out {
	case duplicate:
		r.seen.ignored(ignoredDuplicate)
	case stale:
		r.seen.ignored(ignoredStale)
	case applied, ignored:
		// The delete of an object that is not there changes nothing: it was
		// filtered or quarantined, or the delete is known.
	}
}
