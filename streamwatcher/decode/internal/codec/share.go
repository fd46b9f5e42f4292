package codec

import (
	"hash/maphash"
	"io"
	"sync/atomic"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// shares are parts of objects (what a pointer points to, slices, maps) by their bytes. A part
// is kept when its bytes come for the second time, and then put into each object
// that has the same bytes in a field of the same node. Nobody may write to it.
//
// Its own table is all that is bounded: a part that was displaced lives as long as an
// object that has it. It is safe for several goroutines.
//
// A part is complete before it is kept: its strings are in a buffer of its own. And
// nothing is ever read into a part that an object has already: such input, with a field
// in two places, is read again without shares.
type shares struct {
	slots []atomic.Pointer[share]
	seen  []atomic.Uint64 // by the place of a slot: what came once
	// lengths are by the place of the first bytes of a JSON value: the lengths, four in
	// each, that such values had.
	lengths [][2]atomic.Uint64
}

type share struct {
	node *node
	text string // its bytes
	held layout.Held
}

// What is shorter is not worth it, what is longer hardly comes again.
const (
	minShare = 6
	maxShare = 4 << 10
)

// shareHead is how many bytes of a JSON value are its first.
const shareHead = 48

func newShares(n int) *shares {
	return &shares{slots: make([]atomic.Pointer[share], n), seen: make([]atomic.Uint64, n), lengths: make([][2]atomic.Uint64, n)}
}

// place returns where values of n with the bytes b are looked for.
func (s *shares) place(n *node, b []byte) int {
	return int((maphash.Bytes(seed, b) + uint64(n.id)*0x9E3779B97F4A7C15) % uint64(len(s.slots)))
}

// sight is what stands in seen for b: its length, and of its hash what has room.
func sight(n *node, b []byte) uint64 {
	return (maphash.Bytes(seed, b)+uint64(n.id))<<13 | uint64(len(b))
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

func (s *share) put(p layout.Ptr) {
	if s.node.kind == aSlice {
		s.held.PutSlice(p)
	} else {
		s.held.PutPointer(p)
	}
}

func (s *shares) keep(place int, n *node, p layout.Ptr, b []byte) {
	e := &share{node: n, text: string(b)}
	if n.kind == aSlice {
		e.held = layout.HoldSlice(p)
	} else {
		e.held = layout.HoldPointer(p)
	}
	s.slots[place].Store(e)
}

// sharing tells whether parts are shared: not in an object that is read again.
func (d *state) sharing() bool { return d.prog.shares != nil && !d.text.Eager }

// apart reads something with the strings that belong to it, and finishes them. After an error
// the state is of no use but to begin anew.
func (d *state) apart(read func() error) error {
	text := d.text
	d.text = d.spare()
	if err := read(); err != nil {
		return err
	}
	d.text.Finish(d.raw, d.side)
	d.texts = append(d.texts, d.text)
	d.text = text
	return nil
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
	n, s := f.node, d.prog.shares
	end := start
	if n.kind == aPointer {
		from, to := span(b, i)
		if from < 0 {
			return 0, varintError(from)
		}
		end = to
	} else {
		if _, end = run(b, start, tag, f.wire); end == start {
			return 0, io.ErrUnexpectedEOF
		}
	}
	content := b[start:end]
	read := func() error { return d.plainProto(f, p, b, start, i, end, tag) }
	if len(content) < minShare || len(content) > maxShare {
		if n.isMap() {
			return end, d.apart(read)
		}
		return end, read()
	}
	place := s.place(n, content)
	if e := s.slots[place].Load(); e != nil && e.node == n && e.text == string(content) {
		e.put(p)
		return end, nil
	}
	what := sight(n, content)
	second := s.seen[place].Swap(what) == what
	if !second && !n.isMap() {
		return end, read()
	}
	if err := d.apart(read); err != nil {
		return 0, err
	}
	if second {
		s.keep(place, n, p, content)
	}
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
	b, s := d.raw[i:], d.prog.shares
	lengths := &s.lengths[s.place(n, b[:min(len(b), shareHead)])]
	second := -1
	for half := range lengths {
		for sizes := lengths[half].Load(); sizes != 0; sizes >>= 16 {
			size := int(sizes & 0xffff)
			if size == 0 || size > len(b) {
				continue
			}
			place := s.place(n, b[:size])
			if e := s.slots[place].Load(); e != nil && e.node == n && e.text == string(b[:size]) {
				e.put(p)
				return i + size, nil
			}
			if s.seen[place].Load() == sight(n, b[:size]) {
				second = place
			}
		}
	}
	read := func() error {
		next, err = d.plainJSON(n.kind, n, p, i)
		return err
	}
	if second < 0 && !n.isMap() {
		err = read()
	} else {
		err = d.apart(read)
	}
	if err != nil {
		return 0, err
	}
	content := d.raw[i:next]
	switch {
	case len(content) < minShare || len(content) > maxShare:
	case second >= 0 && s.place(n, content) == second:
		s.keep(second, n, p, content)
	default:
		what := sight(n, content)
		s.seen[s.place(n, content)].Store(what)
		noteLength(&lengths[what>>13&1], len(content))
	}
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
