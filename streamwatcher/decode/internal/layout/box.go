package layout

import (
	"slices"
	"unsafe"
)

// Boxes are the strings and numbers of one object whose Go types are not known, as
// interfaces. An interface has a pointer to its value, which Go allocates one by one; here the
// strings of an object stand in one slice, their bytes in one buffer, and its numbers in
// another slice, each of exactly their size. Who keeps a string or number keeps these three.
type Boxes struct {
	text    builder
	strings []string
	numbers []int64
}

// MakeBoxes returns Boxes for as many strings as boxes says, of textSize bytes together with the
// strings that are not boxed, out of src and side, and for the numbers.
func MakeBoxes(src, side []byte, textSize, boxes int, numbers []int64) Boxes {
	b := Boxes{text: builder{src: src, side: side}, numbers: slices.Clone(numbers)}
	if textSize > 0 {
		b.text.buf = make([]byte, textSize)
	}
	if boxes > 0 {
		b.strings = make([]string, boxes)
	}
	return b
}

// Text returns the string at s, not boxed.
func (b *Boxes) Text(s Span) string { return b.text.string(s) }

// String returns the string at s.
func (b *Boxes) String(s Span) any {
	p := &b.strings[0]
	b.strings = b.strings[1:]
	*p = b.text.string(s)
	return BoxString(p)
}

// BoxString returns the string at p, where nothing may be written any more.
func BoxString(p *string) any { return box("", unsafe.Pointer(p)) }

// Number returns the next of the numbers.
func (b *Boxes) Number() any {
	p := &b.numbers[0]
	b.numbers = b.numbers[1:]
	return box(int64(0), unsafe.Pointer(p))
}

// box returns an interface of v's type whose value stands at p, where nothing may be written
// any more. v must not be a pointer, a map or another type that an interface holds itself.
func box(v any, p unsafe.Pointer) any {
	(*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] = p
	return v
}
