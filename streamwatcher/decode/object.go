package decode

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is one object as it came: its metadata known, its content not decoded yet.
type Object[T any] struct {
	Meta     Meta
	Encoding Encoding
	// Raw is the object's bytes. They belong to the reader and are overwritten
	// when it is asked for the next object.
	Raw []byte

	dec Decoder[T]
	err error
}

// NewObject returns an Object that dec decodes when asked.
func NewObject[T any](m Meta, enc Encoding, raw []byte, dec Decoder[T]) Object[T] {
	return Object[T]{Meta: m, Encoding: enc, Raw: raw, dec: dec}
}

// Undecodable returns an Object whose Decode fails with err: one that was too
// large to hold, or is not an object at all. Its Meta may be empty.
func Undecodable[T any](m Meta, err error) Object[T] {
	return Object[T]{Meta: m, err: err}
}

// Decode makes the T. Each call decodes anew; the result shares nothing with Raw.
//
// An unstructured object that does not name its own kind, as the items of a
// list of built-in types do not, gets it from Meta: unstructured content
// without a kind is of no use.
func (o *Object[T]) Decode() (T, error) {
	if o.err != nil {
		var zero T
		return zero, o.err
	}
	t, err := o.dec.Decode(o.Encoding, o.Raw)
	if err != nil {
		return t, err
	}
	if u, ok := any(t).(runtime.Unstructured); ok && o.Meta.Kind != "" {
		if k := u.GetObjectKind(); k.GroupVersionKind().Kind == "" {
			k.SetGroupVersionKind(schema.FromAPIVersionAndKind(strings.Clone(o.Meta.APIVersion), strings.Clone(o.Meta.Kind)))
		}
	}
	return t, nil
}

// DecodeShared makes the T for a store whose objects nobody writes to: it may
// share parts with other objects, and what did not change since old, the version
// that the store has, is taken from there. was are the Parts that old came with;
// they and old are zero where there is none. A decoder that is no Sharer makes a
// T of its own.
func (o *Object[T]) DecodeShared(old T, was Parts) (T, Parts, error) {
	s, ok := o.dec.(Sharer[T])
	if o.err != nil || !ok {
		t, err := o.Decode()
		return t, Parts{}, err
	}
	return s.DecodeShared(o.Encoding, o.Raw, old, was)
}

// Pack returns the object as bytes of its own, to be decoded when it is read. It is not
// checked to decode. ok is false where the decoder is no Packer.
func (o *Object[T]) Pack() (p Packed[T], ok bool, err error) {
	packer, ok := o.dec.(Packer[T])
	if o.err != nil || !ok {
		return Packed[T]{}, ok, o.err
	}
	p, err = packer.Pack(o.Encoding, o.Raw)
	return p, true, err
}

// Detach gives o bytes of its own, so that it outlives the next one. buf is used
// where it is large enough; the buffer in use is returned.
func (o *Object[T]) Detach(buf []byte) []byte {
	o.Raw = append(buf[:0], o.Raw...)
	m := &o.Meta
	m.Name, m.Namespace, m.ResourceVersion = strings.Clone(m.Name), strings.Clone(m.Namespace), strings.Clone(m.ResourceVersion)
	m.UID, m.Kind, m.APIVersion = types.UID(strings.Clone(string(m.UID))), strings.Clone(m.Kind), strings.Clone(m.APIVersion)
	return o.Raw
}
