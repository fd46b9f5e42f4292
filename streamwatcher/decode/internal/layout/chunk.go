package layout

import (
	"reflect"
	"unsafe"
)

// A Chunk makes the variables of one type that one object has, in as few arrays as can be
// foreseen. Whoever keeps one of them keeps the others of its array. It is for one
// goroutine.
type Chunk struct {
	size  uintptr
	made  header
	madeV reflect.Value // made, as reflection sees it

	at   unsafe.Pointer // the next one, if left > 0
	left int
	used int
}

// NewChunk returns a Chunk for variables of type t.
func NewChunk(t reflect.Type) *Chunk {
	c := &Chunk{size: t.Size()}
	c.madeV = reflect.NewAt(reflect.SliceOf(t), unsafe.Pointer(&c.made)).Elem()
	return c
}

// Used returns how many variables were taken for the object.
func (c *Chunk) Used() int { return c.used }

// Take returns the first of n new variables that stand in a row, n > 0. usual is how many
// such an object takes in all, by what is known of others.
func (c *Chunk) Take(n, usual int) Ptr {
	if c.left < n {
		k := max(n, usual-c.used)
		c.made = header{}
		c.madeV.Grow(k)
		own(c.made.data, uintptr(k)*c.size)
		c.at, c.left = c.made.data, k
		c.made = header{}
	}
	p := Ptr{c.at}
	c.used += n
	if c.left -= n; c.left > 0 {
		c.at = unsafe.Add(c.at, uintptr(n)*c.size)
	} else {
		c.at = nil
	}
	return p
}

// End ends the object.
func (c *Chunk) End() { c.at, c.left, c.used = nil, 0, 0 }
