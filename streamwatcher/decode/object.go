package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
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
	// presumed: Raw is JSON of which it is not known yet whether it is one value; see NewLine.
	presumed bool
}

// NewObject returns an Object that dec decodes when asked.
func NewObject[T any](m Meta, enc Encoding, raw []byte, dec Decoder[T]) Object[T] {
	return Object[T]{Meta: m, Encoding: enc, Raw: raw, dec: dec}
}

// ErrLine is in the error of an Object whose bytes are none. The stream that it came from ends with it, or
// brings the object again, whole.
var ErrLine = errors.New("a line that is not one object")

// NewLine returns an Object of raw, JSON that is taken for one value without having been looked at
// to its end. Decoding finds out, and End where it was not decoded. Until then Raw may be too long.
func NewLine[T any](m Meta, raw []byte, dec Decoder[T]) Object[T] {
	return Object[T]{Meta: m, Encoding: JSON, Raw: raw, dec: dec, presumed: true}
}

// End cuts Raw to the one value that it begins with, if it is not known to be one, and returns the
// length. An ErrLine says that no value ends there, with a *frame.SyntaxError or io.ErrUnexpectedEOF in it.
func (o *Object[T]) End() (int, error) {
	if !o.presumed {
		return len(o.Raw), nil
	}
	end, err := frame.ValueEnd(o.Raw)
	if err != nil {
		return 0, fmt.Errorf("decode: %w: %w", ErrLine, err)
	}
	o.Raw, o.presumed = o.Raw[:end:end], false
	return end, nil
}

// settled returns the error of a decoder, nil for none, after it has settled what NewLine
// presumed. again says that Raw was too long: it is decoded once more.
func (o *Object[T]) settled(err error) (again bool, _ error) {
	if !o.presumed {
		return false, err
	}
	if err == nil {
		o.presumed = false // a decoder takes one value, and refuses what stands behind it
		return false, nil
	}
	size := len(o.Raw)
	if _, broken := o.End(); broken != nil {
		return false, broken
	}
	return len(o.Raw) < size, err
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
	again, err := o.settled(err)
	if again {
		t, err = o.dec.Decode(o.Encoding, o.Raw)
	}
	if err == nil {
		o.nameKind(t)
	}
	return t, err
}

// nameKind gives t its kind, if it is unstructured and does not name it itself.
func (o *Object[T]) nameKind(t T) {
	if u, ok := any(t).(runtime.Unstructured); ok && o.Meta.Kind != "" {
		if k := u.GetObjectKind(); k.GroupVersionKind().Kind == "" {
			k.SetGroupVersionKind(schema.FromAPIVersionAndKind(strings.Clone(o.Meta.APIVersion), strings.Clone(o.Meta.Kind)))
		}
	}
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
	t, parts, err := s.DecodeShared(o.Encoding, o.Raw, old, was)
	again, err := o.settled(err)
	if again {
		t, parts, err = s.DecodeShared(o.Encoding, o.Raw, old, was)
	}
	if err == nil {
		o.nameKind(t)
	}
	return t, parts, err
}

// Pack returns the object as bytes of its own, to be decoded when it is read. It is not
// checked to decode. ok is false where the decoder is no Packer.
func (o *Object[T]) Pack() (p Packed[T], ok bool, err error) {
	packer, ok := o.dec.(Packer[T])
	if o.err != nil || !ok {
		return Packed[T]{}, ok, o.err
	}
	if _, err = o.End(); err != nil {
		return Packed[T]{}, true, err
	}
	p, err = packer.Pack(o.Encoding, o.named())
	return p, true, err
}

// named returns Raw with the kind that nameKind would give to it.
func (o *Object[T]) named() []byte {
	var zero T
	if _, ok := any(zero).(runtime.Unstructured); !ok || o.Meta.Kind == "" {
		return o.Raw
	}
	own, err := Peek(o.Encoding, o.Raw)
	from := bytes.IndexByte(o.Raw, '{')
	if err != nil || own.Kind != "" || from < 0 {
		return o.Raw
	}
	head, _ := json.Marshal(metav1.TypeMeta{APIVersion: o.Meta.APIVersion, Kind: o.Meta.Kind}) // strings always can
	head[len(head)-1] = ','
	rest := o.Raw[from+1:]
	if bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte("}")) {
		head = head[:len(head)-1]
	}
	return append(head, rest...)
}

// Detach gives o bytes of its own, so that it outlives the next one. buf is used
// where it is large enough; the buffer in use is returned. Meta means something for as long as Raw is not
// overwritten, as that of an object which was not detached. kind is that of the object which was detached before, as most objects of a list have the same.
func (o *Object[T]) Detach(buf []byte, kind *Kind) []byte {
	was := o.Raw
	o.Raw = append(buf[:0], was...)
	o.Meta = o.Meta.moved(was, o.Raw, kind)
	return o.Raw
}
