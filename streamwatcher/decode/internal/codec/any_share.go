package codec

import (
	"hash/maphash"
	"sync/atomic"
)

// anyParts are objects and arrays by their bytes, for content without a Go type, as shares are for
// what has one. A part is kept when its bytes come for the second time, and then put wherever
// these bytes stand. Nobody may write to it. It is safe for several goroutines.
type anyParts struct {
	seeds [2]maphash.Seed
	slots []atomic.Pointer[anyPart]
	seen  []atomic.Uint64 // by the place of a slot: the hash of what came once
	// lengths are by the hash of the first bytes of a value: the lengths, four in each, that
	// such values had.
	lengths []atomic.Uint64
	empty   any // the object without members, of which there are many
}

// What is shorter than minAny is not worth being kept, what is longer than maxAny hardly comes again.
const (
	minAny = 6
	maxAny = 4 << 10
	// anyHead is how many bytes of a value are its first.
	anyHead = 48
)

type anyPart struct {
	sums  [2]uint64 // two hashes of 64 bits say that bytes are the same
	size  int
	value any
}

func newAnyParts(n int, seeds [2]maphash.Seed) *anyParts {
	return &anyParts{seeds: seeds, slots: make([]atomic.Pointer[anyPart], n), seen: make([]atomic.Uint64, n), lengths: make([]atomic.Uint64, n), empty: map[string]any{}}
}

// find returns the part with the bytes b, if it is there, b's hash and its place.
func (s *anyParts) find(b []byte) (e *anyPart, sum uint64, place int) {
	sum = maphash.Bytes(s.seeds[0], b)
	place = int(sum % uint64(len(s.slots)))
	e = s.slots[place].Load()
	if e == nil || e.sums[0] != sum || e.size != len(b) || e.sums[1] != maphash.Bytes(s.seeds[1], b) {
		e = nil
	}
	return e, sum, place
}

// sizes returns where the lengths are noted of values that begin as b.
func (s *anyParts) sizes(b []byte) *atomic.Uint64 {
	return &s.lengths[maphash.Bytes(s.seeds[0], b[:min(len(b), anyHead)])%uint64(len(s.lengths))]
}

// note puts size among the lengths of values that begin as b, in the place of the oldest.
func (s *anyParts) note(b []byte, size int) {
	at := s.sizes(b)
	sizes := at.Load()
	for rest := sizes; rest != 0; rest >>= 16 {
		if int(rest&0xffff) == size {
			return
		}
	}
	at.Store(sizes<<16 | uint64(size)) // another goroutine's note may be lost
}

// begins returns the part whose bytes b begins with, b being the text of an object or array and of
// what follows it, or nil. Values that begin alike mostly have one of a few lengths, and an object or
// array that begins with the bytes of another is that one: so it need not be read.
func (s *anyParts) begins(b []byte) *anyPart {
	for sizes := s.sizes(b).Load(); sizes != 0; sizes >>= 16 {
		size := int(sizes & 0xffff)
		if !shut(b, size) {
			continue
		}
		if e, _, _ := s.find(b[:size]); e != nil {
			return e
		}
	}
	return nil
}

// share replaces the object or array that was read last, from m and the byte at i on, by one with the same
// bytes that came before, if there was one.
func (d *tape) share(m mark, i, end int) {
	b := d.raw[i:end]
	if len(b) < minAny || len(b) > maxAny {
		return
	}
	common := d.common
	e, sum, place := common.find(b)
	if e == nil {
		if common.seen[place].Swap(sum) != sum {
			return
		}
		e = &anyPart{sums: [2]uint64{sum, maphash.Bytes(common.seeds[1], b)}, size: len(b), value: d.build(m)}
		common.slots[place].Store(e)
		common.note(d.raw[i:], len(b))
	}
	d.cut(m)
	d.isKnown(m.tokens, e.value)
}

// isKnown makes the token at i, the last, that of a value which is there already.
func (d *tape) isKnown(i int, v any) {
	d.tokens = d.tokens[:i+1]
	d.tokens[i].kind = tokKnown
	d.known = append(d.known, v)
}

// cut takes from the tape what came after m, but for one token.
func (d *tape) cut(m mark) {
	clear(d.keys[m.keys:])
	clear(d.known[m.known:])
	d.tokens, d.keys, d.known = d.tokens[:m.tokens+1], d.keys[:m.keys], d.known[:m.known]
	d.numbers, d.floats = d.numbers[:m.numbers], d.floats[:m.floats]
	d.texts, d.textSize = m.texts, m.textSize
}
