package codec

import (
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// recorded returns what a real API server sent, by the ending of the file.
func recorded(t testing.TB, ending string) (raws [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "wire", "*"+ending))
	if err != nil || len(names) < 2 {
		t.Fatalf("%d files end with %s, %v", len(names), ending, err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, raw)
	}
	return raws
}

// FuzzProtobuf: what both accept is the same, and there is no panic.
func FuzzProtobuf(f *testing.F) {
	programs := make([]*Program, len(damagedTypes))
	for i, typ := range damagedTypes {
		programs[i] = mustCompile(f, typ, Config{})
		fill := filler(int64(i))
		for range 3 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			if raw, err := obj.(protoObject).Marshal(); err == nil && len(raw) < 4000 {
				f.Add(uint8(i), raw)
			}
		}
	}
	for _, raw := range recorded(f, ".pb") {
		f.Add(uint8(0), raw) // a Pod
	}
	f.Fuzz(func(t *testing.T, i uint8, raw []byte) {
		p := programs[int(i)%len(programs)]
		agree(t, raw, func(raw []byte) (any, error) { return protobuf(p, raw) }, gogo(p.typ.Go))
	})
}

// FuzzJSON: what both accept is the same, what apimachinery accepts is accepted,
// and there is no panic.
func FuzzJSON(f *testing.F) {
	types := append([]reflect.Type{reflect.TypeFor[odd]()}, damagedTypes...)
	programs := make([]*Program, len(types))
	for i, typ := range types {
		programs[i] = mustCompile(f, typ, Config{})
		if i == 0 {
			continue
		}
		fill := filler(int64(i))
		for range 3 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			if raw, err := json.Marshal(obj); err == nil && len(raw) < 4000 {
				f.Add(uint8(i), raw)
			}
		}
	}
	for _, raw := range recorded(f, ".json") {
		f.Add(uint8(1), raw) // a Pod
	}
	for _, v := range values {
		f.Add(uint8(0), []byte(`{"any":`+v+`,"in":`+v+`,"ins":`+v+`,"s":`+v+`,"q":`+v+`}`))
	}
	f.Fuzz(func(t *testing.T, i uint8, raw []byte) {
		p := programs[int(i)%len(programs)]
		v := agree(t, raw, func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(p.typ.Go))
		if v == onlyTheirs && !known(raw) {
			_, err := fromJSON(p, raw)
			t.Fatalf("refused: %v", err)
		}
	})
}

// FuzzAny: content without a Go type is what apimachinery makes of it, read by each way, and refused where
// that refuses it. The second text is a version of the first.
func FuzzAny(f *testing.F) {
	for i, v := range anyValues {
		w := anyValues[(i*7+3)%len(anyValues)]
		f.Add([]byte(`{"metadata":{"a":`+v+`},"x":`+w+`}`), []byte(`{"metadata":{"a":`+v+`,"b":`+v+`},"x":`+v+`,"x":`+w+`}`))
	}
	for i, typ := range damagedTypes {
		fill := filler(int64(i))
		var texts [2][]byte
		for k := range texts {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			texts[k], _ = json.Marshal(obj)
		}
		if len(texts[0])+len(texts[1]) < 8000 {
			f.Add(texts[0], texts[1])
		}
	}
	pods := recorded(f, ".json")
	for i := range pods {
		f.Add(pods[i], pods[(i+1)%len(pods)])
	}
	a := mustAny(f, Config{Share: 256, Intern: 256})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var old map[string]any
		var was Parts
		for _, raw := range [][]byte{one, two, one, two, two} {
			for name, ours := range map[string]func([]byte) (any, error){
				"private": content(a),
				"shared": func(raw []byte) (any, error) {
					raw = append([]byte(nil), raw...)
					m, parts, err := a.JSONShared(raw, old, was)
					overwrite(raw)
					if err == nil {
						old, was = m, parts
					}
					return m, err
				},
			} {
				if v := agree(t, raw, ours, sigsContent); v > bothRefuse && isObject(raw) {
					t.Fatalf("%s: verdict %d", name, v)
				}
			}
		}
	})
}

// FuzzAnyDrop: content without what is dropped is what it would be if that had not been sent, decoded as it
// came and packed before.
func FuzzAnyDrop(f *testing.F) {
	for i, path := range []string{"a", "a.b", "metadata.managedFields", "a[b.c]", "a.", "metadata", "l.a", "x"} {
		for k, v := range anyValues {
			if k%8 == i {
				f.Add(path, []byte(`{"a":`+v+`,"metadata":{"managedFields":`+v+`,"a":1},"l":[`+v+`],"x":1,"a":{"b":`+v+`,"c":{"b":2},"b.c":3}}`))
			}
		}
	}
	made := map[string]*Any{} // each has tables
	f.Fuzz(func(t *testing.T, path string, raw []byte) {
		a := made[path]
		if a == nil {
			var err error
			if a, err = NewAny(Config{Drop: []string{path}}); err != nil {
				return
			}
			if len(made) < 64 {
				made[path] = a
			}
		}
		want, err := sigsContent(raw)
		if err != nil || !isObject(raw) {
			return // what is dropped is not looked at closely
		}
		names, _ := splitPath(path)
		names[len(names)-1] = strings.TrimPrefix(names[len(names)-1], "[")
		without(want, names)
		got, err := content(a)(raw)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "dropped", want, got)
		packed, err := a.Pack(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err = content(a)([]byte(packed)); err != nil {
			t.Fatal(err)
		}
		same(t, "packed", want, got)
		if len(packed) > len(raw) {
			t.Fatalf("%d bytes packed to %d", len(raw), len(packed))
		}
	})
}

// without takes what names say out of v.
func without(v any, names []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			without(e, names)
		}
	case map[string]any:
		if len(names) == 1 {
			delete(v, names[0])
		} else {
			without(v[names[0]], names[1:])
		}
	}
}

// known tells whether raw can be one of the inputs that apimachinery accepts and
// this package does not: no object at all, or bytes as an array of numbers within a map.
func known(raw []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return true
	}
	for _, bytesMap := range []string{"mb", "data", "binaryData"} {
		if _, ok := members[bytesMap]; ok {
			return true
		}
	}
	return false
}

// FuzzVersions: what both accept is the same, whatever the version before was, which stays as it was.
func FuzzVersions(f *testing.F) {
	programs := make([]*Program, len(damagedTypes))
	for i, typ := range damagedTypes {
		programs[i] = mustCompile(f, typ, Config{Share: 64, Intern: 16, Drop: []string{"metadata.managedFields"}})
		fill := filler(int64(i))
		r := rand.New(rand.NewSource(int64(i)))
		for range 3 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			for k, form := range forms {
				first, err := form.encode(obj)
				if err != nil || len(first) > 4000 {
					continue
				}
				mutate(r, fill, obj)
				if second, err := form.encode(obj); err == nil {
					f.Add(uint8(i), k == 1, first, second)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, isJSON bool, first, second []byte) {
		p, form := programs[int(i)%len(programs)], forms[0]
		if isJSON {
			form = forms[1]
		}
		theirs := withoutManaged(full(form.theirs(p.typ.Go)))
		old, err := form.next(p, first, version{})
		if err != nil {
			old = version{}
		}
		agree(t, second, func(raw []byte) (any, error) {
			v, err := form.next(p, raw, old)
			if err != nil {
				return nil, err
			}
			return v.object(p), nil
		}, theirs)
		if want, err := theirs(first); err == nil && !old.at.IsNil() {
			same(t, "the version before", want, old.object(p))
		}
	})
}
