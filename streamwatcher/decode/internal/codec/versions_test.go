package codec

import (
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

// mutate changes one field of obj, at some depth, to that of another random object.
func mutate(r *rand.Rand, fill *randfill.Filler, obj any) {
	other := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	fill.Fill(other)
	to, from := reflect.ValueOf(obj).Elem(), reflect.ValueOf(other).Elem()
	for depth := 0; ; depth++ {
		if to.Kind() == reflect.Slice && to.Len() > 0 && from.Len() > 0 && r.Intn(3) > 0 {
			to, from = to.Index(r.Intn(to.Len())), from.Index(0)
			continue
		}
		if to.Kind() != reflect.Struct || to.NumField() == 0 || depth > 1 && r.Intn(3) == 0 {
			break
		}
		i := r.Intn(to.NumField())
		if f := to.Type().Field(i); !f.IsExported() || f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			break // nothing changes: that is a version, too
		}
		to, from = to.Field(i), from.Field(i)
	}
	if to.CanSet() && to.Kind() != reflect.Struct {
		to.Set(from)
	}
}

// withoutManaged is theirs without the managed fields.
func withoutManaged(theirs func(raw []byte) (any, error)) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		v, err := theirs(raw)
		if o, ok := v.(metav1.Object); ok {
			o.SetManagedFields(nil)
		}
		return v, err
	}
}

// Whatever happens to an object, its next version is what apimachinery makes of the bytes;
// and what came before stays as it was.
func TestVersionsAreEqual(t *testing.T) { testVersions(t, 4, 8) }

// testVersions goes through one of every so many types.
func testVersions(t *testing.T, seed int64, every int) {
	t.Helper()
	r := rand.New(rand.NewSource(seed))
	var count [verdicts]int
	taken := 0
	for i, typ := range allTypes() {
		if i%every != 0 && typ != reflect.TypeFor[corev1.Pod]() && typ != reflect.TypeFor[corev1.Node]() {
			continue // each takes its time
		}
		cfg := Config{Share: 256, Intern: 64}
		if _, ok := reflect.New(typ).Interface().(metav1.Object); ok && i%8 == 0 {
			cfg.Drop = []string{"metadata.managedFields"}
		}
		if i%3 == 0 {
			cfg.Share = 0
		}
		p := mustCompile(t, typ, cfg)
		for _, form := range forms {
			fill := filler(seed * int64(i+1))
			theirs := full(form.theirs(typ))
			if cfg.Drop != nil {
				theirs = withoutManaged(theirs)
			}
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			var last version
			var kept, asTheyWere []any
			for range 8 {
				raw, err := form.encode(obj)
				if err != nil { // a RawExtension with no JSON in it
					obj = reflect.New(typ).Interface()
					continue
				}
				want, err := theirs(raw)
				if err != nil {
					t.Fatal(typ, err)
				}
				v, err := form.next(p, raw, last)
				if err != nil {
					t.Fatal(typ, form.name, err)
				}
				same(t, form.name+" "+typ.String(), want, v.object(p))
				for _, part := range v.parts {
					for _, before := range last.parts {
						if part == before {
							taken++
						}
					}
				}
				// Damaged, with and without a version before; and the fields in two places.
				for k := range 6 {
					b := damage(r, raw)
					if k == 0 {
						b = append(append([]byte{}, raw...), raw...)
					}
					verdict := agree(t, b, func(raw []byte) (any, error) {
						v, err := form.next(p, raw, v)
						if err != nil {
							return nil, err
						}
						return v.object(p), nil
					}, theirs)
					count[verdict]++
					if verdict == onlyTheirs && form.name == "json" {
						t.Errorf("%v: refused only by ours", typ)
					}
				}
				kept, asTheyWere, last = append(kept, v.object(p)), append(asTheyWere, want), v
				mutate(r, fill, obj)
			}
			for j := range kept {
				same(t, "kept "+typ.String(), asTheyWere[j], kept[j])
			}
		}
	}
	t.Logf("equal %d, both refuse %d, only ours %d, only theirs %d; %d parts were taken", count[equal], count[bothRefuse], count[onlyOurs], count[onlyTheirs], taken)
	if count[equal] < 500 || count[bothRefuse] < 500 || count[onlyOurs] > count[equal]/50 || taken < 500 {
		t.Error("these figures say nothing")
	}
}
