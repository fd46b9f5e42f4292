package decode

import (
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// unmarshaler is what generated API types have.
type unmarshaler interface{ Unmarshal([]byte) error }

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

// fallback decodes by apimachinery's own means: types that read themselves or that have
// something for which there is no table.
type fallback struct {
	elem      reflect.Type
	encodings []Encoding
}

var errNoProtobuf = errors.New("the type has no protobuf form")

func (f *fallback) into(obj any, enc Encoding, raw []byte) error {
	switch enc {
	case JSON:
		if err := unmarshalJSON(obj, raw); err != nil {
			return err
		}
	case Protobuf:
		u, ok := obj.(unmarshaler)
		if !ok || f.encodings[0] != Protobuf {
			return errNoProtobuf
		}
		if err := u.Unmarshal(raw); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown encoding %d", enc)
	}
	if o, ok := obj.(kinded); ok {
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
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, obj)
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
