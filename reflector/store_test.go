package reflector

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// thing is an object of the tests of store and events. It knows its identity,
// so that what comes out can be held against what went in.
type thing struct {
	name, uid, rv string
	values        []string // for an index
	ballast       []byte
}

func (o *thing) meta() decode.Meta {
	return decode.Meta{Namespace: "ns", Name: o.name, UID: types.UID(o.uid), ResourceVersion: o.rv}
}

func metaOf(o *thing) *decode.Meta {
	m := o.meta()
	return &m
}

func (o *thing) String() string { return o.name + "/" + o.uid + "@" + o.rv }

// newThing reads "name/uid@rv".
func newThing(s string) *thing {
	name, rest, _ := strings.Cut(s, "/")
	uid, rv, _ := strings.Cut(rest, "@")
	return &thing{name: name, uid: uid, rv: rv}
}

func upsertThing(s *Store[*thing], text string) outcome {
	o := newThing(text)
	return s.testUpsert(o.meta(), o)
}

func removeThing(s *Store[*thing], text string) outcome {
	o := newThing(text)
	return s.testRemove(o.meta(), o, true)
}

// contents is the store as text, sorted.
func contents(s *Store[*thing]) string {
	var all []string
	for k, o := range s.All() {
		if k.Namespace != "ns" || k.Name != o.name {
			all = append(all, fmt.Sprintf("%v under the key %v", o, k))
			continue
		}
		all = append(all, o.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// describe is an event as text: the type, the object, "<" and the old version,
// "?" for a final state that is unknown.
func describe(ev Event[*thing]) string {
	if ev.Type == Synced {
		return "SYNCED@" + ev.ResourceVersion
	}
	s := ev.Type.String() + " " + ev.Object.String()
	if ev.Old != nil {
		s += "<" + ev.Old.rv
	}
	if ev.FinalStateUnknown {
		s += "?"
	}
	if ev.Key.Name != ev.Object.name || string(ev.UID) != ev.Object.uid || ev.ResourceVersion != ev.Object.rv {
		s += fmt.Sprintf(" BUT event says %v %s@%s", ev.Key, ev.UID, ev.ResourceVersion)
	}
	return s
}

// drain reads what is pending, without waiting.
func drain(m *mailbox[*thing]) []string {
	var got []string
	for {
		ev, ok, _ := m.popEvent()
		if !ok {
			return got
		}
		got = append(got, describe(ev))
	}
}

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events:\n got %s\nwant %s", strings.Join(got, "; "), strings.Join(want, "; "))
	}
}

func wantContents(t *testing.T, s *Store[*thing], want string) {
	t.Helper()
	if got := contents(s); got != want {
		t.Errorf("store has %q, want %q", got, want)
	}
}

func TestUpsertAndRemove(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stored string // "" is none
		do     func(*Store[*thing], string) outcome
		event  string
		want   outcome
		left   string
		events []string
	}{
		{"new", "", upsertThing, "a/u1@5", applied, "a/u1@5", []string{"ADDED a/u1@5"}},
		{"newer", "a/u1@5", upsertThing, "a/u1@10", applied, "a/u1@10", []string{"MODIFIED a/u1@10<5"}},
		{"the same again", "a/u1@5", upsertThing, "a/u1@5", duplicate, "a/u1@5", nil},
		{"older", "a/u1@10", upsertThing, "a/u1@9", stale, "a/u1@10", nil},
		{"not a number is news", "a/u1@10", upsertThing, "a/u1@x", applied, "a/u1@x", []string{"MODIFIED a/u1@x<10"}},
		{"another UID with no DELETED before", "a/u1@5", upsertThing, "a/u2@7", applied, "a/u2@7",
			[]string{"DELETED a/u1@5?", "ADDED a/u2@7"}},
		{"delete brings a newer final state", "a/u1@10", removeThing, "a/u1@12", applied, "", []string{"DELETED a/u1@12"}},
		{"delete at the stored version", "a/u1@10", removeThing, "a/u1@10", applied, "", []string{"DELETED a/u1@10"}},
		{"delete of nothing", "", removeThing, "a/u1@10", ignored, "", nil},
		{"late delete of the object before", "a/u2@10", removeThing, "a/u1@11", stale, "a/u2@10", nil},
		{"delete that is older", "a/u1@10", removeThing, "a/u1@9", stale, "a/u1@10", nil},
		{"delete of an undecodable version", "a/u1@10", func(s *Store[*thing], text string) outcome {
			return s.testRemove(newThing(text).meta(), nil, false)
		}, "a/u1@12", applied, "", []string{"DELETED a/u1@10?"}},
		{"delete without UID", "a/u1@10", func(s *Store[*thing], text string) outcome {
			m := newThing(text).meta()
			m.UID = ""
			return s.testRemove(m, newThing(text), true)
		}, "a/u1@12", applied, "", []string{"DELETED a/u1@12"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewStore[*thing]()
			if tc.stored != "" {
				upsertThing(s, tc.stored)
			}
			m := s.testSubscribe(10)
			drain(m)
			if got := tc.do(s, tc.event); got != tc.want {
				t.Errorf("outcome %d, want %d", got, tc.want)
			}
			wantContents(t, s, tc.left)
			wantEvents(t, drain(m), tc.events...)
		})
	}
}

func TestFindAndGet(t *testing.T) {
	s := NewStore[*thing]()
	upsertThing(s, "a/u1@5")
	if e := s.find(decode.Key{Namespace: "ns", Name: "a"}); e == nil || e.uid != "u1" || e.rv != "5" {
		t.Errorf("found %+v under a", e)
	}
	if e := s.find(decode.Key{Namespace: "other", Name: "a"}); e != nil {
		t.Errorf("found %+v under the name in another namespace", e)
	}
	if o, ok := s.Get("ns", "a"); !ok || o.rv != "5" {
		t.Errorf("Get(ns, a) = %v, %t", o, ok)
	}
	if o, ok := s.Get("", "a"); ok || o != nil {
		t.Errorf("Get without the namespace = %v, %t", o, ok)
	}
	if s.Len() != 1 {
		t.Errorf("Len is %d, want 1", s.Len())
	}
}

// "None of them is held up by a consumer: no lock is held while a consumer's
// code runs": the loop's bodies write to the store, which would block for ever.
func TestRangesAreSnapshotsWithoutALock(t *testing.T) {
	s := NewStore(Index[*thing]{Name: "all", Values: func(*thing) []string { return []string{"x"} }})
	for i := range 5 {
		upsertThing(s, fmt.Sprintf("a%d/u%d@%d", i, i, i+1))
	}
	for _, all := range []func(func(decode.Key, *thing) bool){s.All(), s.By("all", "x")} {
		n := 0
		for k, o := range all {
			n++
			removeThing(s, o.String())
			upsertThing(s, fmt.Sprintf("%s/%s@%s0", k.Name, o.uid, o.rv))
			upsertThing(s, fmt.Sprintf("late%d/x@1", n))
			removeThing(s, fmt.Sprintf("late%d/x@1", n))
		}
		if n != 5 {
			t.Errorf("a range saw %d objects, want the 5 that were there when it began", n)
		}
	}
	for range s.All() {
		break // an early break must be possible
	}
}

func TestConcurrentReaders(t *testing.T) {
	s := NewStore(Index[*thing]{Name: "v", Values: func(o *thing) []string { return []string{o.rv} }})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for k, o := range s.All() {
					if k.Name != o.name {
						t.Errorf("%v is stored under %v", o, k)
					}
				}
				for _, o := range s.By("v", "7") {
					if o.rv != "7" {
						t.Errorf("%v is found under 7", o)
					}
				}
				s.Get("ns", "a3")
				s.Len()
				s.deliveryStats()
			}
		})
	}
	for round := range 50 {
		r := s.beginReplace()
		for i := range 20 {
			o := newThing(fmt.Sprintf("a%d/u@%d", i, round+1))
			if !r.testUnchanged(o.meta()) {
				r.testPut(o.meta(), o)
			}
		}
		r.commit(fmt.Sprint(round+1), false)
		removeThing(s, fmt.Sprintf("a1/u@%d", round+1))
	}
	close(stop)
	wg.Wait()
}

func TestNewStoreRefusesBadIndexes(t *testing.T) {
	values := func(*thing) []string { return nil }
	for want, indexes := range map[string][]Index[*thing]{
		"reflector: index 0 of a store has no name":              {{Values: values}},
		`reflector: index "a" of a store has no Values function`: {{Name: "a"}},
		`reflector: a store has two indexes called "a"`:          {{Name: "a", Values: values}, {Name: "a", Values: values}},
	} {
		if got := panicOf(func() { NewStore(indexes...) }); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
}

func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// "When a Values function of an index panics, the store is as it was."
func TestPanickingIndexLeavesTheStoreAsItWas(t *testing.T) {
	s := NewStore(Index[*thing]{Name: "v", Values: func(o *thing) []string {
		if o.rv == "13" {
			panic("thirteen")
		}
		return []string{"x"}
	}})
	upsertThing(s, "a/u1@5")
	if p := panicOf(func() { upsertThing(s, "a/u1@13") }); p != "thirteen" {
		t.Fatalf("panic %v, want the index's", p)
	}
	wantContents(t, s, "a/u1@5")
	if got := upsertThing(s, "a/u1@14"); got != applied {
		t.Errorf("the next event: outcome %d, want applied", got)
	}
	if n := len(maps.Collect(s.By("v", "x"))); n != 1 {
		t.Errorf("%d objects under x, want 1", n)
	}

	// In a list it panics in put, never in commit.
	r := s.beginReplace()
	for _, text := range []string{"a/u1@13", "b/u2@13"} {
		if p := panicOf(func() { r.testPut(newThing(text).meta(), newThing(text)) }); p != "thirteen" {
			t.Errorf("put of %s: panic %v, want the index's", text, p)
		}
	}
	r.retain(metaOf(newThing("a/u1@14")))
	if got := r.commit("20", true); got != (replaceResult{}) {
		t.Errorf("result %+v, want nothing done", got)
	}
	wantContents(t, s, "a/u1@14")
}

func TestClaimIsForOne(t *testing.T) {
	s := NewStore[*thing]()
	if !s.claim() {
		t.Error("the first claim was refused")
	}
	if s.claim() {
		t.Error("a second writer was let in")
	}
}

// "Keys and index values are copies."
func TestStringsAreCopies(t *testing.T) {
	buffer := "name-uid-17-value"
	o := &thing{name: buffer[0:4], uid: buffer[5:8], rv: buffer[9:11], values: []string{buffer[12:]}}
	s := NewStore(Index[*thing]{Name: "v", Values: func(o *thing) []string { return o.values }})
	m := o.meta()
	m.Namespace = buffer[0:2]
	s.testUpsert(m, o)
	e := s.find(m.Key())
	bucket := slices.Collect(maps.Keys(s.byIndex[0].m))[0]
	in := func(part string) bool {
		p, from := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(buffer)))
		return p >= from && p < from+uintptr(len(buffer))
	}
	for _, part := range []string{e.key.Namespace, e.key.Name, string(e.uid), e.rv, bucket} {
		if in(part) {
			t.Errorf("%q is a part of the buffer that it came in", part)
		}
	}
}

// "No object that stays keeps a response, a page or a deleted neighbour alive,
// and the maps shrink when the collection does": 10,000 objects listed, 9,999
// deleted.
func TestHeapFallsWithTheCollection(t *testing.T) {
	const n = 10_000
	s := NewStore(
		Index[*thing]{Name: "own", Values: func(o *thing) []string { return []string{o.name} }},
		Index[*thing]{Name: "one", Values: func(o *thing) []string { return []string{"all"} }},
	)
	before := heap()
	r := s.beginReplace()
	for i := range n {
		o := &thing{name: fmt.Sprintf("pod-%05d", i), uid: fmt.Sprint("uid-", i), rv: fmt.Sprint(i + 1), ballast: make([]byte, 1024)}
		r.testPut(o.meta(), o)
	}
	r.commit("20000", false)
	full := heap() - before
	for i := range n - 1 {
		if got := removeThing(s, fmt.Sprintf("pod-%05d/uid-%d@%d", i, i, i+1+n)); got != applied {
			t.Fatalf("delete %d: outcome %d", i, got)
		}
	}
	left := heap() - before
	t.Logf("heap: %d objects %d bytes, 1 object %d bytes", n, full, left)
	if full < n*1024 || left > full/200 {
		t.Errorf("the heap fell from %d to %d bytes, want a small constant", full, left)
	}
	wantLen := 1
	if s.Len() != wantLen || len(s.byIndex[0].m) != wantLen {
		t.Errorf("%d objects, %d index values left, want %d", s.Len(), len(s.byIndex[0].m), wantLen)
	}
	runtime.KeepAlive(s)
}

// heap is what is reachable, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var st runtime.MemStats
	runtime.ReadMemStats(&st)
	return int64(st.HeapAlloc)
}
