package decode

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
