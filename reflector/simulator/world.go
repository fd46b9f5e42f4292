package simulator

import (
	"fmt"
	"sort"
	"strconv"
	"time"
)

// flaw says why a client cannot read a version of an object.
type flaw uint8

const (
	sound    flaw = iota
	mistyped      // a field has another type than the client's
	huge          // larger than the client's limit for one object
)

// version is one write. Versions are never changed after they were made, and
// may be shared by several histories.
type version struct {
	seq  int // tells versions apart that two histories gave the same (uid, rv)
	rv   int64
	at   time.Duration
	name string // empty: a write to another resource
	uid  string
	gone bool // a delete; the content is the last one
	in   bool // it matches the client's selector
	flaw flaw
	prev *version // under the same name; nil when there was none, or it was deleted

	wire map[wireKey][]byte // encodings made so far
}

// there reports whether v is an object that a list has.
func (v *version) there() bool { return v != nil && !v.gone && v.in }

// wasThere reports whether a list before v had the object.
func (v *version) wasThere() bool { return v.prev.there() }

// relevant reports whether v changes the collection that the client sees.
func (v *version) relevant() bool { return v.name != "" && (v.there() || v.wasThere()) }

func (v *version) String() string {
	s := fmt.Sprintf("%s@%d/%s", v.name, v.rv, v.uid)
	if v.seq > 0 {
		s += "#" + strconv.Itoa(v.seq)
	}
	return s
}

// history is what etcd holds from a moment on: the first is from the start, and
// each restore begins another one that shares what lies before fork.
type history struct {
	id     int
	from   time.Duration
	fork   int64 // the resourceVersion up to which it equals the one before
	base   int64 // the resourceVersion of an empty log
	log    []*version
	window int    // how many versions the watch cache holds
	floors []mark // from when on a watch may not start below which resourceVersion

	cached   map[string]*version // the state after cachedAt versions
	cachedAt int
}

// mark is a resourceVersion from a moment on.
type mark struct {
	at time.Duration
	rv int64
}

// upTo returns how many versions were written at t.
func (h *history) upTo(t time.Duration) int {
	return sort.Search(len(h.log), func(i int) bool { return h.log[i].at > t })
}

// after returns the index of the first version newer than rv.
func (h *history) after(rv int64) int {
	return sort.Search(len(h.log), func(i int) bool { return h.log[i].rv > rv })
}

// rvOf returns the resourceVersion after n versions.
func (h *history) rvOf(n int) int64 {
	if n == 0 {
		return h.base
	}
	return h.log[n-1].rv
}

// floor returns the lowest resourceVersion at which a watch may start at t.
func (h *history) floor(t time.Duration) int64 {
	low := h.base
	for _, m := range h.floors {
		if m.at <= t {
			low = max(low, m.rv)
		}
	}
	if n := h.upTo(t); n > h.window {
		low = max(low, h.log[n-h.window-1].rv)
	}
	return low
}

// state returns the objects, by name, that a list has after n versions. The
// caller does not keep it beyond the next call.
func (h *history) state(n int) map[string]*version {
	if h.cached == nil || n < h.cachedAt {
		h.cached, h.cachedAt = map[string]*version{}, 0
	}
	for _, v := range h.log[h.cachedAt:n] {
		switch {
		case v.name == "":
		case v.there():
			h.cached[v.name] = v
		default:
			delete(h.cached, v.name)
		}
	}
	h.cachedAt = n
	return h.cached
}

// names returns the sorted names of a state.
func names(state map[string]*version) []string {
	list := make([]string, 0, len(state))
	for name := range state {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

// world is all that the server will ever hold.
type world struct {
	histories []*history
	byID      map[string]map[int64][]*version // uid, rv
	restored  time.Duration                   // of the first restore; far away when there is none
}

const never = time.Duration(1<<63 - 1)

// at returns the history that etcd holds at t.
func (w *world) at(t time.Duration) *history {
	h := w.histories[0]
	for _, next := range w.histories[1:] {
		if next.from > t {
			break
		}
		h = next
	}
	return h
}

// shared returns the resourceVersion up to which two histories are the same.
func (w *world) shared(a, b *history) int64 {
	if a.id > b.id {
		a, b = b, a
	}
	low := int64(1<<63 - 1)
	for _, h := range w.histories[a.id+1 : b.id+1] {
		low = min(low, h.fork)
	}
	return low
}

// builder makes a world out of a schedule.
type builder struct {
	w       *world
	h       *history
	rv      int64
	step    int64
	seq     int
	uids    int
	objects map[string]*version // what etcd holds, matching the selector or not
}

// newWorld lets the workload and those faults that change etcd happen.
func newWorld(s *Schedule) *world {
	w := &world{byID: map[string]map[int64][]*version{}, restored: never}
	b := &builder{w: w, rv: 1000, step: s.Server.Step, objects: map[string]*version{}}
	b.h = &history{base: b.rv, window: s.Server.Window}
	w.histories = []*history{b.h}
	ops, faults := s.Ops, s.Faults
	for len(ops) > 0 || len(faults) > 0 {
		if len(faults) == 0 || len(ops) > 0 && ops[0].At <= faults[0].At {
			b.op(ops[0])
			ops = ops[1:]
			continue
		}
		b.fault(faults[0])
		faults = faults[1:]
	}
	// What a restart empties: the watch cache begins with what there is when
	// the server is up again.
	for _, f := range s.Faults {
		if f.Kind == Restart || f.Kind == Restore {
			up := f.At + f.For
			h := w.at(up)
			h.floors = append(h.floors, mark{up, h.rvOf(h.upTo(up))})
		}
	}
	return w
}

func (b *builder) op(o Op) {
	name := fmt.Sprintf("p%02d", o.Object)
	old := b.objects[name]
	switch o.Kind {
	case Touch:
		if old == nil {
			b.create(o.At, name, true)
		} else {
			b.write(o.At, old, old.in, sound)
		}
	case Delete:
		b.delete(o.At, old)
	case Recreate:
		// Two writes within a millisecond.
		b.delete(o.At, old)
		b.create(o.At+odd(time.Millisecond), name, true)
	case Cross:
		if old == nil {
			b.create(o.At, name, false)
		} else {
			b.write(o.At, old, !old.in, sound)
		}
	case Spoil, Grow:
		if old != nil {
			bad := mistyped
			if o.Kind == Grow {
				bad = huge
			}
			b.write(o.At, old, old.in, bad)
		}
	case Mend:
		for _, name := range names(b.objects) {
			if v := b.objects[name]; v.flaw != sound {
				o.At += odd(time.Microsecond)
				b.write(o.At, v, v.in, sound)
			}
		}
	case Elsewhere:
		b.put(&version{at: o.At})
	case Storm:
		for i := range o.Count {
			at := o.At + time.Duration(i)*odd(time.Millisecond)
			name := fmt.Sprintf("p%02d", (o.Object+i)%4)
			if v := b.objects[name]; v != nil && i%37 != 36 {
				b.write(at, v, v.in, sound)
			} else if v != nil {
				b.delete(at, v)
			} else {
				b.create(at, name, true)
			}
		}
	}
}

// odd makes a duration that no timer of the client has.
func odd(d time.Duration) time.Duration { return d | 1 }

func (b *builder) create(at time.Duration, name string, in bool) {
	b.uids++
	b.put(&version{at: at, name: name, uid: "u" + strconv.Itoa(b.uids), in: in})
}

func (b *builder) write(at time.Duration, old *version, in bool, f flaw) {
	b.put(&version{at: at, name: old.name, uid: old.uid, in: in, flaw: f, prev: old})
}

func (b *builder) delete(at time.Duration, old *version) {
	if old != nil {
		b.put(&version{at: at, name: old.name, uid: old.uid, in: old.in, gone: true, prev: old})
	}
}

func (b *builder) put(v *version) {
	if n := len(b.h.log); n > 0 && v.at <= b.h.log[n-1].at {
		v.at = b.h.log[n-1].at + 1 // what a storm overlaps with comes after it
	}
	b.rv += b.step
	b.seq++
	v.rv, v.seq, v.wire = b.rv, b.seq, map[wireKey][]byte{}
	b.h.log = append(b.h.log, v)
	switch {
	case v.name == "":
		return
	case v.gone:
		delete(b.objects, v.name)
	default:
		b.objects[v.name] = v
	}
	if b.w.byID[v.uid] == nil {
		b.w.byID[v.uid] = map[int64][]*version{}
	}
	b.w.byID[v.uid][v.rv] = append(b.w.byID[v.uid][v.rv], v)
}

func (b *builder) fault(f Fault) {
	switch f.Kind {
	case Compact:
		b.h.floors = append(b.h.floors, mark{f.At, b.rv})
	case Restore:
		keep := max(len(b.h.log)-f.N, 0)
		at := f.At
		if n := len(b.h.log); n > 0 && at <= b.h.log[n-1].at {
			at = b.h.log[n-1].at + 1
		}
		b.rv = b.h.rvOf(keep)
		b.h = &history{
			id: len(b.w.histories), from: at, fork: b.rv, base: b.h.base, window: b.h.window,
			log: append([]*version(nil), b.h.log[:keep]...),
		}
		b.w.histories = append(b.w.histories, b.h)
		b.w.restored = min(b.w.restored, at)
		b.objects = map[string]*version{}
		for _, v := range b.h.log {
			switch {
			case v.name == "":
			case v.gone:
				delete(b.objects, v.name)
			default:
				b.objects[v.name] = v
			}
		}
	}
}
