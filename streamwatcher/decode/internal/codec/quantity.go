package codec

import (
	"fmt"
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// quantities are those that were parsed, by their text. Each has two places where it can stand. It is
// safe for several goroutines.
type quantities struct{ places[quantity] }

type quantity struct {
	text string
	// plain is what apimachinery makes of text. full has the text that String caches, too.
	plain, full resource.Quantity
}

// parse returns the Quantity that b says. Of an object that several read it must be full: String and
// Marshal write the text that it lacks.
func (q *quantities) parse(b []byte, full bool) (resource.Quantity, error) {
	if len(b) > maxWord || len(b) == 0 {
		v, err := resource.ParseQuantity(string(b))
		return filled(v, full && err == nil), err
	}
	h, t := maphash.Bytes(seed, b), q.current.Load()
	i := t.at(h)
	e := t.slots[i].find(h)
	if e == nil || e.text != string(b) {
		other := t.slots[t.after(i)].find(h)
		if other == nil || other.text != string(b) {
			text := string(b)
			v, err := resource.ParseQuantity(text)
			if err != nil || !copies(&v) {
				return filled(v, full && err == nil), err
			}
			other = &quantity{text, v, filled(v, true)}
			q.put(t, t.vacant(h), h, other)
		}
		e = other
	}
	if full {
		return e.full, nil
	}
	return e.plain, nil
}

// filled returns v with its text, if full.
func filled(v resource.Quantity, full bool) resource.Quantity {
	if full {
		_ = v.String()
	}
	return v
}

// quantityOffsets returns where in a variable of type t the quantities are, those of structs and arrays in it included.
func quantityOffsets(t reflect.Type) (offsets []uintptr) {
	switch {
	case t == quantityType:
		return []uintptr{0}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			for _, at := range quantityOffsets(f.Type) {
				offsets = append(offsets, f.Offset+at)
			}
		}
	case t.Kind() == reflect.Array && holdsQuantity(t, map[reflect.Type]bool{}):
		for i := range t.Len() {
			for _, at := range quantityOffsets(t.Elem()) {
				offsets = append(offsets, uintptr(i)*t.Elem().Size()+at)
			}
		}
	}
	return offsets
}

// holdsQuantity tells whether there can be a Quantity in a value of type t. seen are the types that were looked at.
func holdsQuantity(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == quantityType || seen[t] {
		return t == quantityType
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsQuantity(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsQuantity(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// fill gives the quantities at these offsets their texts, in a struct at p that several will read:
// one that did not stand in the bytes is a zero that lacks it.
func (d *state) fill(offsets []uintptr, p layout.Ptr) {
	if !d.shared {
		return
	}
	for _, at := range offsets {
		_ = layout.As[resource.Quantity](p.Add(at)).String()
	}
}

// copies tells whether copies of q share nothing: large and very exact
// numbers are kept behind a pointer.
func copies(q *resource.Quantity) bool {
	return reflect.ValueOf(q).Elem().FieldByName("d").FieldByName("Dec").IsNil()
}

// protoQuantity reads the message of a Quantity, which has its text.
func (d *state) protoQuantity(p layout.Ptr, b []byte) (err error) {
	q := layout.As[resource.Quantity](p)
	if len(b) > 2 && b[0] == 1<<3|wireBytes && int(b[1]) == len(b)-2 && b[1] < 0x80 {
		*q, err = d.prog.quantities.parse(b[2:], d.shared)
		return err
	}
	err = q.Unmarshal(b)
	*q = filled(*q, d.shared && err == nil)
	return err
}

// jsonQuantity reads a Quantity, which has no escapes.
func (d *state) jsonQuantity(q *resource.Quantity, i int) (next int, err error) {
	b := d.raw
	if byteAt(b, i) == '"' {
		end := plainEnd(b, i+1)
		if text := b[i+1 : end]; byteAt(b, end) == '"' && len(text) > 0 && text[0] > ' ' && text[len(text)-1] > ' ' {
			if *q, err = d.prog.quantities.parse(text, d.shared); err != nil {
				return 0, fmt.Errorf("JSON at byte %d: %w", i, err)
			}
			return end + 1, nil
		}
	}
	next, err = d.jsonItself(q, i)
	*q = filled(*q, d.shared && err == nil)
	return next, err
}
