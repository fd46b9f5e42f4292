package podconfig

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubeletUID is the UID that the kubelet of Kubernetes 1.37 gives to a pod of a
// manifest: the 128-bit FNV-1a of a dump of the pod, with defaults and before
// it is placed on the node, then the node and the path, or the URL. It changes
// with every version of Kubernetes that changes a Go type of the pod. pod has its
// defaults, and a TypeMeta only where it is an item of a list that says it.
func kubeletUID(pod *corev1.Pod, source Source, node, where string) types.UID {
	h := fnv.New128a()
	dumpKubelet(h, reflect.ValueOf(pod), true)
	if source == FileSource {
		fmt.Fprintf(h, "host:%s", node)
		fmt.Fprintf(h, "file:%s", where)
	} else {
		fmt.Fprintf(h, "url:%s", where)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)))
}

// dumpKubelet writes a value as the kubelet's dump of its internal type has it
// (go-spew's %#v: methods off, keys sorted, no addresses). The internal types of
// Kubernetes 1.37 have the fields of the v1 types in the same order, and another
// package name; the testdata guard that. typed is whether the type is written before
// the value.
func dumpKubelet(w io.Writer, v reflect.Value, typed bool) {
	if v.Kind() == reflect.Pointer {
		switch {
		case v.IsNil() && !typed:
			io.WriteString(w, "<nil>")
		case v.IsNil():
			fmt.Fprintf(w, "(%s)<nil>", kubeletType(v.Type()))
		default:
			if typed {
				fmt.Fprintf(w, "(%s)", kubeletType(v.Type()))
			} else {
				io.WriteString(w, "<*>")
			}
			dumpKubelet(w, v.Elem(), false)
		}
		return
	}
	if typed {
		fmt.Fprintf(w, "(%s)", kubeletType(v.Type()))
	}
	switch v.Kind() {
	case reflect.Bool:
		fmt.Fprintf(w, "%t", v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		fmt.Fprintf(w, "%d", v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		fmt.Fprintf(w, "%d", v.Uint())
	case reflect.String:
		io.WriteString(w, v.String())
	case reflect.Slice:
		if v.IsNil() {
			io.WriteString(w, "<nil>")
			return
		}
		io.WriteString(w, "[")
		for i := range v.Len() {
			if i > 0 {
				io.WriteString(w, " ")
			}
			dumpKubelet(w, v.Index(i), false)
		}
		io.WriteString(w, "]")
	case reflect.Map:
		dumpKubeletMap(w, v)
	case reflect.Struct:
		io.WriteString(w, "{")
		for i := range v.NumField() {
			if i > 0 {
				io.WriteString(w, " ")
			}
			io.WriteString(w, v.Type().Field(i).Name+":")
			dumpKubelet(w, v.Field(i), true)
		}
		io.WriteString(w, "}")
	default:
		// No type of a pod has another kind.
		fmt.Fprintf(w, "%s", v)
	}
}

// dumpKubeletMap writes a map, whose keys are texts.
func dumpKubeletMap(w io.Writer, v reflect.Value) {
	if v.IsNil() {
		io.WriteString(w, "<nil>")
		return
	}
	io.WriteString(w, "map[")
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for i, key := range keys {
		if i > 0 {
			io.WriteString(w, " ")
		}
		io.WriteString(w, key.String()+":")
		dumpKubelet(w, v.MapIndex(key), false)
	}
	io.WriteString(w, "]")
}

// v1Path is the package whose types the kubelet has under the name core.
var v1Path = reflect.TypeFor[corev1.Pod]().PkgPath()

// kubeletType is the name of the type in the kubelet.
func kubeletType(t reflect.Type) string {
	if t.Name() != "" {
		if t.PkgPath() == v1Path {
			return "core." + t.Name()
		}
		return t.String()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + kubeletType(t.Elem())
	case reflect.Slice:
		return "[]" + kubeletType(t.Elem())
	case reflect.Map:
		return "map[" + kubeletType(t.Key()) + "]" + kubeletType(t.Elem())
	}
	return t.String()
}
