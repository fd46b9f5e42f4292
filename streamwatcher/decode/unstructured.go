package decode

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/codec"
)

// unstructuredDecoder makes objects whose content has no Go type: *unstructured.Unstructured, and others
// that take their content as a whole. Of decoder it has what does not depend on the content.
type unstructuredDecoder[T any] struct {
	decoder[T]
	content *codec.Any
}

// newUnstructured returns a Decoder for the pointers to elem, which are runtime.Unstructured.
func newUnstructured[T any](elem reflect.Type, cfg Config) (Decoder[T], error) {
	if cfg.NumbersOf != nil {
		return nil, fmt.Errorf("decode: NumbersOf is a %T, it should be nil for %v, which has no fields and no protobuf form", cfg.NumbersOf, reflect.TypeFor[T]())
	}
	content, err := codec.NewAny(codec.Config{Drop: cfg.Drop, Intern: cfg.Intern, Share: cfg.Share})
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	d := &unstructuredDecoder[T]{decoder[T]{elem: elem, encodings: []Encoding{JSON}}, content}
	d.packers = packers[T](d, false)
	return d, nil
}

// Decode implements Decoder. A kind is not asked for: see Object.Decode.
func (d *unstructuredDecoder[T]) Decode(enc Encoding, raw []byte) (t T, err error) {
	defer d.guard(enc, &t, &err)
	if enc != JSON {
		return t, d.refuse(enc)
	}
	content, err := d.content.JSON(raw)
	return d.of(content, err)
}

// DecodeShared implements Sharer.
func (d *unstructuredDecoder[T]) DecodeShared(enc Encoding, raw []byte, old T, was Parts) (t T, parts Parts, err error) {
	defer d.guard(enc, &t, &err)
	if enc != JSON {
		return t, Parts{}, d.refuse(enc)
	}
	var before map[string]any
	if was.first != nil {
		before = any(old).(runtime.Unstructured).UnstructuredContent()
	}
	content, list, err := d.content.JSONShared(raw, before, was.list())
	t, err = d.of(content, err)
	return t, Parts{list.First()}, err
}

// of returns a new T with this content.
func (d *unstructuredDecoder[T]) of(content map[string]any, err error) (t T, _ error) {
	if err != nil {
		return t, err
	}
	obj := reflect.New(d.elem).Interface()
	obj.(runtime.Unstructured).SetUnstructuredContent(content)
	return obj.(T), nil
}

// Pack implements Packer.
func (d *unstructuredDecoder[T]) Pack(enc Encoding, raw []byte) (Packed[T], error) {
	err := d.refuse(enc)
	text := ""
	if enc == JSON {
		text, err = d.content.Pack(raw)
	}
	if err != nil {
		return Packed[T]{}, fmt.Errorf("decode: %v from %v: %w", d.elem, enc, err)
	}
	return Packed[T]{by: &d.packers[enc], raw: text}, nil
}
