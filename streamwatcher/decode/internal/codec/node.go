package codec

import (
	"reflect"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// kind is how a node is read.
type kind uint8

const (
	none kind = iota // no such field: it is passed over
	aString
	aBytes // []byte
	aBool
	anInt
	aUint
	aFloat
	aStruct
	aPointer
	aSlice
	aStringMap // map[string]string, or with named strings
	aBytesMap  // map[string][]byte
	aMap       // any other map
	aTime
	aMicroTime
	aQuantity

	// In JSON only.
	anIntOrString
	rawJSON   // FieldsV1 and RawExtension: the bytes as they are
	aText     // a string whose value is not wanted: it is checked and dropped
	bySigs    // what only sigs.k8s.io/json reads: interfaces, arrays and the like
	byItself  // a type with its own UnmarshalJSON, or in protobuf Unmarshal
	emptySelf // byItself in protobuf, for a slice that is made empty first
)

// node is how one Go type is read.
type node struct {
	id       int
	kind     kind
	size     uintptr // of a number
	typ      layout.Type
	elem     *node    // of a pointer, slice or map
	dropKeys []string // of a map: the keys that are passed over
	// quantities are, of a map, the offsets of those in its values.
	quantities []uintptr

	message *message // of a struct, in protobuf
	object  *object  // of a struct, in JSON

	sparse bool // fields are passed over in it, or below

	rawOffset uintptr // of the []byte in a rawJSON
	left      error   // why a struct is read bySigs
}

// slices returns the Slices for n, an aSlice.
func (d *state) slices(n *node) *layout.Slices {
	s := d.makers[n.id]
	if s == nil {
		s = layout.NewSlices(n.typ.Go)
		d.makers[n.id] = s
	}
	return s
}

// basic returns the node kind of a Go kind that is a number or bool.
func basic(t reflect.Type) kind {
	switch t.Kind() {
	case reflect.Bool:
		return aBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return anInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return aUint
	case reflect.Float32, reflect.Float64:
		return aFloat
	}
	return none
}
