package codec

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// The runtime allocates in sizes that lie up to an eighth apart above 512 bytes, so the array of three
// volumes of a pod, 768 bytes and a header, takes 896. Two arrays of an object that fill one size
// better than two stand in one variable: here the volumes and the mounts, 1,024 bytes and not 1,120.
//
// Both belong to one turn of text, so they live as long as each other anyway: nothing that is shared, or taken
// from the version before, is one of a pair. As the second is not known when the
// first is made, it is foreseen, when the last two objects with the first had it. If it does not
// come then, its room is lost for that object, and it is not foreseen again until two more had it.

// pair is two arrays that stand in one variable.
type pair struct {
	pairKey
	sure bool // it came twice in a row

	typ    layout.Type // if sure
	offset uintptr     // of the second
}

// pairKey says which arrays a pair is of: nodes of slices, or of the object itself, and their lengths.
type pairKey struct {
	first  *node
	count  int
	second *node
	number int
}

const (
	maxPaired = 2048 // bytes of a pair: above, sizes are too far apart
	minGain   = 16   // bytes that a pair must save
	// maxPairs is how many types of pairs a Program has in its life: the runtime keeps each.
	maxPairs = 64
	// Larger variables with pointers have a header before them.
	maxPlain, headerSize = 512, 8
)

// pairs are those of a Program. They are safe for several goroutines.
type pairs struct {
	// usual are by the node of the first; of nodes with the same place the one counts that came last. Few nodes
	// are ever the first of a pair.
	usual   [64]atomic.Pointer[pair]
	classes []uint16 // what the runtime allocates for as many times 8 bytes

	mu    sync.Mutex
	types map[pairKey]layout.Type // made with the first
}

func newPairs() *pairs { return &pairs{classes: sizeClasses()} }

// sizeClasses returns the sizes that the runtime has, the same for all pairs.
var sizeClasses = sync.OnceValue(func() (all []uint16) {
	for size := 8; size <= maxPaired+headerSize; {
		room := cap(slices.Grow([]byte(nil), size))
		for ; size <= room && size <= maxPaired+headerSize; size += 8 {
			all = append(all, uint16(room))
		}
	}
	return all
})

// of returns where it is noted what comes behind arrays of n.
func (p *pairs) of(n *node) *atomic.Pointer[pair] { return &p.usual[n.id%len(p.usual)] }

// allocated returns how many bytes the runtime takes for size, 1 to maxPaired.
func (p *pairs) allocated(size uintptr) int {
	if size > maxPlain {
		size += headerSize
	}
	return int(p.classes[(size-1)/8])
}

// unit returns what the array of n has many of. The object itself is an array of one.
func (n *node) unit() *node {
	if n.kind == aStruct {
		return n
	}
	return n.elem
}

// bytes returns how many bytes count of n's units take.
func (n *node) bytes(count int) uintptr { return n.unit().typ.Size * uintptr(count) }

// gain returns how many bytes k saves.
func (p *pairs) gain(k pairKey) int {
	a, b := k.first.bytes(k.count), k.second.bytes(k.number)
	if a+b > maxPaired || b == 0 {
		return 0
	}
	return p.allocated(a) + p.allocated(b) - p.allocated(a+b)
}

// note notes that an object has both arrays of k, and tells whether they are worth being a pair.
func (p *pairs) note(k pairKey) bool {
	at := p.of(k.first)
	was := at.Load()
	switch {
	case was == nil || was.pairKey != k:
		if p.gain(k) < minGain {
			return false
		}
		at.Store(&pair{pairKey: k})
	case !was.sure:
		if typ, ok := p.typeOf(k); ok {
			at.Store(&pair{k, true, typ, typ.Go.Field(1).Offset})
		}
	}
	return true
}

// typeOf returns the type of the variable that has both arrays, unless there are too many.
func (p *pairs) typeOf(k pairKey) (layout.Type, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	typ, ok := p.types[k]
	if !ok && len(p.types) < maxPairs {
		typ, ok = layout.TypeOf(reflect.StructOf([]reflect.StructField{
			{Name: "First", Type: reflect.ArrayOf(k.count, k.first.unit().typ.Go)},
			{Name: "Second", Type: reflect.ArrayOf(k.number, k.second.elem.typ.Go)},
		})), true
		if p.types == nil {
			p.types = map[pairKey]layout.Type{}
		}
		p.types[k] = typ
	}
	return typ, ok
}

// pairing is what of the turn at hand may become a pair.
type pairing struct {
	first *node // nil if there is none
	count int

	foreseen *pair      // not nil if first was made with room for a second
	at       layout.Ptr // that room
}

// makePaired is makeSlice for an object that is shared.
func (d *state) makePaired(n *node, p layout.Ptr, count int) layout.Ptr {
	g, size := &d.pairing, n.bytes(count)
	switch {
	case g.foreseen != nil:
		if g.foreseen.second == n && g.foreseen.number == count {
			at := g.at
			*g = pairing{}
			layout.SetSlice(p, at, count)
			return at
		}
	case g.first != nil:
		if d.pairs.note(pairKey{g.first, g.count, n, count}) {
			*g = pairing{}
		}
	case size <= maxPlain || size > maxPaired || d.pairs.allocated(size)-int(size) < minGain:
	default:
		if at := d.makeFirst(n, count); !at.IsNil() {
			layout.SetSlice(p, at, count)
			return at
		}
	}
	return d.slices(n).Make(p, count)
}

// makeFirst makes the first of this turn. It returns nil if nothing behind it is foreseen, and it is
// to be made alone.
func (d *state) makeFirst(n *node, count int) layout.Ptr {
	g := &d.pairing
	g.first, g.count = n, count
	usual := d.pairs.of(n).Load()
	if usual == nil || !usual.sure || usual.first != n || usual.count != count {
		return layout.Ptr{}
	}
	at := usual.typ.New()
	g.foreseen, g.at = usual, at.Add(usual.offset)
	return at
}

// newRoot makes the variable of the object at hand, with room for one of its own arrays if one is foreseen.
func (d *state) newRoot() layout.Ptr {
	p := d.prog
	root := p.proto
	if p.ProtoErr != nil {
		root = p.json
	}
	if d.pairs != nil && p.typ.Size < maxPaired {
		if at := d.makeFirst(root, 1); !at.IsNil() {
			return at
		}
	}
	return p.typ.New()
}

// endPairs ends the turn at hand.
func (d *state) endPairs() {
	if g := &d.pairing; g.foreseen != nil { // in vain
		d.pairs.of(g.first).CompareAndSwap(g.foreseen, nil)
	}
	d.pairing = pairing{}
}
