package reflector

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// replay is Subscription.Replay at work: passes through the collection, of a period each. A nil replay
// does nothing.
type replay[T any] struct {
	every time.Duration
	timer *time.Timer // nil until it is needed
	// began is when the pass under way did, zero before the first Synced. What was told late moves it.
	began time.Time
	pass  []*entry[T] // what was there then, by key
	told  int         // how many of them are dealt with
}

// replaySlack is the part of a period by which replays may be late and be told in quick succession to
// make up for it: timers are never exact. What is later shifts all that follow.
const replaySlack = 100

// begin starts the passes, at the first Synced.
func (r *replay[T]) begin() {
	if r != nil && r.began.IsZero() {
		r.began = time.Now().Add(-r.every)
	}
}

// due returns the object to tell again, or nil, and then sets the timer for the next one. d has
// nothing else to tell.
func (r *replay[T]) due(d *deliverer[T], now time.Time) *entry[T] {
	if r.began.IsZero() {
		return nil
	}
	for {
		if r.told == len(r.pass) {
			if !r.reached(r.began.Add(r.every), now) {
				return nil
			}
			r.began = r.began.Add(r.every)
			r.pass, r.told = r.list(d), 0
		}
		n := len(r.pass)
		if n == 0 {
			continue
		}
		at := r.began.Add(time.Duration(float64(r.every) / float64(n) * float64(r.told+1)))
		if !r.reached(at, now) {
			return nil
		}
		e, caughtUp := d.current(r.pass[r.told].key)
		if !caughtUp {
			return nil // it came just now, and d is awake
		}
		r.pass[r.told] = nil
		r.told++
		if e != nil {
			return e
		}
	}
}

// reached reports whether it is time, and sets the timer if it is not.
func (r *replay[T]) reached(at, now time.Time) bool {
	late := now.Sub(at)
	if late < 0 {
		if r.timer == nil {
			r.timer = time.NewTimer(-late)
		} else {
			r.timer.Reset(-late)
		}
		return false
	}
	r.began = r.began.Add(max(0, late-r.every/replaySlack))
	return true
}

// list returns what the subscriber knows, by key: so each object has its place in the
// period, pass after pass.
func (r *replay[T]) list(d *deliverer[T]) []*entry[T] {
	d.s.mu.RLock()
	all := d.s.objects.entries()
	d.s.mu.RUnlock()
	if d.filter != nil {
		all = slices.DeleteFunc(all, func(e *entry[T]) bool { return !d.filter.knows(e.key) })
	}
	slices.SortFunc(all, func(a, b *entry[T]) int { return compareKeys(a.key, b.key) })
	return all
}

func compareKeys(a, b decode.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// wait is readable when the timer has fired.
func (r *replay[T]) wait() <-chan time.Time {
	if r == nil || r.timer == nil {
		return nil
	}
	return r.timer.C
}

func (r *replay[T]) stop() {
	if r != nil && r.timer != nil {
		r.timer.Stop()
	}
}

// current returns what is stored under k, as the subscriber knows it: nil where it knows of none.
// caughtUp is false, and nothing can be said, where something is pending.
func (d *deliverer[T]) current(k decode.Key) (e *entry[T], caughtUp bool) {
	d.s.mu.RLock() // so that nothing is pushed
	defer d.s.mu.RUnlock()
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.m.depthLocked() > 0 {
		return nil, false
	}
	if d.filter != nil && !d.filter.knows(k) {
		return nil, true
	}
	return d.s.objects.find(k), true
}
