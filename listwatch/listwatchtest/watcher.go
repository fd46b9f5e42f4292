package listwatchtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one open watch: a queue of changes that its request has yet to
// send. Its fields below the line are guarded by store.mu.
type watcher struct {
	selection selection
	bookmarks bool          // the client allows them
	wake      chan struct{} // holds a token when the queue is not empty or over is set

	initial []entry // the state at start, sent as ADDED; nil when none was asked for
	endMark bool    // a bookmark with the end annotation follows initial
	start   uint64  // the version of initial, or the one to watch from

	queue []pending
	over  bool // ends when the queue is empty: it was too slow, or was told to end
}

// pending is a change, or a bookmark at change.rv.
type pending struct {
	change
	bookmark bool
}

func (w *watcher) pushLocked(p pending, limit int) {
	if w.over {
		return
	}
	if len(w.queue) >= limit {
		// A real server gives up a watch that does not keep up; the client
		// resumes where it is.
		w.over = true
	} else {
		w.queue = append(w.queue, p)
	}
	w.wakeLocked()
}

func (w *watcher) wakeLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (s *store) take(w *watcher) (batch []pending, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, w.queue = w.queue, nil
	return batch, w.over
}

// watchFrom says where a watch begins.
type watchFrom struct {
	rv         uint64
	consistent bool // no version was given
	initial    bool // the current state first
	endMark    bool
}

// watch opens a watch. The error is an Expired one, to be sent in the stream.
func (s *store) watch(c *collection, sel selection, from watchFrom, bookmarks bool) (*watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{selection: sel, bookmarks: bookmarks, wake: make(chan struct{}, 1), start: from.rv}
	switch {
	case from.initial:
		w.start = s.lookLocked(c, from.rv, from.consistent)
		w.initial, w.endMark = c.stateLocked(w.start), from.endMark
	case from.rv == 0: // sendInitialEvents=false: from now on
		w.start = s.lookLocked(c, 0, from.consistent)
	case from.rv < c.floor:
		return nil, errors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from.rv, c.floor))
	default:
		for _, ev := range c.log {
			if ev.rv > from.rv {
				w.queue = append(w.queue, pending{change: ev})
			}
		}
		if len(w.queue) > 0 {
			w.wakeLocked()
		}
	}
	c.watchers[w] = struct{}{}
	return w, nil
}

// unwatch closes a watch.
func (s *store) unwatch(c *collection, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.watchers, w)
	w.queue = nil
}

// bookmark queues a bookmark for one watch, or for all when w is nil.
func (s *store) bookmark(c *collection, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.seen = s.rv
	for each := range c.watchers {
		// A watch from a version that is not there yet has nothing to say.
		if (w == nil || each == w) && each.bookmarks && each.start <= s.rv {
			each.pushLocked(pending{change: change{rv: s.rv}, bookmark: true}, s.queue)
		}
	}
}

// endWatches ends all watches, each after what is queued for it.
func (s *store) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.order {
		for w := range c.watchers {
			w.over = true
			w.wakeLocked()
		}
	}
}

// event turns a change into what the watch's selection makes of it. ok is false
// when it is none of the watch's business.
func (w *watcher) event(c *collection, p pending) (_ watch.EventType, _ Object, ok bool) {
	if p.bookmark {
		return watch.Bookmark, bookmarkObject(c, p.rv, false), true
	}
	if p.rv <= w.start {
		return "", nil, false
	}
	was := p.old != nil && w.selection.matches(c.resource, p.key, p.old)
	is := p.new != nil && w.selection.matches(c.resource, p.key, p.new)
	switch {
	case is && was:
		return watch.Modified, p.new, true
	case is:
		return watch.Added, p.new, true
	case was:
		// The old content with the version of the change: a client that
		// takes its version from events must not fall back.
		gone := shallowCopy(p.old)
		gone.SetResourceVersion(formatRV(p.rv))
		return watch.Deleted, gone, true
	default:
		return "", nil, false
	}
}

// bookmarkObject is an empty object at version rv.
func bookmarkObject(c *collection, rv uint64, end bool) Object {
	obj := c.newObject()
	obj.SetResourceVersion(formatRV(rv))
	if end {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return obj
}
