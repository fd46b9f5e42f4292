package reflector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// listing: a LIST, paged or not, is being read into the store item by item.
//
// Exits:
//   - "" (complete): watching at the list's resourceVersion;
//   - expired: the resourceVersion, or the one that was refused before came
//     back: listing without one, at once. A continue token expired: listing
//     without pages, at once. With neither: listing after a wait;
//   - rv_too_large: listing again after a moment, the second time without a
//     resourceVersion;
//   - rv_regressed: the answer is older than what is known: listing without a
//     resourceVersion, at once. Or it shows only at its end that the server went
//     back in time: listing once more, comparing contents, after a wait;
//   - rejected: with a resourceVersion: without it, at once; else a wait;
//   - every other reason: the same again after a wait;
//   - stopped.
//
// What is "at once" takes the resourceVersion or the pages away, so each can
// happen once in a row.
type listing struct {
	// rv is what the list may not be older than. Empty asks for the newest
	// state. The first list is such a one, and not a cheaper "0": that may be
	// answered from an old watch cache, so that a program that restarts would
	// go back in time to before what it saw, and acted on, in its last life.
	rv string
	// whole: without paging.
	whole bool
}

func (listing) name() State { return StateListing }

func (l listing) detail() string {
	if l.rv == "" {
		return "the newest state"
	}
	return "not older than " + l.rv
}

func (r *Reflector[T]) list(ctx context.Context, l listing) exit {
	opts := metav1.ListOptions{ResourceVersion: l.rv, Limit: r.cfg.PageSize}
	if l.rv != "" {
		// Said aloud, because with a limit and no match the API reads "exactly".
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	if l.whole {
		opts.Limit = 0
	}
	asked := time.Now()
	r.seen.listing()
	in := r.newIntake(ctx, l.rv)
	meta, err := listwatch.Pages(ctx, pageCounter[T]{r}, opts, in)
	if err == nil && ctx.Err() == nil {
		err = in.refuses(meta.ResourceVersion)
	}
	if err != nil || ctx.Err() != nil {
		in.abandon()
		return r.listFailed(ctx, l, err)
	}
	res := in.commit(meta.ResourceVersion)
	r.complete(meta.ResourceVersion, asked, asked, res)
	return exit{next: watching[T]{}}
}

func (r *Reflector[T]) listFailed(ctx context.Context, l listing, err error) exit {
	if ctx.Err() != nil {
		return exit{why: reason.Stopped, err: context.Cause(ctx), next: stopped{}}
	}
	why := reasonOf(err)
	e := exit{why: why, err: err, next: l, pace: paceOf(why, err), hint: retryAfter(err)}
	switch {
	case why == reason.Expired && !l.whole && expiredToken(err):
		e.next, e.pace = listing{rv: l.rv, whole: true}, atOnce
	case l.rv == "":
		// Nothing left to give up.
		if why == reason.Expired {
			e.pace = calm
		}
	case why == reason.RVTooLarge && r.session.lags():
		e.pace = lagging
	case why == reason.RVTooLarge, why == reason.Expired, why == reason.RVRegressed, why == reason.Rejected:
		e.next, e.pace, e.hint = listing{whole: l.whole}, atOnce, 0
	}
	return e
}

// expiredToken reports whether it was a continue token that expired.
func expiredToken(err error) bool {
	var e *listwatch.Error
	return errors.As(err, &e) && e.Continue
}

// tooOld judges the resourceVersion got of a list or watch-list that was asked
// not to be older than asked. It may be neither older than what is known, nor
// the one that a watch was refused at. The newest state, asked "", is the truth
// whatever its number.
func (r *Reflector[T]) tooOld(asked, got string) error {
	switch {
	case asked == "":
		return nil
	case olderRV(got, r.session.newest()):
		return &fault{reason.RVRegressed, fmt.Errorf("the server answers with resourceVersion %q, which is older than %q", got, r.session.newest())}
	case got != "" && got == r.session.refused:
		return &fault{reason.Expired, fmt.Errorf("the server answers with resourceVersion %q, which it refuses to watch", got)}
	}
	return nil
}

// pageCounter makes one LIST request after the other and counts them.
type pageCounter[T any] struct{ r *Reflector[T] }

// List implements listwatch.Lister.
func (p pageCounter[T]) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[T]) (metav1.ListMeta, error) {
	meta, err := p.r.cfg.ListerWatcher.List(ctx, opts, sink)
	p.r.seen.outcome(false, err == nil)
	return meta, err
}

// intake takes the items of a list or watch-list into the store.
type intake[T any] struct {
	r     *Reflector[T]
	ctx   context.Context // ends a list whose items are in memory already
	asked string
	rep   *replacement[T]
	bad   map[decode.Key]struct{} // items that did not decode; nil until the first
	taken bool                    // an item came
	heard string                  // the newest resourceVersion of what changed the store
}

func (r *Reflector[T]) newIntake(ctx context.Context, asked string) *intake[T] {
	in := &intake[T]{r: r, ctx: ctx, asked: asked, rep: r.store.beginReplace()}
	in.rep.doubtful = r.session.doubt
	return in
}

// Meta implements listwatch.Sink.
func (in *intake[T]) Meta(m metav1.ListMeta) error {
	in.r.seen.remaining(m)
	if !in.taken && olderRV(m.ResourceVersion, in.r.session.newest()) {
		in.rep.doubtful = true
	}
	return in.r.tooOld(in.asked, m.ResourceVersion)
}

// refuses judges a list or watch-list that was read to its end and is as of rv.
// One that shows only at its end that the server went back in time is read once
// more, in doubt: what was taken for unchanged need not be.
func (in *intake[T]) refuses(rv string) error {
	if err := in.r.tooOld(in.asked, rv); err != nil { // where the metadata did not come first
		return err
	}
	before := in.r.session.newest()
	switch {
	case in.rep.doubtful:
	case olderRV(rv, before):
		return &fault{reason.RVRegressed, fmt.Errorf("the server is at resourceVersion %q, before %q", rv, before)}
	case in.rep.disproves(rv):
		return &fault{reason.RVRegressed, fmt.Errorf("the list at resourceVersion %q has objects in versions from before those that are known", rv)}
	}
	return nil
}

// Item implements listwatch.Sink. "What kept UID and RV is untouched (no event,
// no decode, no allocation)."
func (in *intake[T]) Item(o *decode.Object[T]) error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	in.take(o)
	return nil
}

func (in *intake[T]) take(o *decode.Object[T]) {
	m := o.Meta
	r := in.r
	if r.lost(o) || !r.belongs(&m) {
		r.seen.item(false)
		return
	}
	in.taken = true
	if !in.rep.doubtful && in.rep.unchanged(m) {
		r.seen.item(true)
		return
	}
	r.seen.item(false)
	in.hear(m.ResourceVersion)
	good := r.receive(o,
		func(obj T) { in.rep.put(m, obj) },
		func(obj T) { r.store.remove(m, obj, true) })
	if good {
		return
	}
	// What is stored of it stays: the object is there, only not readable.
	in.rep.retain(m)
	if in.bad == nil {
		in.bad = map[decode.Key]struct{}{}
	}
	in.bad[ownKey(m.Key())] = struct{}{}
}

// hear notes a version that the list brought.
func (in *intake[T]) hear(rv string) {
	if in.heard == "" || olderRV(in.heard, rv) {
		in.heard = strings.Clone(rv)
	}
}

// abandon ends a list that did not come to its end. What it brought stays.
func (in *intake[T]) abandon() {
	in.rep.abandon()
	if s := &in.r.session; in.heard != "" && (s.heard == "" || olderRV(s.heard, in.heard)) {
		s.heard = in.heard
	}
}

// commit ends a complete list that is as of rv. "A server that went back in time
// is detected, counted and answered by a full replace with real deletes."
func (in *intake[T]) commit(rv string) replaceResult {
	r := in.r
	before := r.session.newest()
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
