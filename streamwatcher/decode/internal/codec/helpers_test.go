package codec

import (
	"math/rand"
	"reflect"
	"sort"
	"testing"

	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/google/go-cmp/cmp"
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
