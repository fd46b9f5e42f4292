package layout

import (
	"unsafe"
)

// Text collects the strings of one object while it is decoded. None is made
// until all are known: Finish then copies them into one buffer of exactly their
// size. Until then the variables are empty. The zero value is ready.
//
// An eager Text makes each string at once, in memory of its own. That is for the
// rare input whose variables cannot be known to stay where they are.
//
// With Twins, a string that stands twice in the object, not far behind its first, is there once.
type Text struct {
	Eager, Twins bool

	pending []pending
	maps    []pendingMap
	pairs   []pair
	known   []string
	total   int
	made    []int // with Twins: where in the buffer each of pending stands
}

// Span is a part of the bytes that are decoded, or, if Side is set, of the
// buffer beside them that has the strings whose escapes were taken out.
type Span struct {
	off, len uint32
}

// MaxSource is how long the bytes to decode may be.
const MaxSource = 1 << 30

const (
	flag = 1 << 31
	// isKnown is the length of a span whose off is an index of Text.known.
	isKnown = 1<<32 - 1
)

// SpanOf returns the span of n bytes at off.
func SpanOf(off, n int) Span { return Span{uint32(off), uint32(n)} }

// SideSpan returns the span of n bytes at off in the side buffer.
func SideSpan(off, n int) Span { return Span{uint32(off) | flag, uint32(n)} }

// Len returns how many bytes the span has.
func (s Span) Len() int { return int(s.len) }

// Of returns the span's bytes.
func (s Span) Of(src, side []byte) []byte {
	if s.off&flag != 0 {
		src = side
	}
	off := int(s.off &^ flag)
	return src[off : off+int(s.len)]
}

// pending is a string or []byte variable that has no value yet.
type pending struct {
	dst  unsafe.Pointer
	span Span // with flag in len for a []byte
}

// pendingMap is a map variable and its entries among the pairs.
type pendingMap struct {
	dst    unsafe.Pointer
	kind   mapKind
	at, to int
}

type mapKind uint8

const (
	mapOfStrings mapKind = iota
	mapOfBytes
	mapToNil
)

// pair is a map entry, with a key that is known already, or not.
type pair struct {
	key, value Span
	known      [2]string
	isKnown    [2]bool
}

// Mark is a place in a Text.
type Mark struct{ pending, maps int }

func (t *Text) mark() Mark { return Mark{len(t.pending), len(t.maps)} }

// String notes that the string variable at dst is span.
func (t *Text) String(dst *string, span Span, src, side []byte) {
	if t.Eager {
		*dst = string(span.Of(src, side))
		return
	}
	t.total += int(span.len)
	t.pending = append(t.pending, pending{unsafe.Pointer(dst), span})
}

// Known notes that the string variable at dst is s. That cannot be done at once: dst may
// wait for another string, from before.
func (t *Text) Known(dst *string, s string) {
	if t.Eager {
		*dst = s
		return
	}
	t.pending = append(t.pending, pending{unsafe.Pointer(dst), Span{uint32(len(t.known)), isKnown}})
	t.known = append(t.known, s)
}

// Bytes notes that the []byte variable at dst is span. It becomes empty, not nil,
// when span is.
func (t *Text) Bytes(dst *[]byte, span Span, src, side []byte) {
	if t.Eager {
		*dst = append(make([]byte, 0, span.len), span.Of(src, side)...)
		return
	}
	t.total += int(span.len)
	span.len |= flag
	t.pending = append(t.pending, pending{unsafe.Pointer(dst), span})
}

// move tells that the variables in the n bytes at from stand at to now.
func (t *Text) move(m Mark, from unsafe.Pointer, n uintptr, to unsafe.Pointer) {
	for i := m.pending; i < len(t.pending); i++ {
		if p := &t.pending[i]; uintptr(p.dst)-uintptr(from) < n {
			p.dst = unsafe.Add(to, uintptr(p.dst)-uintptr(from))
		}
	}
	for i := m.maps; i < len(t.maps); i++ {
		if p := &t.maps[i]; uintptr(p.dst)-uintptr(from) < n {
			p.dst = unsafe.Add(to, uintptr(p.dst)-uintptr(from))
		}
	}
}

// BeginStrings begins entries for the map of strings at dst.
func (t *Text) BeginStrings(dst *map[string]string) { t.begin(unsafe.Pointer(dst), mapOfStrings) }

// BeginBytes begins entries for the map of []byte at dst.
func (t *Text) BeginBytes(dst *map[string][]byte) { t.begin(unsafe.Pointer(dst), mapOfBytes) }

// ToNil makes the map at dst nil, after the entries that were noted before.
func (t *Text) ToNil(dst Ptr) {
	if t.Eager {
		*(*unsafe.Pointer)(dst.p) = nil
		return
	}
	t.begin(dst.p, mapToNil)
}

func (t *Text) begin(dst unsafe.Pointer, kind mapKind) {
	t.maps = append(t.maps, pendingMap{dst: dst, kind: kind, at: len(t.pairs), to: len(t.pairs)})
}

// Word is a key or value of a map entry: a string that is known, or a span.
type Word struct {
	Known   string
	IsKnown bool
	Span    Span
}

// Entry notes an entry of the map that was begun last.
func (t *Text) Entry(key, value Word) {
	if !key.IsKnown {
		t.total += int(key.Span.len)
	}
	if !value.IsKnown {
		t.total += int(value.Span.len)
	}
	t.pairs = append(t.pairs, pair{key: key.Span, value: value.Span,
		known: [2]string{key.Known, value.Known}, isKnown: [2]bool{key.IsKnown, value.IsKnown}})
	t.maps[len(t.maps)-1].to = len(t.pairs)
}

// EndEager makes an eager Text's last map. A Text that is not eager waits for Finish.
func (t *Text) EndEager(src, side []byte) {
	if t.Eager {
		t.finish(nil, src, side)
	}
}

// Finish gives all variables their values, of src and side, and forgets them.
func (t *Text) Finish(src, side []byte) {
	t.finish(nil, src, side)
}

// FinishBehind is Finish that puts a copy of head before the strings, into the same variable, and returns its first
// element, nil if there is none. An E has no pointers and is a multiple of 8 bytes.
func FinishBehind[E any](t *Text, head []E, src, side []byte) (first *E) {
	if len(head) == 0 {
		t.finish(nil, src, side)
		return nil
	}
	size := len(head) * int(unsafe.Sizeof(head[0]))
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&head[0])), size/8)
	return (*E)(t.finish(words, src, side))
}

// finish returns where head stands, nil if it is empty.
func (t *Text) finish(head []uint64, src, side []byte) (at unsafe.Pointer) {
	b := builder{src: src, side: side}
	if t.Twins {
		t.join(src, side)
	}
	switch {
	case len(head) > 0: // which has to be aligned
		all := make([]uint64, len(head)+(t.total+7)/8)
		copy(all, head)
		at = unsafe.Pointer(&all[0])
		b.buf = unsafe.Slice((*byte)(at), 8*len(all))[8*len(head):]
	case t.total > 0:
		b.buf = make([]byte, t.total)
	}
	whole := b.buf
	for i := range t.pending {
		p := &t.pending[i]
		switch {
		case p.span.len&flag == 0:
			if !t.Twins {
				*(*string)(p.dst) = b.string(p.span)
				continue
			}
			at := len(whole) - len(b.buf)
			if k := t.twin(i, p.span); k >= 0 {
				at = t.made[k]
				*(*string)(p.dst) = text(whole[at : at+int(p.span.len)])
			} else {
				*(*string)(p.dst) = b.string(p.span)
			}
			t.made[i] = at
		case p.span.len == isKnown:
			*(*string)(p.dst) = t.known[p.span.off]
		default:
			*(*[]byte)(p.dst) = b.bytes(Span{p.span.off, p.span.len &^ flag})
		}
	}
	for i := range t.maps {
		t.finishMap(&b, &t.maps[i])
	}
	t.Reset()
	return at
}

const (
	minTwin = 8 // what is shorter is not worth the search
	farTwin = 8 // how many strings back the first is looked for
)

// join makes the spans of strings that are equal the same.
func (t *Text) join(src, side []byte) {
	t.made = append(t.made[:0], make([]int, len(t.pending))...)
	for i := range t.pending {
		p := &t.pending[i]
		if p.span.len&flag != 0 || p.span.len < minTwin {
			continue
		}
		content := p.span.Of(src, side)
		for k, tries := i-1, farTwin; k >= 0 && tries > 0; k-- {
			first := t.pending[k].span
			if first.len&flag != 0 {
				continue
			}
			if tries--; first.len == p.span.len && string(first.Of(src, side)) == string(content) {
				p.span = first
				t.total -= len(content)
				break
			}
		}
	}
}

// twin returns which string before the one at i has the same span, or -1.
func (t *Text) twin(i int, span Span) int {
	if span.len < minTwin {
		return -1
	}
	for k, tries := i-1, farTwin; k >= 0 && tries > 0; k-- {
		first := t.pending[k].span
		if first.len&flag != 0 {
			continue
		}
		if tries--; first == span {
			return k
		}
	}
	return -1
}

func (t *Text) finishMap(b *builder, m *pendingMap) {
	pairs := t.pairs[m.at:m.to]
	switch m.kind {
	case mapOfStrings:
		dst := (*map[string]string)(m.dst)
		if *dst == nil {
			*dst = make(map[string]string, len(pairs))
		}
		for i := range pairs {
			(*dst)[b.word(&pairs[i], 0)] = b.word(&pairs[i], 1)
		}
	case mapOfBytes:
		dst := (*map[string][]byte)(m.dst)
		if *dst == nil {
			*dst = make(map[string][]byte, len(pairs))
		}
		for i := range pairs {
			key := b.word(&pairs[i], 0)
			switch p := &pairs[i]; {
			case p.isKnown[1]: // only nil is known beforehand
				(*dst)[key] = nil
			default:
				(*dst)[key] = b.bytes(p.value)
			}
		}
	case mapToNil:
		*(*unsafe.Pointer)(m.dst) = nil
	}
}

// Reset forgets all that was noted, and lets large buffers go.
func (t *Text) Reset() {
	t.pending = reset(t.pending)
	t.maps = reset(t.maps)
	t.pairs = reset(t.pairs)
	t.known = reset(t.known)
	t.made = reset(t.made)
	t.total = 0
}

func reset[E any](s []E) []E {
	const keep = 4096
	clear(s)
	if cap(s) > keep {
		return nil
	}
	return s[:0]
}

// BytesOf returns the bytes of s, to which nobody may write.
func BytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// MaxBeside is how many bytes Beside takes.
const MaxBeside = 192

// Beside returns a string variable with the bytes of b, at most MaxBeside, which stand right behind it: who
// compares the string has both at hand.
func Beside(b []byte) *string {
	switch n := len(b); {
	case n <= 16:
		return beside[[16]byte](b)
	case n <= 32:
		return beside[[32]byte](b)
	case n <= 48:
		return beside[[48]byte](b)
	case n <= 64:
		return beside[[64]byte](b)
	case n <= 96:
		return beside[[96]byte](b)
	case n <= 128:
		return beside[[128]byte](b)
	}
	return beside[[MaxBeside]byte](b)
}

func beside[Room any](b []byte) *string {
	v := new(struct {
		text string
		room Room
	})
	to := unsafe.Slice((*byte)(unsafe.Pointer(&v.room)), unsafe.Sizeof(v.room))[:len(b)]
	copy(to, b)
	v.text = text(to)
	return &v.text
}

// builder cuts strings from one buffer.
type builder struct {
	src, side, buf []byte
}

func (b *builder) bytes(s Span) []byte {
	if s.len == 0 {
		return []byte{}
	}
	from := s.Of(b.src, b.side)
	to := b.buf[:len(from):len(from)]
	b.buf = b.buf[len(from):]
	copy(to, from)
	return to
}

func (b *builder) string(s Span) string { return text(b.bytes(s)) }

// text returns b as a string. Nobody will write to it.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (b *builder) word(p *pair, i int) string {
	switch {
	case p.isKnown[i]:
		return p.known[i]
	case i == 0:
		return b.string(p.key)
	}
	return b.string(p.value)
}
