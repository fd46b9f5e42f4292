package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// Types as those of custom resources, with methods of their own.
type (
	// anyJSON is apiextensions' JSON: it keeps its bytes.
	anyJSON struct{ Raw []byte }
	// byValue reads itself by a method that a map or a pointer has, too.
	flags map[string]bool
	// text reads itself from a string, and is a key of maps.
	upper string
	// level is a number by its name.
	level uint8
	// Mixin is embedded, Base by pointer.
	Mixin struct {
		Name  string          `json:"name"`
		Extra json.RawMessage `json:"extra"`
		Deep
	}
	Deep struct {
		Kind string
		Spec *Deep `json:"spec"`
	}
	Base     struct{ UID types.UID }
	bytes8   [8]uint8
	octets   []uint8
	enum     int8
	ratio    float32
	labels   map[string]string
	listOf   []labels
	raws     map[string]json.RawMessage
	indirect struct{ To **int32 }
)

func (j *anyJSON) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	j.Raw = append([]byte(nil), b...)
	return nil
}

func (f *flags) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	*f = flags{}
	for _, name := range names {
		(*f)[name] = true
	}
	return nil
}

func (u *upper) UnmarshalText(b []byte) error {
	*u = upper(strings.ToUpper(string(b)))
	return nil
}

func (l *level) UnmarshalText(b []byte) error {
	for i, name := range []string{"low", "high"} {
		if name == string(b) {
			*l = level(i)
			return nil
		}
	}
	return fmt.Errorf("no level %q", b)
}

// leaves are the types that a random struct is made of, embeddable those that it may embed.
var (
	leaves = []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[ratio](), reflect.TypeFor[enum](),
		reflect.TypeFor[[]byte](), reflect.TypeFor[octets](), reflect.TypeFor[[4]uint8](), reflect.TypeFor[bytes8](), reflect.TypeFor[[2]string](), reflect.TypeFor[any](), reflect.TypeFor[json.Number](),
		reflect.TypeFor[json.RawMessage](), reflect.TypeFor[*json.RawMessage](), reflect.TypeFor[raws](), reflect.TypeFor[anyJSON](), reflect.TypeFor[*anyJSON](), reflect.TypeFor[map[string]anyJSON](),
		reflect.TypeFor[flags](), reflect.TypeFor[upper](), reflect.TypeFor[level](), reflect.TypeFor[map[upper]int](), reflect.TypeFor[map[level]string](), reflect.TypeFor[map[int8]string](), reflect.TypeFor[indirect](),
		reflect.TypeFor[labels](), reflect.TypeFor[listOf](), reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any](), reflect.TypeFor[map[string]float32](), reflect.TypeFor[map[types.UID]types.UID](),
		reflect.TypeFor[metav1.Time](), reflect.TypeFor[*metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[*metav1.Duration](),
		reflect.TypeFor[resource.Quantity](), reflect.TypeFor[corev1.ResourceList](), reflect.TypeFor[[2]resource.Quantity](), reflect.TypeFor[map[int8]*resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[*intstr.IntOrString](), reflect.TypeFor[metav1.FieldsV1](),
		reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[*runtime.RawExtension](), reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[*metav1.ObjectMeta](), reflect.TypeFor[metav1.LabelSelector](),
	}
	embeddable = []reflect.Type{reflect.TypeFor[Mixin](), reflect.TypeFor[Deep](), reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[*Base]()}
)

// names are few, so that they meet; JSON has them in other cases, too.
var names = []string{"name", "Name", "kind", "spec", "Spec", "metadata", "uid", "UID", "a", "b", "x-y", "extra", "items"}

// randomType returns a struct of a few fields, of which some are structs again.
func randomType(r *rand.Rand, depth int) reflect.Type {
	var fields []reflect.StructField
	for i := range 1 + r.Intn(7) {
		f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: leaves[r.Intn(len(leaves))]}
		if r.Intn(4) == 0 {
			f.Name = []string{"Name", "Kind", "Spec", "UID"}[r.Intn(4)]
		}
		if depth > 0 && r.Intn(3) == 0 {
			f.Type = randomType(r, depth-1)
		}
		switch r.Intn(8) {
		case 0:
			f.Type = reflect.PointerTo(f.Type)
		case 1:
			f.Type = reflect.SliceOf(f.Type)
		case 2:
			f.Type = reflect.MapOf(reflect.TypeFor[string](), f.Type)
		}
		tag := ""
		switch n := r.Intn(16); {
		case n < 8:
			tag = names[r.Intn(len(names))]
		case n == 8:
			tag = []string{"-", "-,", "a'b", "é", " "}[r.Intn(5)]
		}
		if tag != "-" {
			tag += []string{"", "", ",omitempty", ",inline"}[r.Intn(4)]
			if r.Intn(40) == 0 {
				tag += ",string"
			}
		}
		if r.Intn(3) > 0 {
			f.Tag = reflect.StructTag(fmt.Sprintf(`json:%q`, tag))
		}
		fields = append(fields, f)
	}
	if r.Intn(3) == 0 {
		t := embeddable[r.Intn(len(embeddable))]
		f := reflect.StructField{Name: t.Name(), Type: t, Anonymous: true}
		if t.Kind() == reflect.Pointer {
			f.Name = t.Elem().Name()
		}
		if r.Intn(4) == 0 {
			f.Tag = reflect.StructTag(`json:"` + names[r.Intn(len(names))] + `"`)
		}
		fields = append([]reflect.StructField{f}, fields...) // reflect takes one with methods only there
	}
	seen := map[string]bool{}
	kept := fields[:0]
	for _, f := range fields {
		if !seen[f.Name] {
			seen[f.Name] = true
			kept = append(kept, f)
		}
	}
	return reflect.StructOf(kept)
}

// randomJSON is a value that fits t mostly.
func randomJSON(r *rand.Rand, t reflect.Type, depth int) string {
	switch n := r.Intn(20); {
	case n == 0:
		return `null`
	case n == 1 || depth > 8:
		return values[r.Intn(len(values))]
	}
	list := func(n int, member func() string) string {
		var l []string
		for range r.Intn(n + 1) {
			l = append(l, member())
		}
		return strings.Join(l, []string{",", " , "}[r.Intn(2)])
	}
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return []string{`"2024-02-03T04:05:06Z"`, `"2024-02-03T04:05:06.123456Z"`, `"2024-02-03T04:05:06+01:00"`, `"yesterday"`}[r.Intn(4)]
	case reflect.TypeFor[metav1.Duration]():
		return []string{`"1h3m"`, `"5"`, `"-2ms"`}[r.Intn(3)]
	case reflect.TypeFor[resource.Quantity]():
		return []string{`"5Gi"`, `"100m"`, `1.5`, `"1e3"`, `" 7 "`, `"0"`}[r.Intn(6)]
	case reflect.TypeFor[intstr.IntOrString]():
		return []string{`"http"`, `80`, `"50%"`, `-1`, `4294967296`}[r.Intn(5)]
	case reflect.TypeFor[flags]():
		return `[` + list(3, func() string { return `"f` + fmt.Sprint(r.Intn(4)) + `"` }) + `]`
	case reflect.TypeFor[level]():
		return []string{`"low"`, `"high"`, `"none"`, `1`}[r.Intn(4)]
	case reflect.TypeFor[json.Number]():
		return []string{`1.50`, `"2"`, `"x"`, `-0`}[r.Intn(4)]
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[anyJSON](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[any]():
		return []string{`{"a":[1, {"b":null}]}`, `[1.0,-0,1e2]`, `"\u00e9"`, `12`, `true`, `{ }`}[r.Intn(6)]
	}
	switch t.Kind() {
	case reflect.Pointer:
		return randomJSON(r, t.Elem(), depth+1)
	case reflect.Bool:
		return []string{`true`, `false`, `"true"`}[r.Intn(3)]
	case reflect.String:
		return []string{`"s"`, `""`, `"é\n"`, `"\"quoted\""`, "\"\xff\"", `"1"`}[r.Intn(6)]
	case reflect.Float32, reflect.Float64:
		return []string{`1.5`, `-0.1`, `16777217`, `1e39`, `3.4028235e38`, `"1.5"`, `0.1`}[r.Intn(7)]
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && r.Intn(4) > 0 {
			return `"` + base64.StdEncoding.EncodeToString([]byte("some bytes")[:r.Intn(10)]) + `"`
		}
		return `[` + list(3, func() string { return randomJSON(r, t.Elem(), depth+1) }) + `]`
	case reflect.Array:
		return `[` + list(6, func() string { return randomJSON(r, t.Elem(), depth+1) }) + `]`
	case reflect.Map:
		return `{` + list(3, func() string {
			key := []string{`"a"`, `"b"`, `"7"`, `"low"`, `"\u0061"`, `"300"`}[r.Intn(6)]
			if t.Elem() == reflect.TypeFor[[]byte]() {
				return key + `:` + []string{`"AQID"`, `""`, `null`, `"="`}[r.Intn(4)] // see docs/decoding.md
			}
			return key + `:` + randomJSON(r, t.Elem(), depth+1)
		}) + `}`
	case reflect.Struct:
		fields, err := jsonFields(t)
		if err != nil || len(fields) == 0 {
			return `{"name":"n","UID":"u"}`
		}
		return `{` + list(9, func() string {
			f := fields[r.Intn(len(fields))]
			name := f.name
			switch r.Intn(12) {
			case 0:
				name = strings.ToUpper(name)
			case 1:
				name = names[r.Intn(len(names))]
			}
			quoted, _ := json.Marshal(name)
			value := randomJSON(r, f.typ, depth+1)
			if name != f.name && !json.Valid([]byte(value)) {
				value = `{"not":["known"]}` // of what is not known one cannot ask that it is refused
			}
			if f.quoted && r.Intn(2) == 0 {
				inner, _ := json.Marshal(value)
				value = string(inner)
			}
			return string(quoted) + `:` + value
		}) + `}`
	}
	return fmt.Sprint(r.Intn(400) - 130)
}

// Structs at random, as custom resources may have them, are what sigs.k8s.io/json makes of them; or they are not
// compiled, and left to it.
func TestStructsAtRandom(t *testing.T) {
	var count [verdicts]int
	left := 0
	for seed := range 150 {
		r := rand.New(rand.NewSource(int64(seed)))
		typ := randomType(r, 2)
		p := mustCompile(t, typ, Config{Share: 64})
		if p.JSONErr != nil {
			left++
			continue
		}
		// Each way to read it: by itself, packed before, and as a version of what came before.
		var old layout.Ptr
		var was Parts
		ways := []func(raw []byte) (any, error){
			func(raw []byte) (any, error) { return fromJSON(p, raw) },
			func(raw []byte) (any, error) {
				packed, err := p.PackJSON(raw)
				if err != nil {
					return nil, err
				}
				return fromJSON(p, []byte(packed))
			},
			func(raw []byte) (any, error) {
				raw = bytes.Clone(raw)
				at, parts, err := p.JSONShared(raw, old, was)
				overwrite(raw)
				if err != nil {
					return nil, err
				}
				old, was = at, parts
				return p.typ.Value(at).Interface(), nil
			},
		}
		for i := range 90 {
			raw := []byte(randomJSON(r, typ, 0))
			if !isObject(raw) {
				continue
			}
			theirs := sigs(typ)
			if i%3 == 2 {
				theirs = full(theirs)
			}
			v := agree(t, raw, ways[i%3], theirs)
			count[v]++
			if v > bothRefuse {
				_, ours := fromJSON(p, raw)
				_, theirs := sigs(typ)(raw)
				t.Errorf("verdict %d on %s\nas %v\nours: %v, theirs: %v", v, raw, typ, ours, theirs)
			}
		}
	}
	t.Logf("%d types are left to apimachinery; counts %v", left, count)
	if left > 75 || left < 5 || count[equal] < 3000 || count[bothRefuse] < 1000 {
		t.Errorf("%d types are left to apimachinery; counts %v", left, count)
	}
}

// A struct that has no table does not keep the one around it from having one; there alone can nothing be dropped.
func TestStructsWithoutTableWithin(t *testing.T) {
	type left struct {
		*Base
		Number *int `json:"number,string"`
	}
	type around struct {
		Left  left            `json:"left"`
		Lefts []*left         `json:"lefts"`
		ByKey map[string]left `json:"byKey"`
		Drop  []string        `json:"drop"`
	}
	p := mustCompile(t, reflect.TypeFor[around](), Config{Drop: []string{"drop"}, Share: 64})
	if p.JSONErr != nil {
		t.Fatal(p.JSONErr)
	}
	for _, raw := range []string{
		`{"left":{"UID":"u","number":"7"},"lefts":[{"number":null},null,{"UID":"v"}],"byKey":{"a":{"number":"1"},"b":null}}`,
		`{"left":{"UID":"u"},"left":{"number":"7"},"lefts":[{"UID":"u"}],"lefts":[{"number":"1"},{}]}`,
		`{"left":{"number":7}}`, `{"left":[]}`, `{"left":{"UID":1}}`, `{"lefts":[{"number":"x"}]}`, `{"left":{"x":[1 2]}}`,
	} {
		for range 3 {
			if v := agree(t, []byte(raw), func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(p.typ.Go)); v > bothRefuse {
				t.Errorf("verdict %d on %s", v, raw)
			}
		}
	}
	got, err := fromJSON(p, []byte(`{"left":{"UID":"u"},"drop":["x"]}`))
	if err != nil || got.(*around).Drop != nil || got.(*around).Left.UID != "u" {
		t.Errorf("%+v, %v", got, err)
	}
	for typ, can := range map[reflect.Type]bool{reflect.TypeFor[*int](): true, reflect.TypeFor[named](): true, reflect.TypeFor[bool](): true, reflect.TypeFor[**int](): false, reflect.TypeFor[[]string](): false} {
		if canBeQuoted(typ) != can {
			t.Errorf("the option string for a %v: %v", typ, !can)
		}
	}
	if p := mustCompile(t, reflect.TypeFor[left](), Config{}); p.JSONErr == nil || !strings.Contains(p.JSONErr.Error(), "embeds a pointer") {
		t.Errorf("a struct without a table: %v", p.JSONErr)
	}
	if _, err := Compile(reflect.TypeFor[around](), Config{Drop: []string{"left.number"}}); err == nil || !strings.Contains(err.Error(), "embeds a pointer") {
		t.Errorf("dropped from a struct without a table: %v", err)
	}
}

// FuzzStructs is TestStructsAtRandom with a text that is not made for the type.
func FuzzStructs(f *testing.F) {
	types := map[uint8]*Program{}
	for seed := range 256 {
		r := rand.New(rand.NewSource(int64(seed)))
		typ := randomType(r, 2)
		p := mustCompile(f, typ, Config{})
		if p.JSONErr != nil {
			continue
		}
		types[uint8(seed)] = p
		f.Add(uint8(seed), []byte(randomJSON(r, typ, 0)))
	}
	f.Fuzz(func(t *testing.T, seed uint8, raw []byte) {
		p := types[seed]
		if p == nil {
			return
		}
		v := agree(t, raw, func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(p.typ.Go))
		if v == onlyTheirs && isObject(raw) && !strings.Contains(p.typ.Go.String(), "map[string][]uint8") {
			_, err := fromJSON(p, raw)
			t.Fatalf("refused: %v", err)
		}
	})
}
