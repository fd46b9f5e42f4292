package codec

import (
	"bytes"
	"hash/maphash"
	"io"
	"sync/atomic"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// shares are parts of objects (what a pointer points to, slices, maps) by a hash of their
// bytes. A part is kept when its bytes come for the second time, and then put into each object
// that has the same bytes in a field of the same node. Nobody may write to it.
//
// The hash is one of 128 bits, keyed with two random seeds: two parts with one hash do not happen.
//
// Its own table is all that is bounded: a part that was displaced lives as long as an
// object that has it. It is safe for several goroutines.
//
// A part is complete before it is kept: its strings are in a buffer of its own. And
// nothing is ever read into a part that an object has already: such input, with a field
// in two places, is read again without shares.
type shares struct {
	places[share]
	seeds [2]maphash.Seed
	// recent are the maps that came once, and last. A map is complete in any case, so the second object
	// that has it can take that of the first.
	recent [16]atomic.Pointer[share]
	// lengths are by the hash of the first bytes of a JSON value: the lengths, four of
	// them, that such values had. They are made when JSON is read, and are more when the places are.
	lengths atomic.Pointer[[]atomic.Uint64]
}

type share struct {
	sum  sum
	held layout.Held
}

// sum is the hash of a part.
type sum [2]uint64

// maxShare is how long a part is at most: what is longer hardly comes again. minShare is for
// unstructured content, where what is shorter is worth less than its place.
const (
	minShare = 6
	maxShare = 4 << 10
)

// shareHead is how many bytes of a JSON value are its first, at most.
const shareHead = 48

// head returns the first bytes of the JSON object or array that b begins with. They end with the first bracket
// of its kind, so that what follows a short value has no part in them.
func head(b []byte) []byte {
	b = b[:min(len(b), shareHead)]
	if end := bytes.IndexByte(b, b[0]+2); end >= 0 { // '}' and ']' stand two behind
		return b[:end+1]
	}
	return b
}

// shut tells whether the JSON object or array that b begins with may have size bytes.
func shut(b []byte, size int) bool {
	return size > 0 && size <= len(b) && b[size-1] == b[0]+2 // '}' and ']' stand two behind
}

func newShares(n int, seeds [2]maphash.Seed) *shares {
	s := &shares{seeds: seeds}
	s.init(firstPlaces, n, func(e *share) uint64 { return e.sum[0] })
	return s
}

// first returns the first half of the sum of b, a value of n.
func (s *shares) first(n *node, b []byte) uint64 {
	return mixed(maphash.Bytes(s.seeds[0], b), n)
}

// mixed is the first half of the sum of a value of n whose bytes have this hash.
func mixed(hash uint64, n *node) uint64 { return hash ^ uint64(n.id)*0x9E3779B97F4A7C15 }

// sum returns the sum of b, a value of n, that begins with first.
func (s *shares) sum(first uint64, n *node, b []byte) sum {
	return sum{first, maphash.Bytes(s.seeds[1], b) ^ uint64(n.id)}
}

// sight is what stands in seen for a value whose sum begins with first. Of two that look the same one
// is kept at once, which does no harm.
func sight(first uint64) uint32 { return uint32(first >> 32) }

// came tells whether a value whose sum begins with first came before, and notes that it has now.
func (s *shares) came(first uint64) bool {
	t, what := s.current.Load(), sight(first)
	if t.slots[t.at(first)].seen.Swap(what) == what {
		return true
	}
	s.miss(t, first)
	return false
}

// didCome is came without the note.
func (s *shares) didCome(first uint64) bool {
	t := s.current.Load()
	return t.slots[t.at(first)].seen.Load() == sight(first)
}

// lengthsOf returns the lengths of values of n that begin as b does. There is one for four places.
func (s *shares) lengthsOf(n *node, b []byte) *atomic.Uint64 {
	places := len(s.current.Load().slots)
	lengths := s.lengths.Load()
	if lengths == nil || len(*lengths) < places/4 {
		made := make([]atomic.Uint64, (places+3)/4)
		if lengths != nil {
			for i := range made {
				made[i].Store((*lengths)[i%len(*lengths)].Load())
			}
		}
		lengths = &made
		s.lengths.Store(lengths)
	}
	return &(*lengths)[s.first(n, head(b))%uint64(len(*lengths))]
}

// find returns the value of n whose bytes are b, if it is kept.
func (s *shares) find(first uint64, n *node, b []byte) *share {
	t := s.current.Load()
	if e := t.slots[t.at(first)].find(first); e != nil && e.sum[0] == first && e.sum == s.sum(first, n, b) {
		return e
	}
	return nil
}

// keep keeps the value of n at p, whose bytes are b, and whose strings are in a buffer of its own.
func (s *shares) keep(first uint64, n *node, p layout.Ptr, b []byte) {
	s.store(first, &share{s.sum(first, n, b), hold(n, p)})
}

// keepRecent keeps the value for a while, if it is a map.
func (s *shares) keepRecent(first uint64, n *node, p layout.Ptr, b []byte) {
	if !n.isMap() {
		return
	}
	s.recent[first%uint64(len(s.recent))].Store(&share{s.sum(first, n, b), hold(n, p)})
}

// findRecent returns the map whose bytes are b, if it came once not long ago. From now on it is kept.
func (s *shares) findRecent(first uint64, n *node, b []byte) *share {
	if !n.isMap() {
		return nil
	}
	e := s.recent[first%uint64(len(s.recent))].Load()
	if e == nil || e.sum[0] != first || e.sum != s.sum(first, n, b) {
		return nil
	}
	s.store(first, e)
	return e
}

// hold returns what the variable of n at p has.
func hold(n *node, p layout.Ptr) layout.Held {
	if n.kind == aSlice {
		return layout.HoldSlice(p)
	}
	return layout.HoldPointer(p)
}

// put makes the variable of n at p what is held.
func put(held layout.Held, n *node, p layout.Ptr) {
	if n.kind == aSlice {
		held.PutSlice(p)
	} else {
		held.PutPointer(p)
	}
}

// A twin is a part that came for the first time in the object at hand, or in that one of its
// parts which is read apart: as its strings wait in the same Text, it can be put into it again. So
// what containers of one pod have in common is there once, although no other pod has it.
type twin struct {
	node *node
	b    []byte // what it was read from
	held layout.Held
	turn int // of the text
}

// twin returns the place for a part with this sum among those of the object.
func (d *state) twin(first uint64) *twin { return &d.twins[first>>40%uint64(len(d.twins))] }

// putTwin puts the part with the bytes b, whose sum begins with first, into the variable at p, if the object has one.
func (d *state) putTwin(first uint64, n *node, p layout.Ptr, b []byte) bool {
	a := d.twin(first)
	if a.node != n || a.turn != d.turn || string(a.b) != string(b) {
		return false
	}
	put(a.held, n, p)
	return true
}

func (d *state) noteTwin(first uint64, n *node, p layout.Ptr, b []byte) {
	*d.twin(first) = twin{n, b, hold(n, p), d.turn}
}

// reuse puts a part of the same bytes into the variable at p, if one is known: of
// other objects, of this one, or one that came once.
func (d *state) reuse(first uint64, n *node, p layout.Ptr, b []byte) bool {
	e := d.shares.find(first, n, b)
	if e == nil {
		if d.putTwin(first, n, p, b) {
			return true
		}
		if e = d.shares.findRecent(first, n, b); e == nil {
			return false
		}
	}
	put(e.held, n, p)
	return true
}

// canShare tells whether values of n can be shared.
func (n *node) canShare() bool {
	switch n.kind {
	case aPointer:
		return n.elem == nil || n.elem.kind == aStruct // nil: it is being compiled, and contains itself
	case aSlice, aStringMap, aBytesMap, aMap:
		return true
	}
	return false
}

// isMap tells whether n is a map. Maps take their entries when the object's strings are made. A
// shared one must have them at once, and not take more.
func (n *node) isMap() bool { return n.kind == aStringMap || n.kind == aBytesMap || n.kind == aMap }

// sharing tells whether equal parts are shared: not in an object that is its owner's, or is read
// again, and not in the entries of a map that cannot wait.
func (d *state) sharing() bool { return d.shares != nil && !d.text.Eager }

// apart reads something with the strings that belong to it, and finishes them. After an error
// the state is of no use but to begin anew.
func (d *state) apart(read func() error) error {
	text, turn, pairs := d.text, d.turn, d.pairing
	d.text, d.pairing = d.spare(), pairing{}
	d.text.Twins = d.shared
	d.turns++
	d.turn = d.turns
	if err := read(); err != nil {
		return err
	}
	d.endPairs()
	d.text.Finish(d.raw, d.side)
	d.texts = append(d.texts, d.text)
	d.text, d.turn, d.pairing = text, turn, pairs
	return nil
}

// apartIf reads something, apart from the rest where it is to be.
func (d *state) apartIf(apart bool, read func() error) error {
	if apart {
		return d.apart(read)
	}
	return read()
}

// spare returns an empty Text.
func (d *state) spare() *layout.Text {
	if n := len(d.texts); n > 0 {
		t := d.texts[n-1]
		d.texts = d.texts[:n-1]
		return t
	}
	return new(layout.Text)
}

// sharedProto reads the field f, and those with the same tag that stand in a row, into the
// variable at p, as message does.
func (d *state) sharedProto(f *protoField, p layout.Ptr, b []byte, start, i int, tag uint64) (next int, err error) {
	if !p.Pointee().IsNil() {
		return 0, errAgain
	}
	n, s := f.node, d.shares
	end := start
	if n.kind == aPointer {
		from, to := span(b, i)
		if from < 0 {
			return 0, varintError(from)
		}
		end = to
	} else {
		if _, end = d.run(b, start, tag, f.wire); end == start {
			return 0, io.ErrUnexpectedEOF
		}
	}
	content := b[start:end]
	read := func() error { return d.plainProto(f, p, b, start, i, end, tag) }
	if len(content) > maxShare || !d.partLuck.try(n.id) {
		return end, d.apartIf(n.isMap(), read)
	}
	hash := d.hash(content)
	first := mixed(hash, n)
	if d.reuse(first, n, p, content) {
		d.partLuck.note(n.id, true)
		return end, nil
	}
	second := s.came(first)
	d.partLuck.note(n.id, second)
	if err = d.apartIf(second || n.isMap(), read); err != nil {
		return 0, err
	}
	d.hashed = hashed{&content[0], len(content), hash} // parts of it were hashed since
	if second {
		s.keep(first, n, p, content)
		return end, nil
	}
	s.keepRecent(first, n, p, content)
	d.noteTwin(first, n, p, content)
	return end, nil
}

// plainProto reads the fields in b[start:end].
func (d *state) plainProto(f *protoField, p layout.Ptr, b []byte, start, i, end int, tag uint64) (err error) {
	switch f.kind {
	case aPointer:
		from, to := span(b, i)
		return d.value(f.node, p, from, to)
	case aSlice:
		_, err = d.repeated(f.node, p, b, start, i, tag)
		return err
	case aStringMap:
		_, err = d.stringMap(f.node, p, b, start, tag)
		return err
	}
	for at := start; at < end; {
		_, from := varint(b, at)
		from, to := span(b, from)
		if err := d.mapEntry(f.node, p, from, to); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// sharedJSON reads the value at i, an object or array, into the variable at p.
//
// Its end is not known before it is read. But values that begin alike mostly have one of a few
// lengths, and an object or array that begins with the bytes of another is that one.
func (d *state) sharedJSON(n *node, p layout.Ptr, i int) (next int, err error) {
	if !p.Pointee().IsNil() {
		return 0, errAgain
	}
	read := func() error {
		next, err = d.plainJSON(n.kind, n, p, i)
		return err
	}
	if !d.partLuck.try(n.id) {
		err = d.apartIf(n.isMap(), read)
		return next, err
	}
	b, s := d.raw[i:], d.shares
	lengths := s.lengthsOf(n, b)
	second := false
	for sizes := lengths.Load(); sizes != 0; sizes >>= 16 {
		size := int(sizes & 0xffff)
		if !shut(b, size) {
			continue
		}
		first := mixed(d.hash(b[:size]), n)
		if d.reuse(first, n, p, b[:size]) {
			d.partLuck.note(n.id, true)
			return i + size, nil
		}
		second = second || s.didCome(first)
	}
	d.partLuck.note(n.id, second)
	if err = d.apartIf(second || n.isMap(), read); err != nil {
		return 0, err
	}
	content := d.raw[i:next]
	if len(content) > maxShare {
		return next, nil
	}
	first := mixed(d.hash(content), n)
	if second && s.didCome(first) {
		s.keep(first, n, p, content)
		return next, nil
	}
	s.came(first)
	noteLength(lengths, len(content))
	s.keepRecent(first, n, p, content)
	d.noteTwin(first, n, p, content)
	return next, nil
}

// noteLength puts size among the four lengths in at, in the place of the oldest.
func noteLength(at *atomic.Uint64, size int) {
	sizes := at.Load()
	for rest := sizes; rest != 0; rest >>= 16 {
		if int(rest&0xffff) == size {
			return
		}
	}
	at.Store(sizes<<16 | uint64(size)) // another goroutine's note may be lost
}
