package shard

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// selectorOf is the selector of what any of ranges has.
func selectorOf(f Field, ranges ...Range) Selector { return Selector{f, ranges} }

// theirs is s as the server has it once it is parsed.
func theirs(s Selector) sharding.Selector {
	var requirements []sharding.ShardRangeRequirement
	for _, r := range s.ranges {
		requirements = append(requirements, sharding.ShardRangeRequirement{
			Key: s.field.String(), Start: fmt.Sprintf("0x%016x", r.First), End: bound(r.Last)})
	}
	return sharding.NewSelector(requirements...)
}

// TestMatchesAsTheServer: "It decides as the API server does."
func TestMatchesAsTheServer(t *testing.T) {
	selectors := []Selector{
		{},
		selectorOf(UID, Range{0, math.MaxUint64}),
		selectorOf(UID, Range{0, math.MaxUint64 / 2}),
		selectorOf(UID, Range{math.MaxUint64 / 2, math.MaxUint64}),
		selectorOf(Namespace, Range{0, 1 << 62}, Range{3 << 62, math.MaxUint64}),
		selectorOf(UID, Range{fnv1a("exactly"), fnv1a("exactly")}),
		selectorOf(UID, Range{0, fnv1a("exactly") - 1}, Range{fnv1a("exactly") + 1, math.MaxUint64}),
	}
	uids := []types.UID{"", "exactly"}
	for range 300 {
		uids = append(uids, uuid.NewUUID())
	}
	for _, s := range selectors {
		want := theirs(s)
		if s.String() != want.String() || s.Empty() != want.Empty() {
			t.Errorf("the text is %q, the server's %q", s, want)
		}
		matched := 0
		for _, uid := range uids {
			namespace := string(uuid.NewUUID()) // names that differ at their end only hash to nearly the same
			ok, err := want.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace}})
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				matched++
			}
			if got := s.Matches(uid, namespace); got != ok {
				t.Errorf("%s: %q in %q is %t, on the server %t", s, uid, namespace, got, ok)
			}
		}
		if matched == 0 {
			t.Errorf("%s matches none of %d", s, len(uids))
		}
	}
}

func TestSame(t *testing.T) {
	const half = 1 << 63
	low, high, all := Range{0, half - 1}, Range{half, math.MaxUint64}, Range{0, math.MaxUint64}
	for _, c := range []struct {
		a, b Selector
		same bool
	}{
		{Selector{}, Selector{}, true},
		{selectorOf(UID, low, high), selectorOf(UID, all), true},
		{selectorOf(UID, high, low), selectorOf(UID, low, high), true},
		{selectorOf(UID, all, low), selectorOf(UID, all), true},
		{selectorOf(UID, low, Range{5, 7}), selectorOf(UID, low), true},
		{selectorOf(UID, low), selectorOf(UID, high), false},
		{selectorOf(UID, low), selectorOf(Namespace, low), false},
		{selectorOf(UID, low), selectorOf(UID, Range{0, half}), false},
		{selectorOf(UID, low), selectorOf(UID, low, Range{half + 1, half + 1}), false},
		// It says that it is narrowed, so it is not the same as one that says nothing.
		{selectorOf(UID, all), Selector{}, false},
	} {
		if c.a.Same(c.b) != c.same || c.b.Same(c.a) != c.same {
			t.Errorf("%q and %q: want %t", c.a, c.b, c.same)
		}
	}
}

func TestParse(t *testing.T) {
	first, third := Shard{Index: 0, Count: 3}.Selector(), Shard{Index: 2, Count: 3}.Selector()
	both := selectorOf(UID, first.ranges[0], third.ranges[0])
	for _, c := range []struct {
		text string
		want Selector
	}{
		{first.String(), first},
		{third.String(), third},
		{both.String(), both},
		{first.String() + "||" + third.String(), both},
		{"\n((" + first.String() + "))// why\n || (" + third.String() + ") ", both},
		{strings.ReplaceAll(first.String(), "'", `"`), first},
		{strings.ReplaceAll(first.String(), "'", "'''"), first},
		{strings.ReplaceAll(first.String(), "object.metadata.uid", "(object . metadata) .uid"), first},
		{"anything." + first.String(), first}, // the server does not look at it either
		{Shard{Index: 1, Count: 2, By: Namespace}.Selector().String(), Shard{Index: 1, Count: 2, By: Namespace}.Selector()},
		{"shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')", selectorOf(UID, Range{0, math.MaxUint64})},
	} {
		got, err := Parse(c.text)
		if err != nil || got.String() != c.want.String() {
			t.Errorf("%q is %q (%v), want %q", c.text, got, err, c.want)
		}
	}
}

// The words are those of kube-apiserver 1.37 (test/e2e has its answers).
func TestParseRefuses(t *testing.T) {
	const low, high = "'0x0000000000000000'", "'0x8000000000000000'"
	call := func(args ...string) string { return "shardRange(" + strings.Join(args, ", ") + ")" }
	uid := "object.metadata.uid"
	for _, c := range []struct{ text, says string }{
		{" ", "empty shard selector is not allowed"},
		{call(uid, low, high) + "||" + call("object.metadata.namespace", low, high), `must use the same field, got "object.metadata.uid" and "object.metadata.namespace"`},
		{call("object.metadata.name", low, high), `unsupported field path "object.metadata.name"`},
		{call("metadata.uid", low, high), `unsupported field path "metadata.uid"`},
		{call(".object.metadata.uid", low, high), `unsupported field path ".object.metadata.uid"`},
		{call("'uid'", low, high), "first argument: expected field path (e.g. object.metadata.uid), got expression kind 5"},
		{call(uid, "'0x0'", high), `did you mean "0x0000000000000000"?`},
		{call(uid, low, "'0xABCDEF0000000000'"), `hexEnd: invalid hex character "A"`},
		{call(uid, "'0000000000000000'", high), "hexStart must have '0x' prefix"},
		{call(uid, "'0x'", high), "hexStart: hex value is required after '0x'"},
		{call(uid, high, high), "shard range start 0x8000000000000000 must be less than end 0x8000000000000000"},
		{call(uid, "'0x10000000000000000'", high), "must be less than end"},
		{call(uid, low, "'0x10000000000000001'"), "17-digit hex value must be '0x10000000000000000' (2^64)"},
		{call(uid, low, "'0x100000000000000000'"), "hex value too long (18 chars, max 17)"},
		{call(uid, "0", "1"), "hexStart must be a string literal, got int64"},
		{call(uid, "true", "null"), "hexStart must be a string literal, got bool"},
		{"namespace", "CEL parse error: reserved word"},
		{call(uid, low, uid), "hexEnd must be a string literal (e.g. '0xff'), got expression kind 7"},
		{call(uid, low), "shardRange() requires exactly 3 arguments, got 2"},
		{"foo(" + uid + ")", `unsupported function "foo"`},
		{"." + call(uid, low, high), `unsupported function ".shardRange"`},
		{call(uid, low, high) + " && " + call(uid, low, high), `unsupported function "_&&_"`},
		{"object", "unexpected expression kind 3; expected shardRange() call or || operator"},
		{"((", "CEL parse error"},
		{call(uid, low, high) + ")", "CEL parse error"},
		{call(uid, low, high) + "\x00", "CEL parse error"},
		{call(uid, low, "'0x8"), "CEL parse error"},
		{call(uid, low, `'0x800000000000000\x30'`), "CEL parse error: string with an escape"},
		{call(uid, low, high) + " ||", "CEL parse error"},
		{call(uid, low+",", high), "CEL parse error"},
		{strings.Repeat("(", 300) + call(uid, low, high) + strings.Repeat(")", 300), "CEL parse error: too many brackets"},
	} {
		s, err := Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q is %q, error %v; it should say %q", c.text, s, err, c.says)
		}
	}
}

// An echo comes from a server and may be long: four times the text must not take sixteen times the work.
func TestParseOfALongPath(t *testing.T) {
	cost := func(links int) uint64 {
		text := "shardRange(a" + strings.Repeat(".a", links) + ", '', '')"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "unsupported field path") {
			t.Fatalf("error is %v", err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if one, four := cost(4_000), cost(16_000); four > 8*one {
		t.Errorf("4,000 names take %d bytes, 16,000 take %d", one, four)
	}
}

// FuzzParse: what is understood is understood again in its canonical form, and
// selects the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		Shard{Index: 0, Count: 3}.Selector().String(),
		Shard{Index: 2, Count: 3, By: Namespace}.Selector().String(),
		"x.shardRange((object).metadata.uid,'0x0000000000000000',r\"0x10000000000000000\")||(shardRange(object.metadata.uid,'''0x0000000000000000''','0x8000000000000000'))//",
		"shardRange(object.metadata.uid, 0, 1)", "a && b || 'c'", "((", "'''", "r'\\'", "1234567890123456789",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if !s.Empty() {
				t.Errorf("an error, and a selector: %q", s)
			}
			return
		}
		if s.Empty() {
			t.Fatalf("%q selects all", text)
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() || !again.Same(s) {
			t.Fatalf("%q is %q, and that %q (%v)", text, s, again, err)
		}
		for _, uid := range []types.UID{"", "a", "5b59e3c0-3765-4b97-8aa9-bbb1f857a77d"} {
			ok, err := theirs(s).Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns"}})
			if err != nil || ok != s.Matches(uid, "ns") {
				t.Errorf("%s of %q: apimachinery says %t, %v", s, uid, ok, err)
			}
		}
	})
}
