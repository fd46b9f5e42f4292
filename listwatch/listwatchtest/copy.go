package listwatchtest

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shallowCopy returns a copy of which the type and the fields of the metadata
// may be set while the rest is shared with o, and must not be changed.
func shallowCopy(o Object) Object {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy()
	}
	v := reflect.New(reflect.TypeOf(o).Elem())
	v.Elem().Set(reflect.ValueOf(o).Elem())
	return v.Interface().(Object)
}

// withKind returns o with its kind and version set, for the wire. Stored typed
// objects have none, as in client-go.
func withKind(o Object, gvk schema.GroupVersionKind) Object {
	if o.GetObjectKind().GroupVersionKind() == gvk {
		return o
	}
	cp := shallowCopy(o)
	cp.GetObjectKind().SetGroupVersionKind(gvk)
	return cp
}

// deepCopy returns a copy that shares nothing.
func deepCopy(o Object) Object { return o.DeepCopyObject().(Object) }

// assign makes dst, which the caller holds, equal to src.
func assign(dst, src Object) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(deepCopy(src)).Elem())
}

// part names a top-level part of an object: spec or status.
type part struct{ field, key string }

var (
	specPart   = part{"Spec", "spec"}
	statusPart = part{"Status", "status"}
)

// set makes dst's part the same as src's. Where src has none, dst gets none.
func (p part) set(dst, src Object) {
	if d, ok := dst.(*unstructured.Unstructured); ok {
		s := src.(*unstructured.Unstructured)
		if value, has := s.Object[p.key]; has {
			d.Object[p.key] = value
		} else {
			delete(d.Object, p.key)
		}
		return
	}
	if d := reflect.ValueOf(dst).Elem().FieldByName(p.field); d.IsValid() {
		d.Set(reflect.ValueOf(src).Elem().FieldByName(p.field))
	}
}

// equal reports whether the part is the same in both.
func (p part) equal(a, b Object) bool {
	if u, ok := a.(*unstructured.Unstructured); ok {
		return equality.Semantic.DeepEqual(u.Object[p.key], b.(*unstructured.Unstructured).Object[p.key])
	}
	x, y := reflect.ValueOf(a).Elem().FieldByName(p.field), reflect.ValueOf(b).Elem().FieldByName(p.field)
	return !x.IsValid() || equality.Semantic.DeepEqual(x.Interface(), y.Interface())
}
