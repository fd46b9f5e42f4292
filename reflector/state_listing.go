package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
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
	floor := r.floor(l.rv)
	in := r.newIntake(ctx, l.rv)
	in.floor = floor
	meta, err := listwatch.Pages(ctx, pageCounter[T]{r}, opts, in)
	meta.ResourceVersion = versionOf(meta.ResourceVersion)
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
