package codec

import (
	"bytes"
	"hash/maphash"
	"io"
	"slices"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// A Part remembers the bytes of one field of an object: where the field is, how many bytes it
// had, and a keyed hash of 64 bits of them. When the next version has the same bytes there,
// the value is taken from the version before.
//
// 64 bits are enough here, other than in shares: a field is compared with what it was and with
// nothing else, so that of 10^12 fields that changed and kept their length one in 10^7 such
// programs takes one for unchanged. Nobody can look for such bytes without the seed.
//
// The fields of the root are remembered whole, but for metadata and status, of which
// each field is: by the API conventions nearly every write changes something in
// these two, and a write to one of the other fields is rare. What is shorter than minPart
// costs less to read than to remember.
//
// A part has its strings in a buffer of its own. So a part that lives through a thousand
// versions keeps nothing alive of the version that it came with.
type Part struct {
	// what says which field it is, in the high bits, and its length in the low ones. Between
	// them the first of an object's parts has how many there are.
	what uint64
	sum  uint64
}

// Parts are those of one object, in the order of its bytes.
type Parts []Part

// First returns what to keep of p, nil if it is empty: an object at rest has one pointer for its parts.
func (p Parts) First() *Part {
	if len(p) == 0 {
		return nil
	}
	return &p[0]
}

// PartsOf returns the Parts whose First is first.
func PartsOf(first *Part) Parts {
	if first == nil {
		return nil
	}
	return layout.Row(first, int(first.what>>sizeBits&(1<<countBits-1)))
}

// counted returns p, which then says how many there are.
func (p Parts) counted() Parts {
	if len(p) > 0 {
		p[0].what |= uint64(len(p)) << sizeBits
	}
	return p
}

// kept returns a copy of p that can be kept.
func (p Parts) kept() Parts { return slices.Clone(p).counted() }

// alone returns p without how many there are.
func (p Part) alone() Part {
	p.what &^= (1<<countBits - 1) << sizeBits
	return p
}

// at tells whether p is at where.
func (p *Part) at(where uint64) bool { return p.what>>whereShift == where>>whereShift }

// size returns how many bytes p had.
func (p *Part) size() int { return int(p.what & (1<<sizeBits - 1)) }

const (
	minPart     = 64  // from which length on a field is remembered
	minPassed   = 512 // the same of what is passed over, which takes less time
	maxParts    = 32  // how many fields are
	maxElements = 6   // of how many elements an array that is passed over is remembered by each
)

// In Part.what: 2 bits for what the offset is, 22 for the offset of the variable in the object, 8 for the
// number of parts, 32 for the length.
const (
	sizeBits   = 32
	countBits  = 8
	whereShift = sizeBits + countBits
	offsetBits = 22

	inProto  = 0 << (64 - 2)
	inJSON   = 1 << (64 - 2)
	isPassed = 2 << (64 - 2) // a field that is passed over, with a hash of its name for the offset
)

// tracking is whether a field is remembered, if it is one of the root or of a
// field of the root that is tracked by its fields.
type tracking uint8

const (
	untracked tracking = iota
	trackedWhole
	trackedByField
)

// trackingOf returns the tracking of a field by its JSON name.
func trackingOf(name string, n *node) tracking {
	switch {
	case n.kind == aStruct && (name == "metadata" || name == "status"):
		return trackedByField
	case n.typ.Go != nil && n.typ.Size > 0 && (n.kind == aStruct || n.canShare()): // an empty struct stands where its neighbour does
		return trackedWhole
	}
	return untracked
}

// tracker is the part of the state that knows of the version before.
type tracker struct {
	tracked int        // down to which depth fields are looked at, 0 for none
	base    layout.Ptr // the object that is made
	old     layout.Ptr // the version before, or nil
	was     Parts      // of old
	next    int        // where in was the next one is looked for first
	parts   Parts      // of the object that is made
	structs []uint64   // the structs that were met
}

// begin makes t ready for an object whose version before is old.
func (t *tracker) begin(old layout.Ptr, was Parts) {
	t.tracked, t.old, t.was, t.next = 2, old, was, 0
	t.parts, t.structs = t.parts[:0], t.structs[:0]
	if old.IsNil() {
		t.was = nil
	}
}

// end makes t forget, and returns the parts, which are good until begin.
func (t *tracker) end() (parts Parts) {
	if t.tracked > 0 {
		parts = t.parts.counted()
	}
	t.tracked, t.base, t.old, t.was = 0, layout.Ptr{}, layout.Ptr{}, nil
	return parts
}

// where returns what a Part of the variable at p has for what, but for the length. enc is inProto or inJSON.
func (t *tracker) where(enc uint64, p layout.Ptr) uint64 {
	return enc | uint64(p.Behind(t.base))<<whereShift
}

// before returns the part of the version before that was at where, and its length.
func (t *tracker) before(where uint64) (part *Part, size int) {
	for k := range t.was {
		i := t.next + k
		if i >= len(t.was) {
			i -= len(t.was)
		}
		if w := &t.was[i]; w.at(where) {
			t.next = i + 1
			return w, w.size()
		}
	}
	return nil, 0
}

// stands tells whether b are the bytes of part.
func (d *state) stands(part *Part, b []byte) bool {
	return d.hash(b) == part.sum
}

// hashed is the part of an object that was hashed last, and its hash: a part is looked for as that of the version
// before, then among those of other objects, and then remembered.
type hashed struct {
	at  *byte
	n   int
	sum uint64
}

// hash returns the hash of b, a part of the object at hand.
func (d *state) hash(b []byte) uint64 {
	if len(b) == 0 {
		return maphash.Bytes(d.prog.seeds[0], b)
	}
	if h := &d.hashed; h.at != &b[0] || h.n != len(b) {
		*h = hashed{&b[0], len(b), maphash.Bytes(d.prog.seeds[0], b)}
	}
	return d.hashed.sum
}

// remember notes that what is at where has the bytes b.
func (d *state) remember(where uint64, b []byte) {
	if len(b) < minPart || len(d.parts) >= maxParts || uint64(d.prog.typ.Size) >= 1<<offsetBits {
		return
	}
	d.parts = append(d.parts, Part{where | uint64(len(b)), d.hash(b)})
}

// again tells whether the variable of n at p, which is at where, has been read to before. What it has
// then may be of the version before, and must not be written to.
func (t *tracker) again(n *node, p layout.Ptr, where uint64) bool {
	if n.kind != aStruct {
		return !p.Pointee().IsNil()
	}
	for _, s := range t.structs {
		if s == where {
			return true
		}
	}
	t.structs = append(t.structs, where)
	return false
}

// takeOld sets the variable of n at p to what the version before has there.
func (d *state) takeOld(n *node, p layout.Ptr, part *Part) {
	from := d.old.Add(p.Behind(d.base))
	switch n.kind {
	case aStruct:
		n.typ.Copy(p, from)
	case aSlice:
		layout.HoldSlice(from).PutSlice(p)
	default:
		layout.HoldPointer(from).PutPointer(p)
	}
	d.parts = append(d.parts, part.alone())
}

// protoPart reads the field f, and those with the same tag that stand in a row, into the
// variable at p, as message does.
func (d *state) protoPart(f *protoField, p layout.Ptr, b []byte, start, i int, tag uint64) (next int, err error) {
	n, where := f.node, d.where(inProto, p)
	if d.again(n, p, where) {
		return 0, errAgain
	}
	single := n.kind == aStruct || n.kind == aPointer
	if part, size := d.before(where); part != nil && size <= len(b)-start && d.stands(part, b[start:start+size]) {
		end := start + size
		t, j := uint64(0), end
		if !single && end < len(b) {
			t, j = varint(b, end)
		}
		if t != tag && j >= 0 {
			d.takeOld(n, p, part)
			return end, nil
		}
	}
	from, end := span(b, i)
	switch {
	case from < 0:
		return 0, varintError(from)
	case !single:
		if _, end = d.run(b, start, tag, f.wire); end == start {
			return 0, io.ErrUnexpectedEOF
		}
	}
	tracked := d.tracked
	d.tracked = 0
	read := func() (err error) {
		switch {
		case n.kind == aStruct:
			return d.message(n.message, p, from, end)
		case d.sharing():
			_, err = d.sharedProto(f, p, b, start, i, tag)
			return err
		}
		return d.plainProto(f, p, b, start, i, end, tag)
	}
	err = d.apartIf(end-start >= minPart || n.isMap(), read)
	d.tracked = tracked
	if err != nil {
		return 0, err
	}
	d.remember(where, b[start:end])
	return end, nil
}

// jsonPart reads the value at i into the variable at p, as jsonValue does.
//
// Its end is not known before it is read. But an object or array that begins with the bytes of
// another is that one.
func (d *state) jsonPart(n *node, p layout.Ptr, i int) (next int, err error) {
	where := d.where(inJSON, p)
	if d.again(n, p, where) {
		return 0, errAgain
	}
	c := byteAt(d.raw, i)
	switch {
	case c == 'n': // it is nil, or a struct that is left as it is
		return d.literal(i, "null")
	case c != '{' && c != '[':
		return d.jsonValue(n.kind, n, p, i)
	}
	if part, size := d.before(where); part != nil && shut(d.raw[i:], size) && d.stands(part, d.raw[i:i+size]) {
		d.takeOld(n, p, part)
		return i + size, nil
	}
	tracked := d.tracked
	d.tracked = 0
	read := func() error {
		next, err = d.jsonValue(n.kind, n, p, i)
		return err
	}
	if !n.isMap() && short(d.raw[i:]) {
		err = read()
		d.tracked = tracked
		return next, err
	}
	err = d.apart(read)
	d.tracked = tracked
	if err != nil {
		return 0, err
	}
	d.remember(where, d.raw[i:next])
	return next, nil
}

// short tells whether the JSON object or array that b begins with has fewer than minPart bytes, none of which needs a
// closer look.
func short(b []byte) bool {
	b = b[:min(len(b), minPart-1)]
	if bytes.IndexByte(b, b[0]+2) < 0 { // '}' and ']' stand two behind
		return false
	}
	depth, within := 0, false
	for _, c := range b {
		switch {
		case c == '\\':
			return false
		case c == '"':
			within = !within
		case within:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

// passPart passes over the value at i of a field that is not known, as pass does. Of a short array each
// element is remembered: of the managed fields, which are the half of most objects, a write changes one.
func (d *state) passPart(name []byte, i int) (next int, err error) {
	c := byteAt(d.raw, i)
	if c != '{' && c != '[' || len(name) == 0 {
		return d.pass(i)
	}
	// That two names have one hash does no harm: bytes that were passed over can be.
	where := isPassed | uint64(mix(name)*0x9E3779B1>>(32-offsetBits))<<whereShift
	whole, element := where|1<<whereShift, where&^(1<<whereShift)
	if c == '{' {
		return d.passAt(whole, i)
	}
	if next, ok := d.unchanged(whole, i); ok {
		return next, nil
	}
	kept, last := len(d.parts), false
	for next = space(d.raw, i+1); !last; {
		if c := byteAt(d.raw, next); (c == '{' || c == '[') && len(d.parts)-kept <= maxElements {
			d.depth++
			next, err = d.passAt(element, next)
			d.depth--
		} else {
			next, err = d.pass(next)
		}
		if err == nil {
			next, last, err = d.behind(next)
		}
		if err != nil { // it is empty, or odd
			d.parts = d.parts[:kept]
			return d.pass(i)
		}
	}
	if n := len(d.parts) - kept; n == 0 || n > maxElements { // all are small, or there are many
		d.parts = d.parts[:kept]
		d.remember(whole, d.raw[i:next])
	}
	return next, nil
}

// unchanged tells whether what was passed over at where stands at i again, and where it ends.
func (d *state) unchanged(where uint64, i int) (next int, ok bool) {
	part, size := d.before(where)
	if part == nil || !shut(d.raw[i:], size) || !d.stands(part, d.raw[i:i+size]) {
		return 0, false
	}
	d.parts = append(d.parts, part.alone())
	return i + size, true
}

// passAt passes over the object or array at i, which is remembered at where.
func (d *state) passAt(where uint64, i int) (next int, err error) {
	if next, ok := d.unchanged(where, i); ok {
		return next, nil
	}
	if next, err = d.pass(i); err != nil {
		return 0, err
	}
	if next-i >= minPassed {
		d.remember(where, d.raw[i:next])
	}
	return next, nil
}
