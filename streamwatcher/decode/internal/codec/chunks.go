package codec

import (
	"reflect"
	"sync/atomic"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// An object that is its owner's alone has its variables of one type in one array, if it has as
// many as those before it: numbers that pointers point to, probes, ports. That
// is half of its allocations. Objects that share parts have each on its own: an
// array would live as long as the part of it that lives longest.

// chunks are one goroutine's.
type chunks struct {
	byNode []*layout.Chunk
	open   []*node // whose Chunk has variables of the object at hand
}

// maxUsual is how many variables are made before they are asked for, at most.
const maxUsual = 16

// usual tells how many variables of a node objects have: the smaller number of the last two, so that
// where it changes from one to the next few are made in vain.
type usual struct{ atomic.Uint32 }

func (u *usual) number() int { return int(u.Load() & 0xff) }

func (u *usual) note(n int) {
	n = min(n, maxUsual)
	last := u.Load()
	if now := uint32(n)<<8 | min(uint32(n), last>>8); now != last {
		u.Store(now)
	}
}

// usually returns what is usual of n. The table of it is made by the first object that is its owner's alone.
func (d *state) usually(n *node) *usual {
	if d.usual == nil {
		p := d.prog
		p.usualOnce.Do(func() { p.usual = make([]usual, p.nodes) })
		d.usual = p.usual
	}
	return &d.usual[n.id]
}

// variables returns the first of count new variables of n in a row, count > 0.
func (d *state) variables(n *node, count int) layout.Ptr {
	c := d.chunks.byNode[n.id]
	if c == nil {
		c = layout.NewChunk(n.typ.Go)
		d.chunks.byNode[n.id] = c
	}
	if c.Used() == 0 {
		d.chunks.open = append(d.chunks.open, n)
	}
	return c.Take(count, d.usually(n).number())
}

// endChunks ends the object. failed says that it came to nothing, and says nothing of others.
func (d *state) endChunks(failed bool) {
	for _, n := range d.chunks.open {
		c := d.chunks.byNode[n.id]
		if !failed {
			d.usually(n).note(c.Used())
		}
		c.End()
	}
	d.chunks.open = d.chunks.open[:0]
}

// variable returns a new variable of n. Numbers of all sizes stand in one array.
func (d *state) variable(n *node) layout.Ptr {
	switch {
	case d.shared:
		return n.typ.New()
	case n.kind == aBool, n.kind == anInt, n.kind == aUint, n.kind == aFloat:
		n = aNumber
	}
	return d.variables(n, 1)
}

// aNumber is a node that no type has: it stands for those of all numbers.
var aNumber = &node{id: 0, typ: layout.TypeOf(reflect.TypeFor[uint64]())}

// makeSlice makes the slice of n at p, with count zero elements, and returns the first's address.
func (d *state) makeSlice(n *node, p layout.Ptr, count int) layout.Ptr {
	switch {
	case d.pairs != nil && count > 0:
		return d.makePaired(n, p, count)
	case d.shared || count == 0:
		return d.slices(n).Make(p, count)
	}
	at := d.variables(n.elem, count)
	layout.SetSlice(p, at, count)
	return at
}
