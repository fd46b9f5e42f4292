package reflector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// intake takes the items of a list or watch-list into the store.
type intake[T any] struct {
	r     *Reflector[T]
	ctx   context.Context // ends a list whose items are in memory already
	asked string
	floor string // see Reflector.floor
	rep   *replacement[T]
	hold  func(old *entry[T], m *decode.Meta, c content[T]) bool // takes what is not believed yet; nil: all is
	line  line[T]
	bad   map[decode.Key]struct{} // items that did not decode; nil until the first
	taken bool                    // an item came
	alien aliens                  // objects that came and are none of the collection
	heard []byte                  // the newest resourceVersion of what changed the store
}

func (r *Reflector[T]) newIntake(ctx context.Context, asked string) *intake[T] {
	in := &intake[T]{r: r, ctx: ctx, asked: asked, rep: r.store.beginReplace()}
	in.rep.doubtful = r.session.doubt
	in.line = line[T]{r: r, ctx: ctx, settle: func(j *job[T]) { in.settle(j.old, &j.o.Meta, &j.c, j.err) }}
	return in
}

// Meta implements listwatch.Sink.
func (in *intake[T]) Meta(m metav1.ListMeta) error {
	in.r.seen.remaining(m)
	if !in.taken && olderRV(m.ResourceVersion, in.before()) {
		in.rep.doubtful = true
	}
	return in.r.tooOld(in.asked, m.ResourceVersion)
}

// refuses judges a list or watch-list that was read to its end and is as of rv.
// One that shows only at its end that the server went back in time is read once
// more, in doubt: what was taken for unchanged need not be.
func (in *intake[T]) refuses(rv string) error {
	in.line.drain()
	if err := in.r.tooOld(in.asked, rv); err != nil { // where the metadata did not come first
		return err
	}
	if in.alien.n > 0 && !in.taken {
		// A confused proxy or server would empty the store; and where the Go type or Kind is not
		// the resource's, the store would be taken for an empty collection.
		return in.alien.refusal(in.r.resource, in.r.kind)
	}
	before := in.before()
	switch {
	case in.rep.doubtful, in.r.session.newest() == "": // nothing was taken for unchanged
	case olderRV(rv, before):
		return &fault{reason.RVRegressed, fmt.Errorf("the server is at resourceVersion %q, before %q", rv, before)}
	case in.rep.disproves(rv):
		return &fault{reason.RVRegressed, fmt.Errorf("the list at resourceVersion %q has objects in versions from before those that are known", rv)}
	}
	return nil
}

// before is the newest resourceVersion that was known before the list.
func (in *intake[T]) before() string { return newerRV(in.r.session.newest(), in.floor) }

// Item implements listwatch.Sink. "What kept UID and RV is untouched (no event,
// no decode, no allocation)."
func (in *intake[T]) Item(o *decode.Object[T]) error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	in.take(o)
	return nil
}

// take is false, and nothing is counted, where o turned out to be no whole item: the watch-list brings it
// again, or ends.
func (in *intake[T]) take(o *decode.Object[T]) (whole bool) {
	m := &o.Meta
	r := in.r
	if r.lost(o) {
		r.seen.item(false)
		return true
	}
	if !r.belongs(m) {
		if half(o) {
			return false
		}
		r.foreign()
		r.seen.item(false)
		in.alien.note(m)
		return true
	}
	in.taken = true
	in.line.await(m.Key())
	old := r.store.find(m.Key())
	if !in.rep.doubtful && in.rep.unchanged(old, m) {
		if half(o) {
			return false
		}
		r.seen.item(true)
		return true
	}
	if !in.line.add(o, old) {
		if in.ctx.Err() != nil {
			return false // something in the line may have been given up
		}
		c, err := r.make(o, old)
		if errors.Is(err, decode.ErrLine) {
			return false
		}
		in.settle(old, m, &c, err)
	}
	r.seen.item(false)
	in.hear(m.ResourceVersion)
	return true
}

// aliens are the objects of a list or watch-list that are of another kind. What has no name
// is no object, and does not count.
type aliens struct {
	n    int
	kind string // of the first
}

func (a *aliens) note(m *decode.Meta) {
	if m.Name == "" {
		return
	}
	if a.n == 0 {
		a.kind = strings.Clone(m.Kind)
	}
	a.n++
}

// refusal is the error where nothing else came. The answer can be read and holds what this reflector
// cannot take for its objects: that is reason.Decode, as it is where the kind of a list says the same.
func (a aliens) refusal(resource schema.GroupVersionResource, kind string) error {
	return &listwatch.Error{Reason: reason.Decode, Verb: "list", Resource: resource, Err: &alienError{a, kind}}
}

// alienError says that a list or watch-list brought objects, and none of the collection.
type alienError struct {
	aliens
	want string
}

func (e *alienError) Error() string {
	return fmt.Sprintf("the server sent %d objects, of kind %q and none of kind %q: do the Go type and Kind fit the resource?", e.n, e.kind, e.want)
}

// put takes the version of an object into the replacement.
func (in *intake[T]) put(old *entry[T], m *decode.Meta, c content[T]) {
	if in.hold == nil || !in.hold(old, m, c) {
		in.rep.put(old, m, c)
	}
}

// settle takes an item that was decoded.
func (in *intake[T]) settle(old *entry[T], m *decode.Meta, c *content[T], err error) {
	if !in.r.take(old, m, c, err, in) {
		in.unreadable(m)
	}
}

// unreadable notes an item that is quarantined. What is stored of it stays: the
// object is there, only not readable.
func (in *intake[T]) unreadable(m *decode.Meta) {
	in.rep.retain(m)
	if in.bad == nil {
		in.bad = map[decode.Key]struct{}{}
	}
	in.bad[ownKey(m.Key())] = struct{}{}
}

// hear notes a version that the list brought.
func (in *intake[T]) hear(rv string) {
	if len(in.heard) == 0 || olderRV(string(in.heard), rv) {
		in.heard = append(in.heard[:0], rv...)
	}
}

// abandon ends a list that did not come to its end. What it brought stays.
func (in *intake[T]) abandon() {
	in.line.close()
	in.rep.abandon()
	heard := string(in.heard)
	if s := &in.r.session; heard != "" && (s.heard == "" || olderRV(s.heard, heard)) {
		s.heard = heard
	}
}

// commit ends a complete list that is as of rv. "A server that went back in time
// is detected, counted and answered by a full replace with real deletes."
func (in *intake[T]) commit(rv string) replaceResult {
	in.line.close()
	r := in.r
	before := in.before()
	rewound := olderRV(rv, before)
	res := in.rep.commit(rv, rewound)
	if rewound || res.regressed > 0 {
		r.seen.update(func(_ *Status, c *Stats) { c.Regressions++ })
		r.log.Warn("the server went back in time; its state replaces what was known",
			"reason", string(reason.RVRegressed), "rv", rv, "before", before, "objects", res.regressed)
	}
	r.seen.releaseAllBut(in.bad)
	return res
}

var _ listwatch.Sink[any] = (*intake[any])(nil)
