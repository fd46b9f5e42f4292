package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// message is the table of a struct in protobuf.
type message struct {
	fields []protoField // by number; of kind none where there is no such field
	// quantities are the offsets of those in the struct.
	quantities []uintptr
}

// protoField is a field of a message.
type protoField struct {
	kind kind  // of its node
	wire uint8 // the wire type that the kind has

	id     int // of fields
	offset uintptr
	share  bool // values can be shared
	track  tracking
	node   *node
	name   string // the Go field's, for errors
}

// maxFieldNumber bounds the tables. The numbers of the API are below 100.
const maxFieldNumber = 4096

// protoNode fills in n, the node of t in protobuf. Where t has no field numbers of its own,
// they are those of the fields of like that have the same JSON names.
func (c *compiler) protoNode(n *node, t, like reflect.Type, drop *dropTree) error {
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
	}
	if t.Name() != "" && ownUnmarshal(t) && !generated(t) {
		if drop != nil {
			return fmt.Errorf("%v reads protobuf by a method of its own, nothing can be dropped in it", t)
		}
		n.kind = byItself
		if t.Kind() == reflect.Slice {
			n.kind = emptySelf
		}
		return nil
	}
	if n.kind = basic(t); n.kind != none {
		n.size = t.Size()
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		n.kind = aString
		return nil
	case reflect.Struct:
		n.kind, n.sparse = aStruct, drop != nil || !generated(t)
		n.message = &message{quantities: quantityOffsets(t)}
		return c.message(n.message, t, like, 0, drop)
	case reflect.Map:
		n.dropKeys = drop.keys()
	}
	ok, err := c.container(n, t, like, drop)
	if err == nil && (!ok || n.elem != nil && nested(n)) {
		err = fmt.Errorf("%v has no form in protobuf", t)
	}
	return err
}

// nested tells whether n is a container of what cannot be in one.
func nested(n *node) bool {
	switch n.elem.kind {
	case aSlice, aStringMap, aBytesMap, aMap:
		return true
	case aPointer: // to a message, or to nothing else
		return n.kind == aPointer || n.kind == aMap
	case aBytes:
		return n.kind == aPointer
	}
	return false
}

// generated tells whether the Unmarshal of t was generated from the field
// numbers in its tags, so that a table of them reads the same. Of other
// modules it is not known.
func generated(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false // a slice is the field 1 of a message that Go does not show
	}
	if t == fieldsV1Type && t.Field(0).Tag.Get("protobuf") == "" {
		return false // the build variant in which it is a string
	}
	return strings.HasPrefix(t.PkgPath(), "k8s.io/api/") || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/pkg/")
}

// message fills in m with the fields of t, which stands offset bytes behind what m is read to.
func (c *compiler) message(m *message, t, like reflect.Type, offset uintptr, drop *dropTree) error {
	numbered := false
	for i := range t.NumField() {
		numbered = numbered || t.Field(i).Tag.Get("protobuf") != ""
	}
	switch {
	case !numbered && like != nil:
		return c.messageLike(m, t, like, drop)
	case !numbered && t.NumField() > 0:
		return fmt.Errorf("%v has no protobuf tags", t)
	}
	for i := range t.NumField() {
		f := t.Field(i)
		number, err := fieldNumber(f)
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		if number == 0 {
			// Not in protobuf: TypeMeta, RawExtension.Object. What JSON reads, though, must not be missing here.
			if f.Type != typeMetaType && f.IsExported() && f.Tag.Get("json") != "-" {
				return fmt.Errorf("%v.%s has no protobuf tag", t, f.Name)
			}
			continue
		}
		below, whole := drop, false
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" || !f.Anonymous {
			below, whole = drop.field(name)
		}
		if whole {
			continue // as a field that is not known
		}
		n, err := c.node(f.Type, nil, below)
		if err != nil {
			return err
		}
		if err := c.set(m, number, protoField{node: n, offset: offset + f.Offset, name: f.Name, track: trackingOf(name, n)}); err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
	}
	return nil
}

// messageLike fills in m with those fields of t that are named as fields of like.
func (c *compiler) messageLike(m *message, t, like reflect.Type, drop *dropTree) error {
	fields, err := jsonFields(t)
	if err != nil {
		return err
	}
	left := map[string]jsonField{}
	for _, f := range fields {
		left[f.name] = f
	}
	if err := c.matchLike(m, left, like, drop); err != nil {
		return err
	}
	for name := range left {
		return fmt.Errorf("%v has the field %q, which %v has not in protobuf", t, name, like)
	}
	return nil
}

// matchLike takes from fields those that like has.
func (c *compiler) matchLike(m *message, fields map[string]jsonField, like reflect.Type, drop *dropTree) error {
	for i := range like.NumField() {
		lf := like.Field(i)
		number, err := fieldNumber(lf)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(lf.Tag.Get("json"), ",")
		if number == 0 {
			if lf.Type == typeMetaType { // said by the envelope
				delete(fields, "kind")
				delete(fields, "apiVersion")
			}
			continue
		}
		if lf.Anonymous && name == "" && lf.Type.Kind() == reflect.Struct {
			// One object in JSON, a message of its own in protobuf.
			n := &node{id: *c.count, kind: aStruct, message: &message{}, sparse: true}
			*c.count++
			before := len(fields)
			if err := c.matchLike(n.message, fields, lf.Type, drop); err != nil {
				return err
			}
			if len(fields) == before {
				continue
			}
			if err := c.set(m, number, protoField{node: n, name: lf.Name}); err != nil {
				return err
			}
			continue
		}
		f, ok := fields[name]
		if !ok {
			continue
		}
		delete(fields, name)
		below, whole := drop.field(name)
		if whole {
			continue
		}
		if !alike(f.typ, lf.Type) {
			return fmt.Errorf("field %q is a %v, but a %v in %v", name, f.typ, lf.Type, like)
		}
		n, err := c.node(f.typ, lf.Type, below)
		if err != nil {
			return err
		}
		if err := c.set(m, number, protoField{node: n, offset: f.offset, name: f.name, track: trackingOf(name, n)}); err != nil {
			return err
		}
	}
	return nil
}

// alike tells whether a value of type t can be read where the wire has one of type like.
// A pointer stands for what it points to.
func alike(t, like reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for like.Kind() == reflect.Pointer {
		like = like.Elem()
	}
	if readsItself(t) || readsItself(like) {
		return t == like
	}
	switch {
	case t.Kind() != like.Kind():
		return false
	case t.Kind() == reflect.Slice:
		return alike(t.Elem(), like.Elem())
	case t.Kind() == reflect.Map:
		return alike(t.Key(), like.Key()) && alike(t.Elem(), like.Elem())
	}
	return true
}

// set puts f in the place of its number.
func (c *compiler) set(m *message, number int, f protoField) error {
	for len(m.fields) <= number {
		m.fields = append(m.fields, protoField{})
	}
	if m.fields[number].node != nil {
		return fmt.Errorf("the protobuf field number %d is used twice", number)
	}
	f.kind, f.wire = f.node.kind, wireOf(f.node)
	f.share = f.wire == wireBytes && f.node.canShare()
	if f.wire != wireBytes {
		f.track = untracked
	}
	f.id = c.field()
	m.fields[number] = f
	return nil
}

// The wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireGroup   = 3
	wireEnd     = 4
	wireFixed32 = 5
)

// wireOf returns the wire type of n. A repeated number has that of one, although it
// can be packed.
func wireOf(n *node) uint8 {
	switch n.kind {
	case aBool, anInt, aUint:
		return wireVarint
	case aFloat:
		if n.size == 4 {
			return wireFixed32
		}
		return wireFixed64
	case aPointer, aSlice:
		if n.elem != nil { // else a type that contains itself is being compiled: a message
			return wireOf(n.elem)
		}
	}
	return wireBytes
}

// fieldNumber returns the number in a field's tag, 0 if it has none. The other words of the tag
// are not to be relied on: "bytes" stands at integers, "rep" at single strings.
func fieldNumber(f reflect.StructField) (int, error) {
	tag := f.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return 0, nil
	}
	words := strings.Split(tag, ",")
	t := f.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if strings.HasPrefix(words[0], "zigzag") || strings.HasPrefix(words[0], "fixed") && basic(t) != aFloat {
		return 0, fmt.Errorf("integers of the form %s are not read", words[0])
	}
	if len(words) < 2 {
		return 0, errors.New("the protobuf tag has no number")
	}
	number, err := strconv.Atoi(words[1])
	if err != nil || number < 1 || number > maxFieldNumber {
		return 0, fmt.Errorf("the protobuf tag has the number %q, it should be 1 to %d", words[1], maxFieldNumber)
	}
	return number, nil
}
