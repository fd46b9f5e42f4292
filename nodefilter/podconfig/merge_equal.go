package podconfig

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// semanticEqual is equality.Semantic.DeepEqual for two pointers to a part of a
// pod: quantities by their value, times by their instant, an empty list or map as
// none. It differs in cost alone. What is the same in memory is equal without
// being looked at, which is the rule for two versions of a pod whose decoder
// shares what did not change; and nothing is allocated for what a pod is made of,
// where the general one copies each quantity and time that it compares.
func semanticEqual(old, new any) bool {
	return equalValues(reflect.ValueOf(old), reflect.ValueOf(new))
}

// equalValues compares two values of one type. Pods are trees, so that there is
// no need to remember what was visited.
func equalValues(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return a.UnsafePointer() == b.UnsafePointer() || equalValues(a.Elem(), b.Elem())
	case reflect.Struct:
		return equalStructs(a, b)
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		fallthrough
	case reflect.Array:
		for i := range a.Len() {
			if !equalValues(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return equalMaps(a, b)
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return a.Uint() == b.Uint()
	}
	// A pod has nothing else today.
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

var (
	timeType     = reflect.TypeFor[metav1.Time]()
	quantityType = reflect.TypeFor[resource.Quantity]()
)

// equalStructs: the two types with a meaning of their own are read through their
// address, which needs no copy. What is reached from a pointer has one; the value
// of a map has none, see equalMaps.
func equalStructs(a, b reflect.Value) bool {
	switch a.Type() {
	case timeType:
		return a.Addr().Interface().(*metav1.Time).UTC() == b.Addr().Interface().(*metav1.Time).UTC()
	case quantityType:
		return a.Addr().Interface().(*resource.Quantity).Cmp(*b.Addr().Interface().(*resource.Quantity)) == 0
	}
	for i := range a.NumField() {
		if !equalValues(a.Field(i), b.Field(i)) {
			return false
		}
	}
	return true
}

func equalMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	if a.UnsafePointer() == b.UnsafePointer() {
		return true
	}
	if a.CanAddr() && b.CanAddr() {
		switch m := a.Addr().Interface().(type) {
		case *map[string]string:
			return maps.Equal(*m, *b.Addr().Interface().(*map[string]string))
		case *corev1.ResourceList:
			return maps.EqualFunc(*m, *b.Addr().Interface().(*corev1.ResourceList),
				func(q, r resource.Quantity) bool { return q.Cmp(r) == 0 })
		}
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}
