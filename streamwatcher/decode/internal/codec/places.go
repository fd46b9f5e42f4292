package codec

import (
	"sync"
	"sync/atomic"
)

// places are where a T is looked for by a hash. There are few at first, since the pods of one node have some hundreds
// of words and parts and a process can watch many nodes, and twice as many, up to max, each time that a quarter of them is
// taken, or that what was not found shows that they are too few to remember what comes again. What was seen
// only once is forgotten then, and what is written meanwhile may be lost: these are caches.
type places[T any] struct {
	max int
	// hash returns that of a T.
	hash    func(*T) uint64
	current atomic.Pointer[table[T]]
	growing sync.Mutex
}

// table is the places that there are now.
type table[T any] struct {
	slots []atomic.Pointer[T]
	seen  []atomic.Uint32 // by the same place: of what came once, a part of the hash
	taken atomic.Int64    // slots that are not empty
	short atomic.Int64    // sampled misses
}

// missSampling is of how many misses one is counted. When there were 4 for each place, there come to be more places.
const missSampling = 64

func (p *places[T]) init(first, limit int, hash func(*T) uint64) {
	p.max, p.hash = limit, hash
	p.current.Store(newTable[T](min(limit, first)))
}

func newTable[T any](n int) *table[T] {
	return &table[T]{slots: make([]atomic.Pointer[T], n), seen: make([]atomic.Uint32, n)}
}

// at returns the place of a hash.
func (t *table[T]) at(hash uint64) int { return int(hash % uint64(len(t.slots))) }

// after returns the place behind i.
func (t *table[T]) after(i int) int { return (i + 1) % len(t.slots) }

// store puts e into the place of its hash.
func (p *places[T]) store(hash uint64, e *T) {
	t := p.current.Load()
	p.put(t, t.at(hash), e)
}

// put puts e into slot i of t.
func (p *places[T]) put(t *table[T], i int, e *T) {
	if t.slots[i].Swap(e) != nil || len(t.slots) >= p.max {
		return
	}
	if t.taken.Add(1) > int64(len(t.slots)/4) {
		p.grow(t)
	}
}

// miss notes that t does not have what has this hash.
func (p *places[T]) miss(t *table[T], hash uint64) {
	if hash>>32%missSampling == 0 && len(t.slots) < p.max && t.short.Add(1) > int64(len(t.slots)/16) {
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
	more := newTable[T](min(p.max, 2*len(t.slots)))
	for i := range t.slots {
		e := t.slots[i].Load()
		if e == nil {
			continue
		}
		h := p.hash(e)
		j := more.at(h)
		if more.slots[j].Load() != nil {
			j = more.after(j)
		}
		if more.slots[j].Swap(e) == nil {
			more.taken.Add(1)
		}
	}
	p.current.Store(more)
}
