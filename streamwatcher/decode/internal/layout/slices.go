package layout

import (
	"reflect"
	"unsafe"
)

// header is how the runtime keeps a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// SliceLen returns the length of the slice at p, whatever its element.
func SliceLen(p Ptr) int { return (*header)(p.p).len }

// SliceIsNil tells whether the slice at p is nil.
func SliceIsNil(p Ptr) bool { return (*header)(p.p).data == nil }

// ClearSlice makes the slice at p nil.
func ClearSlice(p Ptr) { *(*header)(p.p) = header{} }

// keepBytes is how much room a Slices keeps for the next array.
const keepBytes = 64 << 10

// Slices makes slices of one element type for one goroutine. It has the room in
// which the elements of an array of unknown length are collected. The zero
// value is not ready, NewSlices makes one.
type Slices struct {
	size uintptr
	// Two slice variables, and both as reflection sees them: that is how the runtime
	// makes, copies and clears elements with their type.
	made, room   header
	madeV, roomV reflect.Value

	used  int     // elements of room that are in use
	mark  Mark    // of text, when the array at hand began
	inner *Slices // for arrays inside the elements of this one's array
	busy  bool
}

// NewSlices returns a Slices for slices of type t.
func NewSlices(t reflect.Type) *Slices {
	s := &Slices{size: t.Elem().Size()}
	s.madeV = reflect.NewAt(t, unsafe.Pointer(&s.made)).Elem()
	s.roomV = reflect.NewAt(t, unsafe.Pointer(&s.room)).Elem()
	return s
}

// Make sets the slice at dst to n zero elements, and returns the address of the first.
// Its capacity may be a little more than n.
func (s *Slices) Make(dst Ptr, n int) Ptr {
	if n == 0 {
		*(*header)(dst.p) = header{data: unsafe.Pointer(&nothing)}
		return Ptr{unsafe.Pointer(&nothing)}
	}
	s.made = header{}
	s.madeV.Grow(n)
	h := s.made
	s.made = header{}
	own(h.data, uintptr(n)*s.size)
	h.len, h.cap = n, n
	*(*header)(dst.p) = h
	return Ptr{h.data}
}

// SetSlice makes the slice at dst the n elements at first.
func SetSlice(dst, first Ptr, n int) { *(*header)(dst.p) = header{first.p, n, n} }

// nothing is where slices of no elements point.
var nothing struct{}

// Append makes the slice at dst longer by one element and returns its address.
// As with append, the elements may move. The new element is zero unless
// it was there before the slice was cut.
func (s *Slices) Append(dst Ptr) Ptr {
	h := (*header)(dst.p)
	if h.len == h.cap {
		s.made = *h
		s.madeV.Grow(1)
		*h = s.made
		s.made = header{}
	}
	h.len++
	return Ptr{unsafe.Add(h.data, uintptr(h.len-1)*s.size)}
}

// Index returns the address of element i of the slice at dst.
func (s *Slices) Index(dst Ptr, i int) Ptr {
	h := (*header)(dst.p)
	if uint(i) >= uint(h.len) {
		panic("layout: index out of range")
	}
	return Ptr{unsafe.Add(h.data, uintptr(i)*s.size)}
}

// Cut makes the slice at dst n elements long, which is no more than it is.
func (s *Slices) Cut(dst Ptr, n int) {
	if h := (*header)(dst.p); n < h.len {
		h.len = n
	}
}

// Begin begins an array of unknown length. The Slices returned collects it, with
// Push and End.
func (s *Slices) Begin(text *Text) *Slices {
	for s.busy {
		if s.inner == nil {
			s.inner = NewSlices(s.roomV.Type())
		}
		s = s.inner
	}
	s.busy, s.used, s.mark = true, 0, text.mark()
	return s
}

// Push returns the address of a new zero element.
func (s *Slices) Push(text *Text) Ptr {
	if s.used == s.room.cap {
		s.grow(text)
	}
	s.used++
	return Ptr{unsafe.Add(s.room.data, uintptr(s.used-1)*s.size)}
}

func (s *Slices) grow(text *Text) {
	old := s.room.data
	s.room.len = s.used
	s.roomV.Grow(max(4, s.used))
	s.room.len = s.room.cap
	if s.used > 0 {
		text.move(s.mark, old, uintptr(s.used)*s.size, s.room.data)
	}
}

// Pushed returns how many elements were pushed.
func (s *Slices) Pushed() int { return s.used }

// End copies the elements that were pushed to the slice at dst, which was made for them.
func (s *Slices) End(text *Text, dst Ptr) {
	if n := s.used; n > 0 {
		to := (*header)(dst.p).data
		s.room.len = n
		s.made = *(*header)(dst.p)
		reflect.Copy(s.madeV, s.roomV)
		s.made = header{}
		text.move(s.mark, s.room.data, uintptr(n)*s.size, to)
	}
	s.Abandon()
}

// Abandon ends an array that came to nothing.
func (s *Slices) Abandon() {
	if uintptr(s.room.cap)*s.size > keepBytes {
		s.room = header{}
	} else if s.used > 0 {
		s.room.len = s.used
		s.roomV.Clear()
		s.room.len = s.room.cap
	}
	s.busy, s.used = false, 0
}

// Reset abandons the arrays that an error left behind.
func (s *Slices) Reset() {
	for ; s != nil && s.busy; s = s.inner {
		s.Abandon()
	}
}

// Row returns the n variables that stand in a row, of which first is the first: they were made as one slice.
func Row[T any](first *T, n int) []T { return unsafe.Slice(first, n) }

// Held is what a pointer, map or slice variable has, to be put into others. Whoever
// gets it shares what it points to.
type Held struct{ h header }

// HoldSlice returns what the slice at p has.
func HoldSlice(p Ptr) Held { return Held{*(*header)(p.p)} }

// HoldPointer returns what the pointer or map at p has.
func HoldPointer(p Ptr) Held { return Held{header{data: *(*unsafe.Pointer)(p.p)}} }

// PutSlice makes the slice at p the one that is held.
func (h Held) PutSlice(p Ptr) { *(*header)(p.p) = h.h }

// PutPointer makes the pointer or map at p the one that is held.
func (h Held) PutPointer(p Ptr) { *(*unsafe.Pointer)(p.p) = h.h.data }
