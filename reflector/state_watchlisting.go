package reflector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// watchListing: a watch with sendInitialEvents (KEP-3157) is being read: first
// an ADDED for each object, then a bookmark with the mark
// k8s.io/initial-events-end, then changes. "It ends only on a bookmark annotated
// k8s.io/initial-events-end"; changes before it are applied as well.
//
// Exits:
//   - "" (the mark came): watching, on the same stream;
//   - watchlist_unsupported: the server refuses (400, 403, 405, 406, 415, 422,
//     501): listing, at once. Remembered for half an hour;
//   - watchlist_incomplete: the stream ended without the mark: watchListing
//     after a wait. The third time in a row whatever ended it, or after 75 s
//     without a further initial event: listing, at once. Remembered;
//   - decode, since none of its objects is of the collection: the same, with that reason;
//   - expired, rv_too_large, rv_regressed: as in listing;
//   - every other reason: watchListing after a wait;
//   - stopped.
//
// With InitialWatchList there is no listing: what would lead there leads to
// watchListing after a wait.
type watchListing struct {
	// rv is what the collection may not be older than; empty asks for the newest state.
	rv string
}

// markWait is how long the mark may take after the last initial event. Some
// servers send it only with the bookmark of the minute.
const markWait = 75 * time.Second

func (watchListing) name() State { return StateWatchListing }

func (watchListing) detail() string {
	return "for the bookmark that ends the initial events (" + metav1.InitialEventsAnnotationKey + ")"
}

func (r *Reflector[T]) watchList(ctx context.Context, s watchListing) exit {
	yes := true
	r.seen.listing()
	floor := r.floor(s.rv)
	a, err := r.openWatch(ctx, metav1.ListOptions{
		ResourceVersion:      s.rv,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		SendInitialEvents:    &yes,
	})
	if err != nil {
		r.seen.outcome(true, false)
		return r.watchListFailed(ctx, s, err, reasonOf(err) == reason.Decode)
	}
	in := r.newInitialEvents(ctx, s.rv, a)
	in.floor = floor
	rv, err := in.read(a)
	r.seen.outcome(true, err == nil)
	if err != nil {
		in.abandon()
		r.close(a)
		return r.watchListFailed(ctx, s, err, true)
	}
	now := time.Now()
	in.takeEarly()
	res := in.commit(rv)
	a.start = rv
	a.opened = now // as a watch: the time it took to the mark is no sign of health
	a.note(now)
	r.complete(rv, a.asked, now, res)
	return exit{next: watching[T]{open: a}}
}

// initialEvents reads a watch-list up to its mark.
type initialEvents[T any] struct {
	*intake[T]
	a     *attempt[T]
	until time.Time     // when the mark is overdue, if subscribers are waited for no more than at since
	since time.Duration // of store.waited
	live  bool          // a change came: the initial events are over, only the mark is missing
	early early[T]
}

func (r *Reflector[T]) newInitialEvents(ctx context.Context, asked string, a *attempt[T]) *initialEvents[T] {
	in := &initialEvents[T]{intake: r.newIntake(ctx, asked), a: a, until: a.opened.Add(markWait), since: r.store.waited}
	in.early.rv, in.hold = r.session.newest(), in.holdEarly
	in.line.settle = func(j *job[T]) {
		in.alive(j.o.Meta.Key(), func() { in.settle(j.old, &j.o.Meta, &j.c, j.err) })
	}
	a.sw.OnWait(in.wait)
	return in
}

// overdue returns when the mark is. The time for which subscribers were waited for is theirs, not the mark's.
func (in *initialEvents[T]) overdue() time.Time { return in.until.Add(in.r.store.waited - in.since) }

// limit returns how long the next bytes may take.
func (in *initialEvents[T]) limit() time.Duration {
	idle := in.r.cfg.IdleTimeout
	if idle == 0 {
		idle = DefaultIdleTimeout
	}
	return min(time.Until(in.overdue()), idle)
}

// alive takes an object by take. Only what is of the collection, and new, keeps the wait alive.
func (in *initialEvents[T]) alive(k decode.Key, take func()) {
	fresh := !in.live && !in.has(k)
	if take(); fresh && in.has(k) {
		in.until, in.since = time.Now().Add(markWait), in.r.store.waited
	}
}

// read returns the resourceVersion of the mark.
func (in *initialEvents[T]) read(a *attempt[T]) (rv string, err error) {
	for {
		limit := in.limit()
		if limit <= 0 {
			return "", errNoMark
		}
		ev, err := a.next(in.ctx, limit)
		switch {
		case err == nil:
		case reasonOf(err) == reason.Idle && !time.Now().Before(in.overdue()):
			return "", errNoMark
		default:
			return "", err
		}
		switch ev.Type {
		case watch.Error:
			in.r.seen.event(ev.Type)
			return "", in.r.statusError(ev.Status)
		case watch.Bookmark:
			in.r.seen.event(ev.Type)
			// One without the mark is of no use yet: what lies before it is
			// not all there.
			if m := ev.Object.Meta; m.InitialEventsEnd {
				rv := strings.Clone(versionOf(m.ResourceVersion))
				err := in.refuses(rv)
				if err == nil && in.ctx.Err() != nil { // something in the line may have been given up
					err = &fault{reason.Stopped, context.Cause(in.ctx)}
				}
				return rv, err
			}
		default:
			in.line.off = !in.line.busy() && !a.sw.More()
			in.tell(ev, &a.gone)
		}
	}
}

// errNoMark: the mark did not come in time.
var errNoMark = &fault{reason.WatchListIncomplete,
	fmt.Errorf("no %s within %v after the last initial event", metav1.InitialEventsAnnotationKey, markWait)}

// tell takes an event, and counts it.
func (in *initialEvents[T]) tell(ev *streamwatcher.Event[T], gone *graves) {
	if in.event(ev, gone) {
		in.r.seen.event(ev.Type)
	}
}

// event is false, and nothing is counted, where the event turned out to be not whole.
func (in *initialEvents[T]) event(ev *streamwatcher.Event[T], gone *graves) (whole bool) {
	m := &ev.Object.Meta
	if ev.Type != watch.Deleted && m.Name != "" {
		in.line.await(m.Key())
	} else {
		in.line.drain()
	}
	if in.ctx.Err() != nil {
		return false // the same
	}
	if ev.Type != watch.Deleted && gone.hold(m.UID, m.ResourceVersion) {
		return in.r.ignore(&ev.Object, causeStale) == taken
	}
	whole = true
	old := in.r.store.find(m.Key())
	stored := old != nil && (old.uid == m.UID || m.UID == "")
	if stored {
		in.early.forget(m.Key())
	}
	switch ev.Type {
	case watch.Added:
		in.alive(m.Key(), func() { whole = in.take(&ev.Object) })
	case watch.Modified:
		in.live = true
		whole = in.take(&ev.Object)
	case watch.Deleted:
		in.live = true
		switch {
		case m.Name == "":
		case !in.r.belongs(m):
			if whole = !half(&ev.Object); whole {
				in.r.foreign()
			}
		default:
			if whole = in.r.deleted(&ev.Object); !whole {
				return false
			}
			in.hear(m.ResourceVersion)
			gone.bury(m.UID, m.ResourceVersion)
			in.early.end(m)
			if stored {
				in.rep.unsee(m.Key())
			}
		}
	}
	return whole
}

// has reports whether the watch-list brought k already.
func (in *initialEvents[T]) has(k decode.Key) bool { return in.rep.has(k) || in.early.has(k) }

// wait is called before more is waited for: an event is in the store by then, and those that come together after it
// are a burst of their own, as on a watch.
func (in *initialEvents[T]) wait() {
	in.line.drain()
	in.line.came = 0
	in.a.sw.SetIdleTimeout(max(in.limit(), 1)) // which may be longer now; 0 would be none
}

// holdEarly holds an object that is not to be believed before the mark (see early).
// It reports whether it did.
func (in *initialEvents[T]) holdEarly(old *entry[T], m *decode.Meta, c content[T]) bool {
	switch {
	case old != nil && old.uid == m.UID:
		return false
	case !in.early.tells(m.ResourceVersion):
		in.early.forget(m.Key())
		return false
	case old != nil && in.rep.has(m.Key()) && follows(old.rv, m.ResourceVersion):
		in.r.seen.ignored(causeStale) // this very list told of what came after it
	default:
		in.early.hold(m, c)
	}
	return true
}

// takeEarly takes what is held: the mark has come.
func (in *initialEvents[T]) takeEarly() {
	for _, item := range in.early.items {
		if err := in.putEarly(&item); err != nil {
			in.r.seen.quarantine(item.meta, err)
			in.unreadable(&item.meta)
		}
	}
}

// putEarly takes one of them. Functions of indexes may panic.
func (in *initialEvents[T]) putEarly(item *earlyItem[T]) (err error) {
	defer in.r.recovered(&err)
	in.rep.put(in.r.store.find(item.meta.Key()), &item.meta, item.content)
	return nil
}

// watchListFailed decides how to go on. try says that the attempt counts as one
// that ended without its mark.
func (r *Reflector[T]) watchListFailed(ctx context.Context, s watchListing, err error, try bool) exit {
	if ctx.Err() != nil {
		return exit{why: reason.Stopped, err: context.Cause(ctx), next: stopped{}}
	}
	why := reasonOf(err)
	e := exit{why: why, err: err, next: s, pace: paceOf(why, err), hint: retryAfter(err)}
	strict := r.cfg.InitialSync == InitialWatchList // nothing but a watch-list was asked for
	switch {
	case refusesWatchList(err) && strict:
		e.why = reason.WatchListUnsupported
		return e
	case refusesWatchList(err):
		return r.fallBack(reason.WatchListUnsupported, err, s)
	case s.rv == "" && why == reason.Expired:
		e.pace = calm
	case s.rv != "" && why == reason.RVTooLarge && r.session.lags():
		e.pace = lagging
		return e
	case s.rv != "" && (why == reason.RVTooLarge || why == reason.Expired || why == reason.RVRegressed):
		e.next, e.pace, e.hint = watchListing{}, atOnce, 0
		return e
	}
	if why == reason.EOF {
		e.why, e.pace = reason.WatchListIncomplete, calm
	}
	if strict {
		return e
	}
	if try {
		r.session.tries++
	}
	if errors.Is(err, errNoMark) || r.session.tries >= watchListTries {
		if errors.As(err, new(*alienError)) {
			return r.fallBack(why, err, s) // it was complete
		}
		return r.fallBack(reason.WatchListIncomplete, err, s)
	}
	return e
}

// refusesWatchList reports whether err says that the server has no watch-list
// for this user.
func refusesWatchList(err error) bool {
	var answer interface{ RefusesInitialEvents() bool }
	return errors.As(err, &answer) && answer.RefusesInitialEvents() || reasonOf(err) == reason.Forbidden
}

// fallBack lists instead, and remembers it: "the decision is remembered per
// resource and retried later". A reflector has one resource.
func (r *Reflector[T]) fallBack(why reason.Reason, err error, s watchListing) exit {
	r.session.tries = 0
	r.session.listOnly = time.Now().Add(watchListRetry)
	return exit{why: why, err: err, next: listing{rv: s.rv}}
}
