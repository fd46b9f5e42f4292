package listwatchtest

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// store is the server's database: the current objects of each resource, one
// counter of versions, and for each resource the log of its latest changes.
// Objects in it are never changed, only replaced.
type store struct {
	window, queue int

	mu          sync.Mutex
	rv          uint64
	moved       chan struct{} // closed, and replaced, when rv moves
	collections map[schema.GroupVersionResource]*collection
	order       []*collection // in order of registration, for discovery
}

// collection is one resource's part of the store, guarded by store.mu.
type collection struct {
	*resource
	objects map[string]Object
	keys    []string // of objects, sorted
	log     []change // of the last changes, oldest first
	// floor is the version of the newest change that is no longer in the log:
	// the oldest version that can be watched from and listed at.
	floor uint64
	// seen is the version up to which the collection is known to be current,
	// as a real server's watch cache knows it: that of its own last change, or
	// of a later look. What may be of any version is of this one.
	seen     uint64
	watchers map[*watcher]struct{}
}

// change is one entry of a log. old is nil when the object was created, new
// when it was deleted.
type change struct {
	rv       uint64
	key      string
	old, new Object
}

// entry is one object of a list.
type entry struct {
	key    string
	object Object
}

func newStore(window, queue int) *store {
	return &store{
		// No cluster is ever at version 0, and 0 has a meaning in requests.
		rv: 1, window: window, queue: queue,
		moved: make(chan struct{}), collections: make(map[schema.GroupVersionResource]*collection),
	}
}

// register adds a collection. One that is registered twice is replaced.
func (s *store) register(r *resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &collection{resource: r, objects: make(map[string]Object), watchers: make(map[*watcher]struct{}), floor: s.rv, seen: s.rv}
	if old := s.collections[r.GroupVersionResource]; old != nil {
		s.order[slices.Index(s.order, old)] = c
	} else {
		s.order = append(s.order, c)
	}
	s.collections[r.GroupVersionResource] = c
}

// collection returns the collection of a resource, or nil.
func (s *store) collection(gvr schema.GroupVersionResource) *collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collections[gvr]
}

// all returns the collections in order of registration.
func (s *store) all() []*collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// currentRV returns the version of the newest change of any resource.
func (s *store) currentRV() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rv
}

// advance moves the version by n without a change, as writes to resources that
// nobody looks at do.
func (s *store) advance(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceLocked(n)
}

func (s *store) advanceLocked(n uint64) {
	s.rv += n
	close(s.moved)
	s.moved = make(chan struct{})
}

// commitLocked writes a new object at key, or none to delete it. It sets the
// new object's version and tells the watchers.
func (s *store) commitLocked(c *collection, key string, obj Object) {
	s.advanceLocked(1)
	ev := change{rv: s.rv, key: key, old: c.objects[key], new: obj}
	i, found := slices.BinarySearch(c.keys, key)
	switch {
	case obj == nil:
		delete(c.objects, key)
		c.keys = slices.Delete(c.keys, i, i+1)
	default:
		obj.SetResourceVersion(formatRV(s.rv))
		c.objects[key] = obj
		if !found {
			c.keys = slices.Insert(c.keys, i, key)
		}
	}
	c.seen = s.rv
	c.log = append(c.log, ev)
	c.trimLocked(s.window)
	for w := range c.watchers {
		w.pushLocked(pending{change: ev}, s.queue)
	}
}

// trimLocked forgets the oldest changes down to n.
func (c *collection) trimLocked(n int) {
	for len(c.log) > n {
		c.floor = c.log[0].rv
		c.log[0] = change{} // the array lives on; the objects must not
		c.log = c.log[1:]
	}
}

// setWindow changes how many changes are kept from now on.
func (s *store) setWindow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window = n
	for _, c := range s.order {
		c.trimLocked(n)
	}
}

// compact forgets what was before version rv, in all resources.
func (s *store) compact(rv uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rv = min(rv, s.rv)
	for _, c := range s.order {
		kept := sort.Search(len(c.log), func(i int) bool { return c.log[i].rv > rv })
		c.trimLocked(len(c.log) - kept)
		c.floor = max(c.floor, rv)
	}
}

// lookLocked returns the version at which a request that wants at least version
// rv sees the collection. A consistent one wants the newest.
func (s *store) lookLocked(c *collection, rv uint64, consistent bool) uint64 {
	if consistent || rv > c.seen {
		c.seen = s.rv
	}
	return c.seen
}

// stateLocked returns the objects as they were at version rv, which must not be
// below the floor, sorted by key.
func (c *collection) stateLocked(rv uint64) []entry {
	first := sort.Search(len(c.log), func(i int) bool { return c.log[i].rv > rv })
	if first == len(c.log) {
		state := make([]entry, 0, len(c.keys))
		for _, key := range c.keys {
			state = append(state, entry{key, c.objects[key]})
		}
		return state
	}
	// The first change of a key after rv knows what the key held at rv.
	was := make(map[string]Object)
	for _, ev := range c.log[first:] {
		if _, seen := was[ev.key]; !seen {
			was[ev.key] = ev.old
		}
	}
	state := make([]entry, 0, len(c.keys)+len(was))
	for _, key := range c.keys {
		if _, changed := was[key]; !changed {
			state = append(state, entry{key, c.objects[key]})
		}
	}
	for key, obj := range was {
		if obj != nil {
			state = append(state, entry{key, obj})
		}
	}
	slices.SortFunc(state, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return state
}

func formatRV(rv uint64) string { return strconv.FormatUint(rv, 10) }

// parseRV reads a version of a request; "" is 0. The error's words are the server's.
func parseRV(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", s, err)
	}
	return rv, nil
}
