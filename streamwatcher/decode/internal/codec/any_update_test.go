package codec

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// tree is a random value, of which parts are long enough to be remembered.
func tree(r *rand.Rand, depth int) any {
	switch n := r.Intn(9); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.Intn(6) {
			m[someName(r)] = tree(r, depth-1)
		}
		return m
	case n < 5 && depth > 0:
		l := []any{}
		for range r.Intn(4) {
			l = append(l, tree(r, depth-1))
		}
		return l
	case n == 5:
		return int64(r.Intn(1000))
	case n == 6:
		return []any{nil, true, false, 1.5, int64(-1), "", "\u2028\n\"é"}[r.Intn(7)]
	}
	return strings.Repeat(someName(r), 1+r.Intn(5))
}

func someName(r *rand.Rand) string {
	return []string{"metadata", "status", "spec", "labels", "a", "b", "name-with-a-length", "é", "k\n", ""}[r.Intn(10)]
}

// change returns a version of v with something changed, which shares with v what is not.
func change(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		next := map[string]any{}
		for k, e := range v {
			next[k] = e
		}
		for k := range v {
			switch r.Intn(4) {
			case 0:
				next[k] = change(r, v[k])
				return next
			case 1:
				if r.Intn(6) == 0 {
					delete(next, k)
				}
			}
		}
		next[someName(r)] = tree(r, 2)
		return next
	case []any:
		next := append([]any{}, v...)
		if len(next) == 0 || r.Intn(4) == 0 {
			return append(next, tree(r, 1))
		}
		i := r.Intn(len(next))
		next[i] = change(r, next[i])
		return next
	}
	return tree(r, 1)
}

// encode is v as a server may write it, and sometimes as none would: with members that stand twice.
func encode(t *testing.T, r *rand.Rand, v map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil && r.Intn(5) == 0 {
		raw, err = json.MarshalIndent(v, "", " ")
	}
	if err != nil {
		t.Fatal(err)
	}
	twice := func(in map[string]any) string {
		k := someName(r)
		other, err := json.Marshal(map[string]any{k: tree(r, 3)})
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := in[k]; ok && r.Intn(2) == 0 { // an equal one before
			other, _ = json.Marshal(map[string]any{k: e})
		}
		return strings.Trim(string(other), "{}") // which may be broken now, for both
	}
	if r.Intn(5) == 0 && len(v) > 0 {
		raw = []byte("{" + twice(v) + "," + string(raw[1:]))
	}
	if m, ok := v["metadata"].(map[string]any); ok && len(m) > 0 && r.Intn(5) == 0 {
		raw = []byte(strings.Replace(string(raw), `"metadata":{`, `"metadata":{`+twice(m)+",", 1))
	}
	return raw
}

// The versions of an object, each read with the one before at hand, are what apimachinery makes of them;
// and those before, which share parts with them, stay as they were.
func TestAnyVersions(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var count [verdicts]int
	for range 60 {
		a := mustAny(t, Config{Share: 32, Intern: 32, Drop: []string{"status.spec", "dropped", "metadata.a.b"}})
		whole := mustAny(t, Config{Drop: []string{"status.spec", "dropped", "metadata.a.b"}})
		v := map[string]any{"metadata": map[string]any{"labels": tree(r, 2)}, "spec": tree(r, 4), "dropped": tree(r, 4), "status": map[string]any{"spec": tree(r, 3), "a": tree(r, 3)}}
		var old map[string]any
		var was Parts
		type version struct{ is, want any }
		var versions []version
		for range 40 {
			raw := encode(t, r, v)
			count[agree(t, raw, func(raw []byte) (any, error) {
				m, parts, err := a.JSONShared(raw, old, was)
				overwrite(raw)
				if err == nil {
					old, was = m, parts
				}
				return m, err
			}, content(whole))]++
			versions = append(versions, version{old, apiruntime.DeepCopyJSON(old)})
			v = change(r, v).(map[string]any)
		}
		for _, v := range versions {
			same(t, "an old version", v.want, v.is)
		}
	}
	if count[equal] < 2000 || count[bothRefuse] < 10 || count[onlyOurs]+count[onlyTheirs] > 0 {
		t.Errorf("counts %v", count)
	}
}

// long is an object that is long enough to be remembered.
func long(s string) string {
	return fmt.Sprintf(`{"x":%q,"y":[%q]}`, s, strings.Repeat("y", minPart))
}

// What the version before had twice, or at another place, or what another decoder remembers, is not taken for what it is not.
func TestAnyVersionsThatMislead(t *testing.T) {
	a, b := long("a"), long("b")
	for _, pair := range [][2]string{
		{`{"spec":` + a + `,"spec":` + b + `}`, `{"spec":` + a + `}`},
		{`{"spec":` + a + `,"spec":1}`, `{"spec":` + a + `}`},
		{`{"metadata":{"l":` + a + `,"l":` + b + `}}`, `{"metadata":{"l":` + a + `}}`},
		{`{"metadata":{"l":` + a + `},"metadata":{"l":` + b + `}}`, `{"metadata":{"l":` + a + `}}`},
		{`{"metadata":{"l":` + a + `},"metadata":null}`, `{"metadata":{"l":` + a + `}}`},
		{`{"metadata":{"l":` + a + `},"status":{"l":` + b + `}}`, `{"metadata":{"l":` + b + `},"status":{"l":` + a + `}}`},
		{`{"spec":` + a + `,"status":{"spec":` + b + `}}`, `{"spec":` + b + `,"status":{"spec":` + a + `}}`},
		{`{"spec":` + a + `}`, `{"spec":` + a + `,"spec":` + b + `}`},
		{`{"spec":` + a + `}`, `{"spec":` + b + `,"spec":` + a + `}`},
		{`{"spec":` + a + `}`, `{"spec":` + a[:len(a)-1] + `,"z":1}}`},
		{`{"spec":` + a + `}`, `{"spec":` + strings.Replace(a, `"a"`, `"c"`, 1) + `}`},
		{`{"spec":` + a + `}`, `{"spec":` + a + `x}`},
		{`{"spec":` + a + `}`, `{"spec":` + a},
		{`{"metadata":` + a + `}`, `{"metadata":[` + a + `]}`},
		{`{"metadata":[` + a + `]}`, `{"metadata":` + a + `}`},
		{`{"metadata":[` + a + `]}`, `{"metadata":[` + a + `]}`},
	} {
		for _, share := range []int{0, 64} {
			reader, other := mustAny(t, Config{Share: share}), mustAny(t, Config{Share: share})
			var old map[string]any
			var was Parts
			for _, text := range []string{pair[0], pair[0], pair[1], pair[0], pair[1]} {
				v := agree(t, []byte(text), func(raw []byte) (any, error) {
					m, parts, err := reader.JSONShared(raw, old, was)
					overwrite(raw)
					if err == nil {
						old, was = m, parts
					}
					return m, err
				}, sigsContent)
				if v > bothRefuse {
					t.Errorf("verdict %d on %s after %s", v, text, pair[0])
				}
				agree(t, []byte(text), func(raw []byte) (any, error) {
					m, _, err := other.JSONShared(raw, map[string]any{"spec": "another's", "metadata": map[string]any{"l": "another's"}}, was)
					return m, err
				}, sigsContent)
			}
		}
	}
}

// pointer returns where a map or a slice stands.
func pointer(v any) uintptr { return reflect.ValueOf(v).Pointer() }

// What did not change is the version before's, what is equal is there once, and what came once is not kept.
// There are so many places that no two values fall on one.
func TestAnyPartsAreShared(t *testing.T) {
	a := mustAny(t, Config{Share: 1 << 18})
	read := func(text string, old map[string]any, was Parts) (map[string]any, Parts) {
		m, parts, err := a.JSONShared([]byte(text), old, was)
		if err != nil {
			t.Fatal(err)
		}
		return m, parts
	}
	at := func(m map[string]any, path string) any {
		var v any = m
		for _, name := range strings.Split(path, ".") {
			v = v.(map[string]any)[name]
		}
		return v
	}
	text := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"n":%d,"labels":{"app":"web","tier":"x"}},"spec":{"n":%d,"unique":%q,"ports":[{"port":80}]},"status":{"m":%d,"conditions":[%q]}}`,
			n, n/10, strings.Repeat("u", 80)+fmt.Sprint(n/10), n, strings.Repeat("c", 80)+fmt.Sprint(n/10))
	}
	one, was := read(text(10), nil, nil)
	two, _ := read(text(20), nil, nil)
	three, _ := read(text(30), nil, nil)
	if pointer(at(two, "metadata.labels")) != pointer(at(three, "metadata.labels")) || pointer(at(two, "spec.ports")) != pointer(at(three, "spec.ports")) {
		t.Error("what is equal is not shared")
	}
	if pointer(at(one, "metadata.labels")) == pointer(at(three, "metadata.labels")) {
		t.Error("what came first is shared, which should wait for the second")
	}
	next, nextWas := read(text(11), one, was)
	if pointer(at(next, "spec")) != pointer(at(one, "spec")) || pointer(at(next, "status.conditions")) != pointer(at(one, "status.conditions")) {
		t.Error("what did not change is not the version before's")
	}
	if len(was) == 0 || !reflect.DeepEqual(was, nextWas) {
		t.Errorf("parts %v, then %v", was, nextWas)
	}
	one, _ = read(`{"spec":{"e":{},"long":[{}]}}`, nil, nil)
	if pointer(at(one, "spec.e")) != pointer(at(one, "spec.long").([]any)[0]) {
		t.Error("there are two objects without members")
	}
	// Without a table, and of what is dropped.
	a = mustAny(t, Config{Drop: []string{"spec"}})
	one, was = read(text(10), nil, nil)
	next, nextWas = read(text(11), one, was)
	if pointer(at(next, "status.conditions")) != pointer(at(one, "status.conditions")) || len(was) != 2 || !reflect.DeepEqual(was, nextWas) || next["spec"] != nil {
		t.Errorf("%v\nparts %v, then %v", next, was, nextWas)
	}
}

// A version keeps nothing alive of those before it but what it has in common with them: here each has another
// large string, and with it comes one member of ten.
func TestAnyVersionsKeepNothing(t *testing.T) {
	text := func(version int) []byte {
		b := fmt.Appendf(nil, `{"large":%q`, strings.Repeat(fmt.Sprint(version%10), 100_000))
		for member := range 10 {
			b = fmt.Appendf(b, `,"m%d":{"text":%q}`, member, strings.Repeat("x", minPart)+fmt.Sprint((version+member)/10))
		}
		return append(b, '}')
	}
	a := mustAny(t, Config{Share: 64})
	var before, after runtime.MemStats
	var m map[string]any
	var was Parts
	for version := range 100 {
		var err error
		if m, was, err = a.JSONShared(text(version), m, was); err != nil {
			t.Fatal(err)
		}
	}
	if len(was) != 10 {
		t.Errorf("%d parts", len(was))
	}
	runtime.GC()
	runtime.GC() // the second forgets the tape
	runtime.ReadMemStats(&before)
	runtime.KeepAlive(m)
	m = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(a)
	if size := int64(before.HeapAlloc) - int64(after.HeapAlloc); size < 100_000 || size > 150_000 {
		t.Errorf("an object with a string of 100,000 bytes takes %d", size)
	}
}

// One Any for several goroutines, with all that they share.
func TestGoroutinesShareAnAny(t *testing.T) {
	a := mustAny(t, Config{Share: 32, Intern: 32})
	pods := versions(t, specimen.Pods(8))
	var want [2][]any
	for i := range pods {
		for _, raw := range pods[i] {
			m, err := sigsContent(raw)
			if err != nil {
				t.Fatal(err)
			}
			want[i] = append(want[i], m)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var old map[string]any
			var was Parts
			for i := range 60 {
				k := (i/2 + g) % 8
				m, parts, err := a.JSONShared(pods[i%2][k], old, was)
				if err != nil || !reflect.DeepEqual(want[i%2][k], any(m)) {
					t.Errorf("shared: %v", err)
				}
				old, was = m, parts
				if m, err = a.JSON(pods[i%2][k]); err != nil || !reflect.DeepEqual(want[i%2][k], any(m)) {
					t.Errorf("private: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
