package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// watching: changes are read and applied.
//
// "Any end of a watch (END, FIN, RST, 5xx, GOAWAY, idle) re-watches at the last
// RV. Only 410/Expired, RV regression, replay or too-large RV lead to a list."
//
// Exits:
//   - eof: watching again; at once where the watch brought something or lived its
//     time, or long enough, though not twice within a second;
//   - short_watch: a clean end long before the time, of a watch that brought nothing:
//     watching after a wait;
//   - expired: a list not older than what is known; in a cycle that got nowhere,
//     the newest. At once where a wait was just over, though not from the third in a row on, else after one;
//   - rv_too_large: watching again after a moment; the second time the newest list;
//   - rv_regressed: a bookmark lies before what is known, or before what another member of the union knew a
//     while ago and this one hides something for: the newest list;
//   - replay: events come from before the watch's start: the newest list;
//   - idle, within a limit of the caller's that is shorter than the time between
//     two bookmarks: watching again after a short wait, which does not grow;
//   - idle, deadline, transport, server_error, too_many_requests, forbidden,
//     unauthorized, rejected, decode: watching again after a wait;
//   - stopped.
//
// Two exceptions keep it from being stuck for good, both bounded by the backoff:
// watches that live their time in complete silence, or are cut in it, or one of
// over a minute after a failure (see session.silence), and several in a row that are rejected or
// bring no sense from one resourceVersion, are followed by the newest list. So is
// every end where the server named no resourceVersion, since there is nothing to
// resume at.
type watching[T any] struct {
	// open is the stream to go on reading; nil opens one at the session's resourceVersion.
	open *attempt[T]
	// after is why the last watch ended, empty after a list.
	after reason.Reason
}

// bookmarkDue is when a watch without a bookmark is suspicious.
const bookmarkDue = 75 * time.Second

// shortWatch is how often at most a watch is resumed without a wait.
const shortWatch = time.Second

// soundWatch is the life with which a watch that brought nothing is a success
// all the same, where that is less than what was asked for. A server that ends
// each watch after a second or two would be asked once a second by each client,
// for as long as it does so: it has some trouble, and gets the backoff.
const soundWatch = 10 * time.Second

func (watching[T]) name() State { return StateWatching }

func (watching[T]) detail() string { return "" }

func (r *Reflector[T]) watch(ctx context.Context, s watching[T]) exit {
	a, err := r.reopen(ctx, s)
	if err == nil {
		err = r.follow(ctx, a)
	}
	return r.watchEnded(ctx, a, err)
}

// reopen returns the stream to read; an error is why there is none.
//
//go:noinline
func (r *Reflector[T]) reopen(ctx context.Context, s watching[T]) (*attempt[T], error) {
	if s.open != nil {
		return s.open, nil
	}
	a, err := r.openWatch(ctx, metav1.ListOptions{ResourceVersion: r.session.rv})
	if err == nil && s.after != "" {
		r.log.Info("reconnected", "rv", a.start, "reason", string(s.after))
	}
	return a, err
}

// follow deals with what the stream brings until it ends.
//
//go:noinline
func (r *Reflector[T]) follow(ctx context.Context, a *attempt[T]) error {
	r.beginBurst(ctx, a)
	defer r.endFollow(a)
	for {
		limit := r.cfg.IdleTimeout
		if limit == 0 {
			limit = a.cadence.limit()
			if r.session.suspects() && a.brought == 0 {
				// Is it still the same server? See session.silence.
				limit = bookmarkDue
			}
		}
		ev, err := a.next(ctx, limit)
		if err == nil {
			err = r.deal(a, ev)
			a.burst.noteWaited()
		}
		if err != nil {
			return err
		}
	}
}

// endFollow ends what follow began: all that was read is dealt with, and then the request is over.
func (r *Reflector[T]) endFollow(a *attempt[T]) {
	defer r.close(a)
	a.burst.end()
}

// deal applies one event, and only then moves the resourceVersion. An error ends the watch.
//
// What is not whole is no event and is not counted: the stream brings it again, or ends, and the next one does.
func (r *Reflector[T]) deal(a *attempt[T], ev *streamwatcher.Event[T]) error {
	m := &ev.Object.Meta
	rv := versionOf(m.ResourceVersion)
	bookmark := ev.Type == watch.Bookmark
	var err error
	if (ev.Type == watch.Added || ev.Type == watch.Modified) && m.Name != "" {
		err = a.burst.await(m.Key())
	} else {
		err = a.burst.drain()
	}
	if err != nil {
		return err
	}
	switch {
	case ev.Type == watch.Error:
		r.seen.event(ev.Type)
		return r.statusError(ev.Status)
	case bookmark:
		r.seen.event(ev.Type)
		if olderRV(rv, r.session.rv) {
			return &fault{reason.RVRegressed, fmt.Errorf("a bookmark has resourceVersion %q, which is older than %q", rv, r.session.rv)}
		}
		if r.among != nil && rv != "" {
			if later := r.among.passed(rv); later != "" {
				return &fault{reason.RVRegressed, fmt.Errorf("a bookmark has resourceVersion %q, and another member of the union was told of %q over %v before",
					rv, later, bookmarkDue)}
			}
		}
		a.cadence.bookmark(a.opened, time.Now())
	default:
		old, v := r.judge(ev, a.start, &a.gone)
		if v == unfinished {
			return nil
		}
		if v == news && a.burst.add(ev, old) {
			r.seen.event(ev.Type)
			return nil
		}
		if err = a.burst.drain(); err != nil {
			return err
		}
		var c content[T]
		if v == news {
			if c, err = r.make(&ev.Object, old); errors.Is(err, decode.ErrLine) {
				return nil
			}
		}
		r.seen.event(ev.Type)
		switch v {
		case news:
			r.applyNews(a, old, m, &c, err)
			return nil
		case doubtful:
			return &fault{reason.Replay, fmt.Errorf("%s of %s with resourceVersion %q on a watch from %q",
				ev.Type, m.Key(), rv, a.start)}
		case replayed:
			if a.replays++; a.replays >= replayTries {
				return &fault{reason.Replay, fmt.Errorf("%d events in a row from before the watch's start at %q", a.replays, a.start)}
			}
			return nil
		case skipped:
			a.note(time.Now())
			return nil
		case taken:
			a.replays = 0
		case unfinished: // it went above
		}
	}
	r.reached(a, rv, bookmark)
	return nil
}

// applyNews applies an event that was judged to be news, and then its resourceVersion counts.
func (r *Reflector[T]) applyNews(a *attempt[T], old *entry[T], m *decode.Meta, c *content[T], err error) {
	r.apply(old, m, c, err)
	a.replays = 0
	r.reached(a, versionOf(m.ResourceVersion), false)
}

// reached notes that all up to rv was dealt with.
func (r *Reflector[T]) reached(a *attempt[T], rv string, bookmark bool) {
	now := time.Now()
	a.note(now)
	r.session.advance(rv, bookmark)
	r.session.progress()
	r.seen.read(now, r.session.rv, bookmark)
}

// watchEnded decides how to go on; a is nil when the request was not answered with a stream.
func (r *Reflector[T]) watchEnded(ctx context.Context, a *attempt[T], err error) exit {
	if ctx.Err() != nil {
		return exit{why: reason.Stopped, err: context.Cause(ctx), next: stopped{}}
	}
	s := &r.session
	why := reasonOf(err)
	now := time.Now()
	whole := a != nil && why == reason.EOF && now.Sub(a.opened) >= a.timeout*4/5 // it lived its time
	health, sound := time.Duration(0), false
	if a != nil {
		sound = whole || why == reason.Transport && now.Sub(a.opened) >= soundWatch
		health = a.health(sound, now)
	}
	r.backoff.healthy(health, sound)
	hint := retryAfter(err)
	again := exit{why: why, err: err, next: watching[T]{after: why}, pace: paceOf(why, err), hint: hint}
	failed := s.failed
	s.failed = failed || !whole
	switch why {
	case reason.Expired:
		// On an open stream the server may have lost its place later on.
		s.expired++
		s.refused = s.rv
		if a != nil {
			s.refused = a.start
		}
		e := r.relist(why, err, s.relistRV(), spread)
		e.hint = hint
		// A server that restarts forgets its history, and so tells each client
		// that comes back after its own wait. Where that did not come of a
		// wait, everybody is told in the same instant. A server that refuses the watches of its own lists
		// gets one list a wait.
		if hint == 0 && s.expired <= 2 && (a == nil || now.Sub(a.opened) < shortWatch) {
			e.pace = s.arrival(now)
		}
		return e
	case reason.RVTooLarge:
		if !s.lags() {
			return r.relist(why, err, "", calm)
		}
		again.pace = lagging
	case reason.RVRegressed, reason.Replay:
		return r.relist(why, err, "", calm)
	case reason.Rejected, reason.Decode:
		if s.stuck++; s.stuck >= stuckTries {
			s.stuck = 0
			return r.relist(why, fmt.Errorf("%d watches in a row from resourceVersion %q: %w", stuckTries, s.rv, err), "", calm)
		}
	case reason.EOF, reason.Idle, reason.Deadline, reason.Transport:
		if a == nil {
			break
		}
		lived := now.Sub(a.opened)
		// A server sends a bookmark a minute, and one shortly before the timeout.
		due := lived >= a.timeout*4/5 || lived >= bookmarkDue
		suspicious := failed && now.Sub(a.asked) >= bookmarkDue
		if a.brought == 0 && (why != reason.EOF || due) && s.silence(due, suspicious, lived) {
			s.doubt = true
			p := calm
			if suspicious {
				p = atOnce // it took over a minute, and so will the next time
			}
			return r.relist(why, fmt.Errorf("neither event nor bookmark on the last watches from resourceVersion %q, which may be from before a restore of the server",
				s.rv), "", p)
		}
		if why == reason.Idle && r.cfg.IdleTimeout > 0 && r.cfg.IdleTimeout < bookmarkDue {
			again.pace = quiet
		}
		if why != reason.EOF {
			break
		}
		if a.brought == 0 && !whole && lived < soundWatch {
			again.why, again.next = reason.ShortWatch, watching[T]{after: reason.ShortWatch}
			if lived >= shortWatch {
				again.pace = brief
			}
			break
		}
		if now.Sub(s.resumed) >= shortWatch {
			again.pace, s.resumed = atOnce, now
		}
	}
	if s.rv == "" {
		again.next = r.sync("")
		if again.pace == atOnce {
			again.pace = calm // a list is not as cheap as a watch
		}
	}
	return again
}
