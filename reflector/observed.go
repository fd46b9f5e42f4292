package reflector

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// observed is what others may see of a running reflector: Run's goroutine
// writes it, Status and Stats read it.
type observed struct {
	lists, watches histogram

	// What is counted for each event or item stands apart from what mu guards.
	events               [indexesN]atomic.Uint64
	causes               [causesN]atomic.Uint64
	items, skips         atomic.Uint64
	listed               atomic.Int64 // items of the list under way
	panics, decodeErrors atomic.Uint64

	mu     sync.Mutex // guards all below
	status Status     // without Objects and Quarantined, which are filled in when asked for
	stats  Stats      // without what store and transfer count
	// quarantined are the objects that did not decode, by key. Only Run's goroutine changes it.
	quarantined map[decode.Key]Quarantined
	// lastByte asks the open stream when its last bytes came; nil when none is open.
	lastByte func() time.Time
}

func newObserved(name, resource string, first State) *observed {
	o := &observed{
		status: Status{Name: name, Resource: resource, State: first, Since: time.Now()},
		stats: Stats{
			Lists: map[string]uint64{}, WatchLists: map[string]uint64{},
			Restarts: map[reason.Reason]uint64{},
		},
	}
	o.lists.bounds, o.watches.bounds = listBounds, watchBounds
	return o
}

// update runs change while nobody reads.
func (o *observed) update(change func(*Status, *Stats)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(&o.status, &o.stats)
}

// event counts one watch event that was read.
func (o *observed) event(typ watch.EventType) { o.events[typeIndex(typ)].Add(1) }

// ignored counts one event or item that was not applied.
func (o *observed) ignored(c cause) { o.causes[c].Add(1) }

// read notes that an event or a bookmark of a live watch was read and dealt with at now.
func (o *observed) read(now time.Time, rv string, bookmark bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status.FreshAsOf, o.status.ResourceVersion = now, rv
	if bookmark {
		o.stats.LastBookmark = now
	}
}

// listing starts the progress of a list or watch-list.
func (o *observed) listing() {
	o.listed.Store(0)
	o.update(func(s *Status, _ *Stats) { s.RemainingItems = 0 })
}

// remaining notes what the server says of a page.
func (o *observed) remaining(m metav1.ListMeta) {
	o.update(func(s *Status, _ *Stats) {
		s.RemainingItems = 0
		if m.RemainingItemCount != nil {
			s.RemainingItems = *m.RemainingItemCount
		}
	})
}

// item counts one item; skipped says that the store had it already.
func (o *observed) item(skipped bool) {
	o.listed.Add(1)
	o.items.Add(1)
	if skipped {
		o.skips.Add(1)
	}
}

// outcome counts the end of a LIST request or a watch-list.
func (o *observed) outcome(watchList, ok bool) {
	word := failure
	if ok {
		word = success
	}
	o.update(func(_ *Status, c *Stats) {
		if watchList {
			c.WatchLists[word]++
		} else {
			c.Lists[word]++
		}
	})
}

// opened counts an answered watch, whose stream tells from now on when its last bytes came.
func (o *observed) opened(lastByte func() time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.Watches++
	o.lastByte = lastByte
}

func (o *observed) closed(lived time.Duration) {
	o.watches.observe(lived)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastByte != nil {
		o.stats.LastByte = o.lastByte()
	}
	o.lastByte = nil
}

// quarantine notes that an object did not decode.
func (o *observed) quarantine(m decode.Meta, err error) {
	o.decodeErrors.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.Name == "" {
		return // too large to hold, or no object: there is no key to keep it under
	}
	q := Quarantined{
		Key:             ownKey(m.Key()),
		ResourceVersion: strings.Clone(m.ResourceVersion),
		Since:           time.Now(),
		Err:             err,
	}
	if before, ok := o.quarantined[q.Key]; ok {
		q.Since = before.Since
	}
	if o.quarantined == nil {
		o.quarantined = map[decode.Key]Quarantined{}
	}
	o.quarantined[q.Key] = q
}

// ownKey copies a key whose strings may be parts of something larger.
func ownKey(k decode.Key) decode.Key {
	return decode.Key{Namespace: strings.Clone(k.Namespace), Name: strings.Clone(k.Name)}
}

// release frees an object: a good version of it came, or it is gone.
func (o *observed) release(k decode.Key) {
	if len(o.quarantined) == 0 {
		return // as nearly always
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.quarantined, k)
}

// releaseAllBut frees all but the objects that the list just completed could not decode.
func (o *observed) releaseAllBut(bad map[decode.Key]struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.quarantined, func(k decode.Key, _ Quarantined) bool {
		_, still := bad[k]
		return !still
	})
}

func (o *observed) statusCopy() Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.status
	s.ListedItems = o.listed.Load()
	if s.LastRestart != nil {
		last := *s.LastRestart
		s.LastRestart = &last
	}
	s.Quarantined = slices.SortedFunc(maps.Values(o.quarantined), func(a, b Quarantined) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
	return s
}

func (o *observed) statsCopy() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.stats
	c.Lists, c.WatchLists = maps.Clone(c.Lists), maps.Clone(c.WatchLists)
	c.Events, c.Ignored = counted(EventTypes(), o.events[:]), counted(Causes(), o.causes[:])
	c.ListItems, c.ListSkips = o.items.Load(), o.skips.Load()
	c.DecodeErrors, c.Panics = o.decodeErrors.Load(), o.panics.Load()
	c.Restarts = maps.Clone(c.Restarts)
	c.ListDuration, c.WatchDuration = o.lists.snapshot(), o.watches.snapshot()
	if o.lastByte != nil {
		c.LastByte = o.lastByte()
	}
	return c
}

// counted names what there was any of.
func counted(words []string, counts []atomic.Uint64) map[string]uint64 {
	m := make(map[string]uint64, len(words))
	for i, word := range words {
		if n := counts[i].Load(); n > 0 {
			m[word] = n
		}
	}
	return m
}
