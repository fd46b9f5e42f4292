package codec

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

var (
	timeType        = reflect.TypeFor[metav1.Time]()
	microTimeType   = reflect.TypeFor[metav1.MicroTime]()
	quantityType    = reflect.TypeFor[resource.Quantity]()
	intOrStringType = reflect.TypeFor[intstr.IntOrString]()
	fieldsV1Type    = reflect.TypeFor[metav1.FieldsV1]()
	rawExtType      = reflect.TypeFor[runtime.RawExtension]()
	typeMetaType    = reflect.TypeFor[metav1.TypeMeta]()
)

// compiler makes the nodes of one type in one encoding.
type compiler struct {
	// nodes are those made already: types may contain themselves. The key has the
	// paths dropped below, and the type that numbers are taken from.
	nodes  map[nodeKey]*node
	count  *int
	fields *int
	proto  bool
}

type nodeKey struct {
	t, like reflect.Type
	drop    string
}

// node returns the node for t, of which the fields in drop are passed over.
func (c *compiler) node(t, like reflect.Type, drop *dropTree) (*node, error) {
	key := nodeKey{t, like, drop.String()}
	if n := c.nodes[key]; n != nil {
		return n, nil
	}
	n := &node{id: *c.count, typ: layout.TypeOf(t)}
	*c.count++
	c.nodes[key] = n
	var err error
	if c.proto {
		err = c.protoNode(n, t, like, drop)
	} else {
		err = c.jsonNode(n, t, drop)
		if err == nil && (n.kind == bySigs || n.kind == byItself) && holdsQuantity(t, map[reflect.Type]bool{}) {
			// Of shared objects it would have to be filled, where no table leads to it.
			err = fmt.Errorf("%v has a Quantity, and is not read by a table", t)
		}
	}
	return n, err
}

// field returns the id of a field.
func (c *compiler) field() int {
	*c.fields++
	return *c.fields - 1
}

// container fills in n, the node of a pointer, slice or map, and tells whether it is one.
func (c *compiler) container(n *node, t, like reflect.Type, drop *dropTree) (ok bool, err error) {
	elemLike := func() reflect.Type {
		if like != nil && like.Kind() == t.Kind() {
			return like.Elem()
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		n.kind = aPointer
		n.elem, err = c.node(t.Elem(), elemLike(), drop)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			n.kind = aBytes
		} else {
			n.kind = aSlice
			n.elem, err = c.node(t.Elem(), elemLike(), drop)
		}
	case reflect.Map:
		key, elem := t.Key(), t.Elem()
		switch {
		case key.Kind() != reflect.String || plainMethods(key):
			return false, nil
		case elem.Kind() == reflect.String && elem != jsonNumber && !plainMethods(elem):
			n.kind = aStringMap
		case elem == reflect.TypeFor[[]byte]():
			n.kind = aBytesMap
		default:
			n.kind, n.quantities = aMap, quantityOffsets(elem)
		}
		n.elem, err = c.node(elem, elemLike(), drop)
	default:
		return false, nil
	}
	n.sparse = n.dropKeys != nil || n.kind != aMap && n.elem != nil && n.elem.sparse
	return true, err
}

// plainMethods tells whether t, used as a string, has methods of its own to read it.
func plainMethods(t reflect.Type) bool {
	return readsItself(t) || reflect.PointerTo(t).Implements(textUnmarshaler) || reflect.PointerTo(t).Implements(protoUnmarshaler)
}
