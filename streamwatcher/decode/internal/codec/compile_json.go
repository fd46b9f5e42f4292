package codec

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// object is the table of a struct in JSON.
type object struct {
	fields []jsonEntry // as in the struct, which is the order in which servers write them
	names  nameTable
	// quantities are the offsets of those in the struct.
	quantities []uintptr
}

// jsonEntry is a field of an object.
type jsonEntry struct {
	quoted string // the name as it stands in JSON, with quotes and colon
	name   string
	kind   kind
	id     int // of fields
	offset uintptr
	node   *node
	next   int // the index of the field behind it
	track  tracking
}

var jsonNumber = reflect.TypeFor[json.Number]()

// jsonNode fills in n, the node of t in JSON.
func (c *compiler) jsonNode(n *node, t reflect.Type, drop *dropTree) error {
	switch t {
	case timeType:
		n.kind = aTime
		return nil
	case microTimeType:
		n.kind = aMicroTime
		return nil
	case quantityType:
		n.kind = aQuantity
		return nil
	case intOrStringType:
		n.kind = anIntOrString
		return nil
	case fieldsV1Type, rawExtType:
		if t.NumField() > 0 && t.Field(0).Type == reflect.TypeFor[[]byte]() {
			n.kind = rawJSON
			n.rawOffset = t.Field(0).Offset
			return nil
		}
	}
	if n.kind = basic(t); n.kind != none && !hasMethods(t) {
		n.size = t.Size()
		return nil
	}
	switch {
	case readsItself(t):
		n.kind = byItself
		return nil
	case hasMethods(t), t == jsonNumber:
		n.kind = bySigs
		return nil
	case t.Kind() == reflect.String:
		n.kind = aString
		return nil
	case t.Kind() == reflect.Struct:
		fields, err := tableFields(t)
		if err != nil {
			// It is read as a whole, and has nothing that could be dropped.
			n.kind, n.left = bySigs, err
			if drop == nil {
				err = nil
			}
			return err
		}
		n.kind, n.sparse = aStruct, drop != nil || !generated(t)
		n.object = &object{quantities: quantityOffsets(t)}
		return c.object(n.object, fields, drop)
	case t.Kind() == reflect.Map:
		n.dropKeys = drop.keys()
	}
	ok, err := c.container(n, t, nil, drop)
	if err == nil && !ok {
		if n.dropKeys != nil {
			return fmt.Errorf("nothing can be dropped in a %v", t)
		}
		n.kind = bySigs
	}
	return err
}

// hasMethods tells whether t has a method that sigs.k8s.io/json reads it by.
func hasMethods(t reflect.Type) bool {
	return readsItself(t) || t.Name() != "" && reflect.PointerTo(t).Implements(textUnmarshaler)
}

// tableFields returns the fields of t. An error says why there can be no table of them.
func tableFields(t reflect.Type) ([]jsonField, error) {
	fields, err := jsonFields(t)
	for _, f := range fields {
		if f.quoted {
			return nil, fmt.Errorf("%v has the field %q with the option string", t, f.name)
		}
	}
	return fields, err
}

// object fills in o with the fields of a struct.
func (c *compiler) object(o *object, fields []jsonField, drop *dropTree) error {
	for _, f := range fields {
		below, whole := drop.field(f.name)
		if whole {
			continue // as a field that is not known
		}
		n, err := c.node(f.typ, nil, below)
		if err != nil {
			return err
		}
		o.fields = append(o.fields, jsonEntry{quoted: `"` + f.name + `":`, name: f.name, kind: n.kind, id: c.field(), offset: f.offset, node: n, next: len(o.fields) + 1, track: trackingOf(f.name, n)})
	}
	o.names.build(o.fields)
	return nil
}

// checkOnly makes the apiVersion and kind of o, the object of t, be checked and not kept. It
// is for the types of which they would be emptied.
func (o *object) checkOnly(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || f.Type != typeMetaType {
			continue
		}
		for j := range o.fields {
			if e := &o.fields[j]; e.offset >= f.Offset && e.offset < f.Offset+f.Type.Size() {
				e.kind, e.node = aText, &node{kind: aText, typ: layout.TypeOf(reflect.TypeFor[string]())}
			}
		}
	}
}

// nameTable finds a field by its name, by a hash that has no collisions.
type nameTable struct {
	mul   uint32
	shift uint8
	index []int16          // one more than that of a field, 0 for none
	odd   map[string]int16 // instead, where no such hash was found
}

// mix is what of a name goes into its hash: its length and three of its bytes.
func mix[S string | []byte](name S) uint32 {
	n := len(name)
	return uint32(name[0]) | uint32(name[n/2])<<8 | uint32(name[n-1])<<16 | uint32(n)<<24
}

func (t *nameTable) build(fields []jsonEntry) {
	for bits := uint8(2); bits < 11; bits++ {
		if 1<<bits < len(fields) {
			continue
		}
		t.shift = 32 - bits
		t.index = make([]int16, 1<<bits)
		for try := uint32(1); try < 100; try++ {
			t.mul = try*0x9E3779B1 | 1
			if t.fill(fields) {
				return
			}
		}
	}
	t.index, t.odd = nil, map[string]int16{}
	for i, f := range fields {
		t.odd[f.name] = int16(i) + 1
	}
}

func (t *nameTable) fill(fields []jsonEntry) bool {
	clear(t.index)
	for i, f := range fields {
		if f.name == "" {
			return false
		}
		at := &t.index[mix(f.name)*t.mul>>t.shift]
		if *at != 0 {
			return false
		}
		*at = int16(i) + 1
	}
	return true
}

// find returns the field with this name, nil for none.
func (o *object) find(name []byte) *jsonEntry {
	var i int16
	switch {
	case o.names.odd != nil:
		i = o.names.odd[string(name)]
	case len(name) == 0:
		return nil
	default:
		i = o.names.index[mix(name)*o.names.mul>>o.names.shift]
	}
	if i == 0 {
		return nil
	}
	if f := &o.fields[i-1]; f.name == string(name) {
		return f
	}
	return nil
}
