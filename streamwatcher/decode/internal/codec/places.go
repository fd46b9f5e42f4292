package codec

import (
	"sync"
	"sync/atomic"
)

// places are where a T is looked for by a hash. There are few at first, since the pods of one node have some hundreds
// of words and parts and a process can watch many nodes. There come to be twice as many, up to max, when as many as a
// quarter of them were written to, or when sightings show that what comes again is forgotten in between.
//
// These are caches: what is written while they grow may be lost. What is there when they grow is not.
type places[T any] struct {
	max int
	// hash returns that of a T.
	hash    func(*T) uint64
	current atomic.Pointer[table[T]]
	growing sync.Mutex
}

// table is the places that there are now.
type table[T any] struct {
	slots []place[T]
	// missed are sightings of one in missSampling of all that was not found. So they tell what would be found
	// in that many times the places. There are none when there are as many places as may be.
	missed  []atomic.Uint32
	written atomic.Int64 // to slots. Of two that displace each other each counts each time.
	late    atomic.Int64 // how often missed had what seen had not
}

// place is one of them. What is looked for and not there costs this one piece of memory, mostly none
// that the processor has at hand.
type place[T any] struct {
	at    atomic.Pointer[T]
	print atomic.Uint32 // a part of the hash of what stands there
	seen  atomic.Uint32 // of what came once, a part of the hash
}

// printOf returns what print has for a hash.
func printOf(hash uint64) uint32 { return uint32(hash >> 32) }

// find returns what stands there, unless it has another hash. It need not be what is looked for.
func (p *place[T]) find(hash uint64) *T {
	if p.print.Load() != printOf(hash) {
		return nil
	}
	return p.at.Load()
}

// free tells whether nothing stands there.
func (p *place[T]) free() bool { return p.at.Load() == nil }

func (p *place[T]) put(hash uint64, e *T) {
	p.print.Store(printOf(hash))
	p.at.Store(e)
}

// firstPlaces is how many there are for words and for shares before anything came.
const firstPlaces = 64

// missSampling is of how many misses one is noted.
const missSampling = 64

func (p *places[T]) init(first, limit int, hash func(*T) uint64) {
	p.max, p.hash = limit, hash
	p.current.Store(p.newTable(first))
}

// newTable makes n places, or as many as may be.
func (p *places[T]) newTable(n int) *table[T] {
	n = min(n, p.max)
	t := &table[T]{slots: make([]place[T], n)}
	if n < p.max {
		t.missed = make([]atomic.Uint32, n)
	}
	return t
}

// at returns the place of a hash.
func (t *table[T]) at(hash uint64) int { return int(hash % uint64(len(t.slots))) }

// after returns the place behind i.
func (t *table[T]) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}

// vacant returns where something new with this hash goes, of the two places where it can stand: a free one, else either.
func (t *table[T]) vacant(hash uint64) int {
	i := t.at(hash)
	j := t.after(i)
	if !t.slots[i].free() && (t.slots[j].free() || hash>>63 == 1) {
		return j
	}
	return i
}

// store puts e into the place of its hash.
func (p *places[T]) store(hash uint64, e *T) {
	t := p.current.Load()
	p.put(t, t.at(hash), hash, e)
}

// put puts e, which has this hash, into slot i of t.
func (p *places[T]) put(t *table[T], i int, hash uint64, e *T) {
	t.slots[i].put(hash, e)
	if len(t.slots) < p.max && t.written.Add(1) > int64(len(t.slots)/4) {
		p.grow(t)
	}
}

// miss notes that t does not have what has this hash, and had not seen it.
func (p *places[T]) miss(t *table[T], hash uint64) {
	upper, lower := uint32(hash>>32), uint32(hash)
	if len(t.missed) == 0 || upper%missSampling != 0 {
		return
	}
	at := &t.missed[upper/missSampling%uint32(len(t.missed))]
	if at.Swap(lower) == lower && t.late.Add(1) > int64(len(t.slots)/missSampling) {
		p.grow(t)
	}
}

// grow makes the places that follow t, unless somebody else did.
func (p *places[T]) grow(t *table[T]) {
	p.growing.Lock()
	defer p.growing.Unlock()
	if p.current.Load() != t {
		return
	}
	n := len(t.slots)
	more := p.newTable(2 * n)
	for i := range t.slots {
		if e := t.slots[i].at.Load(); e != nil {
			hash := p.hash(e)
			j := more.at(hash)
			if !more.slots[j].free() {
				j = more.after(j)
			}
			more.slots[j].put(hash, e)
		}
		// Of what was seen the whole hash is not known. With twice the places it is one of two.
		was := t.slots[i].seen.Load()
		more.slots[i].seen.Store(was)
		if i+n < len(more.slots) {
			more.slots[i+n].seen.Store(was)
		}
	}
	p.current.Store(more)
}
