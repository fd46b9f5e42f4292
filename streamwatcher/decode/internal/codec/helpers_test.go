package codec

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"sort"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// allTypes are the Go types that client-go knows, in a fixed order.
func allTypes() (types []reflect.Type) {
	seen := map[reflect.Type]bool{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal && !seen[t] {
			seen[t] = true
			types = append(types, t)
		}
	}
	sort.Slice(types, func(i, j int) bool { return types[i].PkgPath()+types[i].Name() < types[j].PkgPath()+types[j].Name() })
	return types
}

func filler(seed int64) *randfill.Filler {
	return apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs).NilChance(.5).NumElements(0, 3)
}

type protoObject interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func mustCompile(t testing.TB, typ reflect.Type, cfg Config) *Program {
	t.Helper()
	p, err := Compile(typ, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// protobuf decodes raw and then overwrites it.
func protobuf(p *Program, raw []byte) (any, error) {
	raw = append([]byte(nil), raw...)
	ptr, err := p.Protobuf(raw)
	overwrite(raw)
	if err != nil {
		return nil, err
	}
	return p.typ.Value(ptr).Interface(), nil
}

func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s: not the same (-apimachinery +ours):\n%s", what, cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })))
	}
	if !apiequality.Semantic.DeepEqual(want, got) {
		t.Fatalf("%s: not semantically the same", what)
	}
}

// A form is one of the two encodings: how objects get into it, and how ours and apimachinery
// get them out.
type form struct {
	name    string
	encode  func(obj any) ([]byte, error)
	private func(p *Program, raw []byte) (any, error)
	shared  func(p *Program, raw []byte, old layout.Ptr, was Parts) (layout.Ptr, Parts, error)
	theirs  func(typ reflect.Type) func(raw []byte) (any, error)
}

var forms = []form{
	{"protobuf", func(obj any) ([]byte, error) { return obj.(protoObject).Marshal() }, protobuf, (*Program).ProtobufShared, gogo},
	{"json", json.Marshal, fromJSON, (*Program).JSONShared, sigs},
}

// readShared returns what p makes of pod for a store that shares parts, which is the same.
func (f form) readShared(t testing.TB, p *Program, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	raw, err := f.encode(pod)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.fromShared(p)(raw)
	if err != nil {
		t.Fatal(err)
	}
	same(t, f.name, pod, got)
	return got.(*corev1.Pod)
}

// A version is an object that others have parts of, and what its next one needs.
type version struct {
	at    layout.Ptr
	parts Parts
}

// object is v as a pointer to a struct.
func (v version) object(p *Program) any { return p.typ.Value(v.at).Interface() }

// next decodes raw, the version after v, and then overwrites it.
func (f form) next(p *Program, raw []byte, v version) (version, error) {
	raw = append([]byte(nil), raw...)
	at, parts, err := f.shared(p, raw, v.at, v.parts)
	overwrite(raw)
	return version{at, parts}, err
}

// fromShared returns what decodes objects that share parts, none of which has a version before.
func (f form) fromShared(p *Program) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		v, err := f.next(p, raw, version{})
		if err != nil {
			return nil, err
		}
		return v.object(p), nil
	}
}

// full is theirs with the texts of quantities, which String caches: shared objects must have them.
func full(theirs func(raw []byte) (any, error)) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		v, err := theirs(raw)
		fillTexts(reflect.ValueOf(v))
		return v, err
	}
}

// fillTexts calls String of all quantities in v, which are cached then.
func fillTexts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fillTexts(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			fillTexts(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			fillTexts(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
			_ = q.String()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillTexts(v.Field(i))
			}
		}
	}
}
