package decode

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// A Decoder makes a T of the bytes of one object. It keeps no reference to the
// bytes and is safe for use by several goroutines.
type Decoder[T any] interface {
	// Decode returns a new T. raw is one object: for JSON the object's text,
	// for Protobuf the object's message without the "k8s\x00" envelope.
	// On error the result is the zero T.
	Decode(enc Encoding, raw []byte) (T, error)
	// Encodings returns what Decode can read, the preferred one first.
	Encodings() []Encoding
}

// unmarshaler is what generated API types have.
type unmarshaler interface{ Unmarshal([]byte) error }

// New returns a Decoder for T, a pointer to a struct. It reads
//
//   - types with a generated protobuf Unmarshal (*corev1.Pod,
//     *metav1.PartialObjectMetadata): Protobuf and JSON;
//   - *unstructured.Unstructured: JSON;
//   - any other struct, such as one with only the fields a caller wants, of which
//     the rest is skipped: JSON.
//
// JSON is read by apimachinery's rules: keys are case-sensitive, unknown ones
// are skipped, and of a repeated one the last counts.
//
// As with client-go, the apiVersion and kind of typed objects are empty: the Go
// type says them. Unstructured objects keep theirs.
//
// A panic of an Unmarshal method is returned as an error.
func New[T any]() (Decoder[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("decode: cannot make objects of type %v: it is not a pointer to a struct, as *corev1.Pod is", t)
	}
	d := &decoder[T]{elem: t.Elem(), encodings: []Encoding{JSON}}
	if _, ok := reflect.New(d.elem).Interface().(runtime.Unstructured); ok {
		d.unstructured = true
	} else if readsProtobuf(d.elem) {
		d.encodings = []Encoding{Protobuf, JSON}
	}
	return d, nil
}

// KindOf returns the kind of the built-in type T, a type of k8s.io/api or a pointer
// to one: there the Go name is the kind. For other types, whose name may be
// anything, it is "".
func KindOf[T any]() string {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
		return t.Name()
	}
	return ""
}

// readsProtobuf tells whether pointers to elem read an object's protobuf message.
// Having an Unmarshal method is not enough: a struct that embeds
// metav1.ObjectMeta has ObjectMeta's, which reads something else. So the method is tried
// on an object of which only the name is set: {metadata(1): {name(1): "n"}}.
func readsProtobuf(elem reflect.Type) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	v := reflect.New(elem).Interface()
	u, ok := v.(unmarshaler)
	if !ok {
		return false
	}
	o, ok := v.(metav1.Object)
	return ok && u.Unmarshal([]byte{0x0a, 3, 0x0a, 1, 'n'}) == nil && o.GetName() == "n"
}

// decoder decodes by apimachinery's own means.
type decoder[T any] struct {
	elem         reflect.Type
	encodings    []Encoding
	unstructured bool
}

func (d *decoder[T]) Encodings() []Encoding { return append([]Encoding(nil), d.encodings...) }

func (d *decoder[T]) Decode(enc Encoding, raw []byte) (t T, err error) {
	defer func() {
		if p := recover(); p != nil {
			var zero T
			t, err = zero, fmt.Errorf("decode: %v from %v: Unmarshal panicked: %v", d.elem, enc, p)
		}
	}()
	obj := reflect.New(d.elem).Interface()
	if err := d.into(obj, enc, raw); err != nil {
		var zero T
		return zero, fmt.Errorf("decode: %v from %v: %w", d.elem, enc, err)
	}
	return obj.(T), nil
}

func (d *decoder[T]) into(obj any, enc Encoding, raw []byte) error {
	switch enc {
	case JSON:
		if err := unmarshalJSON(obj, raw); err != nil {
			return err
		}
	case Protobuf:
		u, ok := obj.(unmarshaler)
		if !ok || d.encodings[0] != Protobuf {
			return errors.New("the type has no protobuf form")
		}
		if err := u.Unmarshal(raw); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown encoding %d", enc)
	}
	if o, ok := obj.(interface{ GetObjectKind() schema.ObjectKind }); ok && !d.unstructured {
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return nil
}

// unmarshalJSON reads the text of one object. To encoding/json a null is
// nothing and no error; as an object of a collection it is one.
func unmarshalJSON(obj any, raw []byte) error {
	if !beginsObject(raw) {
		return errNotObject
	}
	u, ok := obj.(runtime.Unstructured)
	if !ok {
		return kjson.UnmarshalCaseSensitivePreserveInts(raw, obj)
	}
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &content); err != nil {
		return err
	}
	u.SetUnstructuredContent(content)
	return nil
}

var errNotObject = errors.New("not a JSON object")

func beginsObject(raw []byte) bool {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{'
		}
	}
	return false
}

var _ Decoder[*metav1.PartialObjectMetadata] = (*decoder[*metav1.PartialObjectMetadata])(nil)
