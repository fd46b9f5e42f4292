package codec

import (
	"encoding/json"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/internal/testkit"
)

func mustAny(t testing.TB, cfg Config) *Any {
	t.Helper()
	a, err := NewAny(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// content decodes raw by a and then overwrites it.
func content(a *Any) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		raw = append([]byte(nil), raw...)
		m, err := a.JSON(raw)
		overwrite(raw)
		return m, err
	}
}

// shared is content of an object that shares parts with others.
func shared(a *Any) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		raw = append([]byte(nil), raw...)
		m, _, err := a.JSONShared(raw, nil, nil)
		overwrite(raw)
		return m, err
	}
}

// sigsContent is what apimachinery makes of an object without a Go type.
func sigsContent(raw []byte) (any, error) {
	var m map[string]any
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &m)
	return m, err
}

// isObject tells whether raw is to be an object of a collection, which to encoding/json a null can be.
func isObject(raw []byte) bool { return byteAt(raw, space(raw, 0)) == '{' }

// anyValues are numbers and strings on the borders of what an interface can hold, beside the values for all kinds.
var anyValues = append([]string{
	`-0.0`, `0.0`, `1.0`, `-1.0e0`, `1e0`, `1E5`, `1e-7`, `123456789012345678`, `9007199254740993`, `9007199254740993.0`, `-9223372036854775807`,
	`18446744073709551615.5`, `1e308`, `1e309`, `-1e309`, `1e-400`, `4.9e-324`, `0.1e1`, `00`, `-01`, `0x1`, `1e+`, `1e5.5`, `--1`, `1-`, `254`, `256`,
	strings.Repeat("9", 400), `0.` + strings.Repeat("3", 400), `-` + strings.Repeat("9", 19), strings.Repeat("1", 20),
	`"` + strings.Repeat("x", 200) + `"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\u0000"`, "\"\xc3\"", "\"\xc3\xa9\xff\"", "\"\u2028\"", "\"\x7f\"", "\"\x1f\"",
	`[[],{},[[]],{"":{}}]`, `[1,"a",null,true,false,1.5,{"a":[]}]`, `{"":""}`, `{"":{"":""}}`, `{"a":1,"a":{"b":2},"a":[3]}`, "{\"\xff\":1,\"\\ufffd\":2}", `{"\u0061":1,"a":2}`,
	"[1\n,\t2 ,\r3 ]", "{ \"a\"\n:\t1 ,\r\"b\" : 2 }", `[1,,2]`, `[1]]`, `{"a":1,,"b":2}`, `{"a" 1}`, `{1:2}`, `{"a":1 "b":2}`, `[true false]`, `nullx`, `[nul]`, `tRue`, "\xef\xbb\xbf1", "\x00",
}, values...)

// Each value at each place is what sigs.k8s.io/json makes of it, or refused by both.
func TestAnyValues(t *testing.T) {
	decoders := map[string]func([]byte) (any, error){
		"private": content(mustAny(t, Config{})), "interned": content(mustAny(t, Config{Intern: 64})), "shared": shared(mustAny(t, Config{Share: 64})),
	}
	var count [verdicts]int
	for _, v := range anyValues {
		for _, text := range []string{
			`{"x":` + v + `}`, ` {"x" : ` + v + ` , "y":1} `, `{"a":{"metadata":` + v + `}}`, `{"metadata":{"x":` + v + `},"status":` + v + `}`,
			`{"l":[` + v + `]}`, `{"l":[` + v + `,` + v + `]}`, `{"x":1,"x":` + v + `}`, `{"x":` + v + `,"x":{"a":2}}`, `{"x":` + v + `,"x":` + v + `}`,
			`{"x":[{"k":` + v + `},{"k":` + v + `}]}`, v, v + v, `{` + v + `:1}`, `{"x":` + v, `{"x":` + v + `}}`,
		} {
			for name, ours := range decoders {
				for range 3 { // the first, the second and the third time that it is seen
					verdict := agree(t, []byte(text), ours, sigsContent)
					count[verdict]++
					if verdict > bothRefuse && isObject([]byte(text)) {
						t.Errorf("%s: verdict %d on %s", name, verdict, text)
					}
				}
			}
		}
	}
	if count[equal] < 3000 || count[bothRefuse] < 3000 {
		t.Errorf("counts %v", count)
	}
	for name, ours := range decoders {
		got, err := ours([]byte(`{"a":-0.0,"b":-0}`)) // reflect.DeepEqual does not see the sign
		if err != nil || !math.Signbit(got.(map[string]any)["a"].(float64)) || got.(map[string]any)["b"] != int64(0) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Objects of all types that client-go knows.
func TestAnyOfAllTypes(t *testing.T) {
	for i, typ := range allTypes() {
		private, common := content(mustAny(t, Config{})), shared(mustAny(t, Config{Share: 256}))
		fill := filler(int64(i))
		obj := reflect.New(typ).Interface()
		fill.Fill(obj)
		raw, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(typ, err)
		}
		if v := agree(t, raw, private, sigsContent); v != equal {
			t.Errorf("%v: verdict %d", typ, v)
		}
		for range 2 {
			if v := agree(t, raw, common, sigsContent); v != equal {
				t.Errorf("%v shared: verdict %d", typ, v)
			}
		}
	}
}

func TestAnyDocuments(t *testing.T) {
	ours := content(mustAny(t, Config{}))
	for _, text := range []string{``, ` `, `{`, `}`, `{}}`, `{}{}`, `{} `, "\n{}\n", `{}x`, `{"s":"a"`, `{"s"`, `{"s":`, `{"s":"a",}`, `{,}`, `{"a":1}null`, "{}\x00",
		`{"x":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`, `{"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
		strings.Repeat(`{"b":`, 9999) + `{}` + strings.Repeat("}", 9999), strings.Repeat(`{"b":`, 10000) + `{}` + strings.Repeat("}", 10000),
		strings.Repeat(`{"b":[`, 5001), `{"x":` + strings.Repeat("[", 100_000),
	} {
		if v := agree(t, []byte(text), ours, sigsContent); v > bothRefuse {
			t.Errorf("verdict %d on %.100s", v, text)
		}
	}
	for _, text := range []string{`null`, `[]`, `1`, `"x"`, `true`, ` [{}]`} {
		if got, err := ours([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// A value that is known is not a way around the limit of the depth.
func TestAnyDepthOfKnownValues(t *testing.T) {
	ours := shared(mustAny(t, Config{Share: 16384}))
	inner := `"known":` + strings.Repeat("[", 1000) + `"x"` + strings.Repeat("]", 1000)
	for range 3 {
		if _, err := ours([]byte(`{` + inner + `}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, levels := range []int{5000, 8000, 8999, 9000, 9500} {
		text := strings.Repeat(`{"b":`, levels-1) + `{` + inner + `}` + strings.Repeat("}", levels-1)
		if v := agree(t, []byte(text), ours, sigsContent); v > bothRefuse {
			t.Errorf("%d levels and 1000: verdict %d", levels, v)
		}
	}
}

// What is read without sharing has its own maps and slices, also of what came before.
func TestAnyIsPrivate(t *testing.T) {
	a := mustAny(t, Config{Intern: 64, Share: 64})
	text := []byte(`{"m":{"e":{},"k":"value"},"l":[{"a":"b"},[],[1,2]],"n":1234567}`)
	want, _ := sigsContent(text)
	for range 3 {
		if _, _, err := a.JSONShared(text, nil, nil); err != nil {
			t.Fatal(err)
		}
		got, err := a.JSON(text)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "content", want, any(got))
		for _, m := range []any{got["m"], got["m"].(map[string]any)["e"], got["l"].([]any)[0]} {
			m.(map[string]any)["written"] = "by its owner"
		}
		got["l"].([]any)[1] = append(got["l"].([]any)[1].([]any), "x")
		got["l"].([]any)[2].([]any)[0] = "x"
	}
}

// Paths are dropped wherever they stand, arrays are gone through, and a map's key can have dots.
func TestAnyDrop(t *testing.T) {
	const text = `{"metadata":{"name":"n","managedFields":[{"a":"]}"}],"annotations":{"a.b/c":"x","keep":"y"},"labels":7},
		"spec":{"template":{"spec":{"containers":[{"name":"c","env":[1]},{"env":null,"name":"d"},[{"env":2}],"env"]}},"env":"stays"},"status":{"x":1},"esc\u0061ped":1,"":{"x":1,"y":2}}`
	const want = `{"metadata":{"name":"n","annotations":{"keep":"y"},"labels":7},
		"spec":{"template":{"spec":{"containers":[{"name":"c"},{"name":"d"},[{}],"env"]}},"env":"stays"},"":{"y":2}}`
	a := mustAny(t, Config{Share: 64, Drop: []string{"metadata.managedFields", "metadata.annotations[a.b/c]", "metadata.labels.x", "metadata.name[x]",
		"spec.template.spec.containers.env", "status", "escaped", "nothing.of.this", "nothing"}})
	blank := mustAny(t, Config{Drop: []string{"metadata.managedFields", "metadata[managedFields]", "x[x]"}})
	theirs, err := sigsContent([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	theirs.(map[string]any)[""] = map[string]any{"x": int64(1), "y": int64(2)} // a path has no empty name
	for range 3 {
		got, err := content(a)([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "dropped", theirs, got)
		if got, err = shared(a)([]byte(text)); err != nil {
			t.Fatal(err)
		}
		same(t, "dropped, shared", theirs, got)
	}
	if got, err := content(blank)([]byte(`{"metadata":{"managedFields":{}},"x":{"x":1,"y":{"x":2}},"y":{"x":3}}`)); err != nil {
		t.Error(err)
	} else {
		same(t, "keys", any(map[string]any{"metadata": map[string]any{}, "x": map[string]any{"y": map[string]any{"x": int64(2)}}, "y": map[string]any{"x": int64(3)}}), got)
	}
	// What is dropped has to end where it seems to, and is looked at no further.
	for text, ok := range map[string]bool{`{"status":[1 2]}`: true, `{"status":trux}`: false, `{"status":{"a":[}}`: false, `{"status":"`: false, `{"status"}`: false, `{"status":}`: false, `{"status":1,}`: false} {
		if got, err := content(a)([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for path, want := range map[string]string{"": "a name is missing", "a..b": "a name is missing", "a.": "a name is missing", "[x]": "a name is missing", "a[x": "in brackets", "a[x].y": "in brackets"} {
		if _, err := NewAny(Config{Drop: []string{"status", path}}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"`+path+`"`) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// What is allocated is in proportion to what is read, whatever that is.
func TestAnyAllocatesInProportion(t *testing.T) {
	const limit, tables = 96, 256 << 10 // times what is read, and what the table of parts takes
	for name, unit := range map[string]string{
		"objects": `{}`, "arrays": `[]`, "arrays in arrays": `[[[[]]]]`, "members": `{"a":1}`, "known member": `{"a":{"a":{}}}`, "no name": `{"":0}`, "numbers": `1`, "large numbers": `256`, "floats": `1.5`, "floats, short": `1e1`,
		"strings": `""`, "escapes": `"\n"`, "names": `{"a":"b","c":"d","e":"f","g":"h","i":"j","k":"l","m":"n","o":"p","q":"r"}`, "null": `null`, "bad UTF-8": "\"\xff\"",
	} {
		text := []byte(`{"l":[` + strings.TrimSuffix(strings.Repeat(unit+",", 10_000), ",") + `]}`)
		for _, a := range []*Any{mustAny(t, Config{}), mustAny(t, Config{Share: 1024, Intern: 1024})} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := a.JSON(text)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > limit*uint64(len(text))+tables {
				t.Errorf("%s: %d bytes for %d (%v)", name, took, len(text), err)
			}
			sink = m
			runtime.ReadMemStats(&before)
			m, _, err = a.JSONShared(text, nil, nil)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > limit*uint64(len(text))+tables {
				t.Errorf("%s shared: %d bytes for %d (%v)", name, took, len(text), err)
			}
			sink = m
		}
	}
}

// Against apimachinery, an object of one's own takes less than half of the allocations, one that shares
// what came before and an update a small part.
func TestAnyAllocations(t *testing.T) {
	pods := versions(t, specimen.Pods(40))
	a := mustAny(t, Config{Share: 16384})
	old, was := make([]map[string]any, 40), make([]Parts, 40)
	for round := range 4 {
		for k, raw := range pods[round%2] {
			var err error
			if old[k], was[k], err = a.JSONShared(raw, old[k], was[k]); err != nil {
				t.Fatal(err)
			}
		}
	}
	const k = 7
	theirs := testkit.Allocations(func() { sink, _, _ = unstructured.UnstructuredJSONScheme.Decode(pods[0][k], nil, nil) })
	for _, c := range []struct {
		name string
		most float64
		f    func()
	}{
		{"private", theirs * .45, func() { sink, _ = a.JSON(pods[0][k]) }},
		{"shared", theirs * .05, func() { sink, _, _ = a.JSONShared(pods[0][k], nil, nil) }},
		{"update", theirs * .04, func() { sink, _, _ = a.JSONShared(pods[0][k], old[k], was[k]) }},
	} {
		if n := testkit.Allocations(c.f); n > c.most || n < 1 {
			t.Errorf("%s: %.0f allocations, apimachinery makes %.0f", c.name, n, theirs)
		}
	}
}

// A large object does not leave its tape behind for small ones.
func TestAnyForgets(t *testing.T) {
	a := mustAny(t, Config{})
	d, err := a.tape([]byte(`{"l":[` + strings.Repeat(`"a",1234,1.5,`, keepTokens) + `null]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.document(nil); err != nil {
		t.Fatal(err)
	}
	d.clear()
	if cap(d.tokens)+cap(d.numbers)+cap(d.floats) > 0 || d.reader != a {
		t.Errorf("%d tokens are kept", cap(d.tokens))
	}
	if _, err := NewAny(Config{Drop: []string{"a["}}); err == nil {
		t.Error("no error")
	}
}

// Damaged content is refused where apimachinery refuses it, and otherwise what that makes of it, also as an update
// of what it was before the damage.
func TestDamagedAny(t *testing.T) {
	count := damaged(t, 3, func(_ reflect.Type, obj any) ([]byte, func([]byte) (any, error), func([]byte) (any, error)) {
		raw, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		a := mustAny(t, Config{Share: 64, Intern: 64})
		before, parts, err := a.JSONShared(raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return raw, func(raw []byte) (any, error) {
			own, err := content(a)(raw)
			update, _, errOfUpdate := a.JSONShared(raw, before, parts)
			if (err == nil) != (errOfUpdate == nil) || !reflect.DeepEqual(own, any(update)) {
				t.Fatalf("%v, and as an update %v, of\n%s", err, errOfUpdate, raw)
			}
			return own, err
		}, sigsContent
	})
	if count[onlyTheirs]+count[onlyOurs] > 0 {
		t.Errorf("%d inputs are refused by ours alone, %d accepted", count[onlyTheirs], count[onlyOurs])
	}
}

// Packed content is without what is dropped, and decodes to the same.
func TestAnyPack(t *testing.T) {
	a := mustAny(t, Config{Drop: []string{"metadata.managedFields", "l.x", "status"}})
	for text, want := range map[string]string{
		`{}`: `{}`, ` { "metadata" : { } } `: `{"metadata" : {}}`,
		`{"metadata":{"managedFields":[1],"name":"n"},"spec":{"status":1}}`:          `{"metadata":{"name":"n"},"spec":{"status":1}}`,
		`{"metadata":{"name":"n", "managedFields":[1]},"status":{}}`:                 `{"metadata":{"name":"n"}}`,
		`{"status":1, "metadata": {"managedFields":{"a":"]}"}} , "s" : "\u00e9\"" }`: `{"metadata": {},"s" : "\u00e9\""}`,
		`{"l":[{"x":1},{"y":[2] , "x":3},[{"x":{}}],"x"]}`:                           `{"l":[{},{"y":[2]},[{}],"x"]}`,
		`{"\u006c":[{"x":1}],"l":null}`:                                              `{"\u006c":[{}],"l":null}`,
	} {
		got, err := a.Pack([]byte(text))
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{``, `null`, `[]`, `{`, `{}x`, `{"a"}`, `{"a":1`, `{"a":1,}`, `{"metadata":{"a":1]}`, `{"l":[1}`, `{"l":` + strings.Repeat("[", 10_001), `{"status":"`} {
		if got, err := a.Pack([]byte(text)); err == nil {
			t.Errorf("%.50s: %s", text, got)
		}
	}
	if got, err := mustAny(t, Config{}).Pack([]byte(`{"a" : [1 2]}`)); err != nil || got != `{"a" : [1 2]}` {
		t.Errorf("nothing is dropped: %s, %v", got, err)
	}
}
