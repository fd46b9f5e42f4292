package reflector

import (
	"errors"
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
	return m.Name != "" && (m.Kind == "" || m.Kind == r.kind)
}

// foreign counts what does not belong.
func (r *Reflector[T]) foreign() { r.seen.ignored(causeForeign) }

// half reports whether o, which nobody decoded, is no whole object. The stream that it came from brings it
// again, or ends, so nothing of it is counted.
func half[T any](o *decode.Object[T]) bool {
	_, err := o.End()
	return err != nil
}

// learnable reports whether an object may tell the kind of the collection:
// Status and Table come where an object should be, and have no name as a rule.
func learnable(m *decode.Meta) bool {
	if m.Name == "" || m.Kind == "Status" {
		return false
	}
	return !strings.HasPrefix(m.APIVersion, "meta.k8s.io/") || m.Kind == "PartialObjectMetadata"
}

// take judges, transforms and stores what make made of an object, where err is nil; in is the
// list that it came with, or nil. What does not decode, what Transform fails for, and what makes a
// function of the caller panic (Transform, Accept, an index) is quarantined: "An object that does not
// decode is quarantined by key and the rest goes on; a later good version frees it."
//
// It is called from Run's goroutine, in the order in which the server sent the objects.
func (r *Reflector[T]) take(old *entry[T], m *decode.Meta, c *content[T], err error, in *intake[T]) (good bool) {
	if err == nil {
		err = r.admit(old, m, c, in)
	}
	if err != nil {
		r.seen.quarantine(*m, err)
		r.warn("object quarantined", m, err)
		return false
	}
	r.seen.release(m.Key())
	return true
}

// admit is the part of take in which functions of the caller run.
func (r *Reflector[T]) admit(old *entry[T], m *decode.Meta, c *content[T], in *intake[T]) (err error) {
	if r.cfg.Transform != nil {
		if err := r.transform(c); err != nil {
			return err
		}
	}
	defer r.recovered(&err)
	switch {
	case r.cfg.Accept != nil && !r.cfg.Accept(c.obj):
		r.seen.ignored(causeFiltered)
		r.store.remove(old, m, *c, true)
		if in == nil { // what a list may say of the past, its commit settles
			r.store.replaced(m)
		}
	case in != nil:
		in.put(old, m, *c)
	default:
		r.count(r.store.upsert(old, m, *c))
	}
	return nil
}

func (r *Reflector[T]) transform(c *content[T]) (err error) {
	defer r.recovered(&err)
	if c.obj, err = r.cfg.Transform(c.obj); err != nil {
		return fmt.Errorf("transform: %w", err)
	}
	return nil
}

// recovered, deferred, turns a panic of a caller's function into an error. The panic's value is
// the caller's, who decides what is in it: it is logged.
func (r *Reflector[T]) recovered(err *error) {
	if p := recover(); p != nil {
		r.seen.panics.Add(1)
		r.log.Error("panic caught", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic: %v", p)
	}
}

// warn logs what is wrong with the object of m. Handlers may keep what they are given, and m's strings are
// the reader's.
func (r *Reflector[T]) warn(what string, m *decode.Meta, err error) {
	r.log.Warn(what, "key", ownKey(m.Key()).String(), "rv", strings.Clone(m.ResourceVersion), "err", err)
}

// verdict is what an event was to the session.
type verdict uint8

const (
	taken      verdict = iota + 1 // dealt with: its resourceVersion counts
	news                          // a version to be made and taken
	skipped                       // not an object of the collection: its resourceVersion says nothing
	replayed                      // from before the watch's start, and known already
	doubtful                      // from before the watch's start, and not known: neither to apply nor to ignore
	unfinished                    // not whole: the stream brings it again, or ends
)

// judge says what an event of a watch, other than BOOKMARK and ERROR, is, and does all that can be
// done with it before its object is made. old is what is stored under its key, or nil. start is the
// resourceVersion at which the watch began, empty where it began with the collection itself; gone is
// what the same stream deleted.
func (r *Reflector[T]) judge(ev *streamwatcher.Event[T], start string, gone *graves) (old *entry[T], v verdict) {
	o := &ev.Object
	m := &o.Meta
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		// "Unknown event types are skipped and counted."
		return nil, skipped
	}
	if r.lost(o) {
		return nil, skipped
	}
	if !r.belongs(m) {
		if half(o) {
			return nil, unfinished
		}
		r.foreign()
		return nil, skipped
	}
	if ev.Type == watch.Deleted {
		if !r.deleted(o) {
			return nil, unfinished
		}
		gone.bury(m.UID, m.ResourceVersion)
		return nil, taken
	}
	if gone.hold(m.UID, m.ResourceVersion) {
		return nil, r.ignore(o, causeStale)
	}
	old = r.store.find(m.Key())
	same := old != nil && old.uid == m.UID
	if olderRV(m.ResourceVersion, start) {
		// A watch brings what happened after its start, so this is history.
		if r.ignore(o, causeStale) == unfinished {
			return nil, unfinished
		}
		if same && !olderRV(old.rv, m.ResourceVersion) {
			return nil, replayed
		}
		return nil, doubtful
	}
	if same && old.rv == m.ResourceVersion {
		return nil, r.ignore(o, causeDuplicate)
	}
	if same && olderRV(m.ResourceVersion, old.rv) {
		return nil, r.ignore(o, causeStale)
	}
	if old != nil && !same {
		gone.bury(old.uid, m.ResourceVersion)
	}
	return old, news
}

// ignore counts an event that is known already.
func (r *Reflector[T]) ignore(o *decode.Object[T], c cause) verdict {
	if half(o) {
		return unfinished
	}
	r.seen.ignored(c)
	return taken
}

// apply puts a version that was judged to be news into the store.
func (r *Reflector[T]) apply(old *entry[T], m *decode.Meta, c *content[T], err error) {
	if !r.take(old, m, c, err, nil) {
		r.store.replaced(m)
	}
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
	r.warn("object lost", &o.Meta, err)
	return true
}

// deleted applies a DELETED event. Its metadata is enough; the final state is
// taken from it where it decodes, and is transformed like any other. Its
// resourceVersion may lie before the watch's start: servers have sent the last
// content as it was. The store judges by UID and by what it has. It is false, and nothing has
// happened, where o turned out to be no whole object.
func (r *Reflector[T]) deleted(o *decode.Object[T]) bool {
	m := &o.Meta
	old := r.store.find(m.Key())
	if old == nil {
		if half(o) {
			return false
		}
		r.seen.release(m.Key())
		return true
	}
	final, err := r.make(o, old)
	if errors.Is(err, decode.ErrLine) {
		return false
	}
	if err == nil && r.cfg.Transform != nil {
		err = r.transform(&final)
	}
	if err != nil {
		r.seen.decodeErrors.Add(1)
		r.warn("final state lost", m, err)
	}
	r.count(r.store.remove(old, m, final, err == nil))
	r.seen.release(m.Key())
	return true
}

// count counts an event that the store did not apply.
func (r *Reflector[T]) count(out outcome) {
	switch out {
	case duplicate:
		r.seen.ignored(causeDuplicate)
	case stale:
		r.seen.ignored(causeStale)
	case applied, ignored:
		// The delete of an object that is not there changes nothing: it was
		// filtered or quarantined, or the delete is known.
	}
}
