package podconfig

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestSemanticEqual: "It differs in cost alone" from equality.Semantic.DeepEqual,
// for random pods of which one leaf was changed, or only the form of one.
func TestSemanticEqual(t *testing.T) {
	t.Parallel()
	verdicts := map[bool]int{}
	for seed := range int64(30) {
		fill := apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs).NilChance(.2).NumElements(0, 3)
		rnd := rand.New(rand.NewSource(seed))
		var pod corev1.Pod
		fill.Fill(&pod)
		for range 20 {
			other := pod.DeepCopy()
			if rnd.Intn(4) == 0 {
				other = edited(&pod) // shares everything
			} else if rnd.Intn(8) > 0 {
				change(rnd, reflect.ValueOf(other).Elem())
			}
			for _, part := range [][2]any{{&pod.Spec, &other.Spec}, {&pod.Status, &other.Status}, {&pod.ObjectMeta, &other.ObjectMeta}} {
				want := equality.Semantic.DeepEqual(part[0], part[1])
				verdicts[want]++
				if got := semanticEqual(part[0], part[1]); got != want {
					t.Fatalf("seed %d: %T equal %t, want %t", seed, part[0], got, want)
				}
				if got := semanticEqual(part[1], part[0]); got != want {
					t.Fatalf("seed %d: %T the other way round equal %t, want %t", seed, part[0], got, want)
				}
			}
		}
	}
	if verdicts[true] < 300 || verdicts[false] < 200 {
		t.Errorf("equal and not equal: %v", verdicts)
	}
}

// change changes one random leaf of v in place, or the form of one.
func change(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			if rnd.Intn(3) == 0 {
				v.Set(reflect.New(v.Type().Elem()))
			}
			return
		}
		if rnd.Intn(6) == 0 {
			v.SetZero()
			return
		}
		change(rnd, v.Elem())
	case reflect.Struct:
		switch at := v.Addr().Interface().(type) {
		case *metav1.Time:
			*at = metav1.NewTime(at.In(time.FixedZone("x", 3600)).Add(time.Duration(rnd.Intn(2)) * time.Second))
			return
		case *resource.Quantity:
			at.Format = resource.BinarySI
			if rnd.Intn(2) == 0 {
				at.Add(resource.MustParse("1"))
			}
			return
		}
		for range 4 { // into a field that has something
			f := v.Field(rnd.Intn(v.NumField()))
			if !f.IsZero() || rnd.Intn(4) == 0 {
				change(rnd, f)
				return
			}
		}
	case reflect.Slice:
		switch {
		case v.Len() == 0 && rnd.Intn(2) == 0:
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case v.Len() == 0:
			v.SetZero()
		case rnd.Intn(8) == 0:
			v.SetLen(v.Len() - 1)
		default:
			change(rnd, v.Index(rnd.Intn(v.Len())))
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.Set(reflect.MakeMap(v.Type()))
			return
		}
		key := v.MapKeys()[rnd.Intn(v.Len())]
		elem := reflect.New(v.Type().Elem()).Elem()
		elem.Set(v.MapIndex(key))
		switch rnd.Intn(4) {
		case 0:
			v.SetMapIndex(key, reflect.Value{})
		case 1:
			v.SetMapIndex(key, reflect.Value{})
			v.SetMapIndex(reflect.ValueOf("x").Convert(key.Type()), elem)
		default:
			change(rnd, elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() ^ 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 1)
	}
}

// TestSemanticEqualKinds: a pod is made of what equalValues knows, so that the
// comparison with its copies is left for nothing but what a new version of the API
// may bring.
func TestSemanticEqualKinds(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		if seen[typ] || typ == timeType || typ == quantityType {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(path, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if !f.IsExported() {
					t.Errorf("%s.%s is not exported", path, f.Name)
				}
				walk(path+"."+f.Name, f.Type)
			}
		case reflect.Map:
			if typ != reflect.TypeFor[map[string]string]() && typ != reflect.TypeFor[corev1.ResourceList]() {
				t.Errorf("%s is a %s", path, typ)
			}
		case reflect.String, reflect.Bool, reflect.Uint8, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		default:
			t.Errorf("%s is a %s", path, typ)
		}
	}
	walk("spec", reflect.TypeFor[corev1.PodSpec]())
	walk("status", reflect.TypeFor[corev1.PodStatus]())
	if len(seen) < 100 {
		t.Errorf("only %d types", len(seen))
	}
}
