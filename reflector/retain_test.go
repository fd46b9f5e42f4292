package reflector

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// graveyard is a store of things, indexed by their values, that keeps what is deleted.
func graveyard(keep Retain) *Store[*thing] {
	s := NewStore(Index[*thing]{Name: "value", Values: func(o *thing) []string { return o.values }})
	s.retain(keep)
	return s
}

// put stores "name/uid@rv" under the given values.
func putThing(s *Store[*thing], text string, values ...string) {
	o := newThing(text)
	o.values = values
	s.testUpsert(o.meta(), o)
}

// found describes a tombstone: the object, "?" for a final state that is unknown.
func found(t Tombstone[*thing], ok bool) string {
	if !ok {
		return "none"
	}
	text := t.Object.String()
	if t.FinalStateUnknown {
		text += "?"
	}
	if t.Key.Name != t.Object.name || string(t.UID) != t.Object.uid {
		text += fmt.Sprintf(" BUT it says %v %s", t.Key, t.UID)
	}
	return text
}

// all describes the kept ones, the oldest first.
func (s *Store[T]) kept(describe func(Tombstone[T], bool) string) string {
	var all []string
	for t := range s.Tombstones().All() {
		all = append(all, describe(t, true))
	}
	return strings.Join(all, " ")
}

func TestRetain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := graveyard(Retain{For: time.Minute})
		tombs := s.Tombstones()
		want := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		by := func(value string) string {
			var all []string
			for one := range tombs.By("value", value) {
				all = append(all, found(one, true))
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		putThing(s, "web/u1@1", "x", "y")
		putThing(s, "db/u2@1", "x")
		want("while it lives", found(tombs.Get("ns", "web")), "none")

		began := time.Now()
		time.Sleep(time.Second)
		removeThing(s, "web/u1@5")
		want("by name", found(tombs.Get("ns", "web")), "web/u1@5")
		want("by UID", found(tombs.ByUID("u1")), "web/u1@5")
		want("by value", by("x")+by("y"), "web/u1@5web/u1@5")
		want("the other", found(tombs.Get("ns", "db")), "none")
		if one, _ := tombs.ByUID("u1"); one.DeletedAt != began.Add(time.Second) {
			t.Errorf("deleted at %v", one.DeletedAt)
		}

		// Another one of that name lives, and ends as well: by a list.
		time.Sleep(9 * time.Second)
		putThing(s, "web/u3@6", "y")
		want("its successor lives", found(tombs.Get("ns", "web")), "web/u1@5")
		list(s, "9", "db/u2@1")
		want("the last of the name", found(tombs.Get("ns", "web")), "web/u3@6?")
		want("the first, by UID", found(tombs.ByUID("u1")), "web/u1@5")
		want("both, by value", by("y"), "web/u1@5 web/u3@6?")
		want("all", s.kept(found), "web/u1@5 web/u3@6?")

		// One that comes back under its UID is not both.
		putThing(s, "web/u3@10", "y")
		want("back", found(tombs.ByUID("u3")), "none")
		want("back, by name", found(tombs.Get("ns", "web")), "web/u1@5")
		want("back, by value", by("y"), "web/u1@5")
		// Another UID under the name ends it.
		putThing(s, "web/u4@11")
		want("replaced", found(tombs.ByUID("u3")), "web/u3@10?")

		// Each is kept for a minute, and not longer.
		time.Sleep(51*time.Second - time.Nanosecond)
		want("a moment before", found(tombs.ByUID("u1")), "web/u1@5")
		time.Sleep(time.Nanosecond)
		want("over", found(tombs.ByUID("u1"))+by("x"), "none")
		want("the other one", s.kept(found), "web/u3@10?")

		if p := panicOf(func() { tombs.By("nothing", "x") }); !strings.Contains(fmt.Sprint(p), `no index "nothing"`) {
			t.Errorf("By of no index: %v", p)
		}
		s.end()
	})
}

// "Nothing is kept by default", nor without a UID.
func TestRetainNothing(t *testing.T) {
	for _, keep := range []Retain{{}, {For: time.Hour}} {
		s := graveyard(keep)
		o := &thing{name: "a", rv: "1"} // no UID
		s.testUpsert(o.meta(), o)
		s.testRemove(o.meta(), o, true)
		if keep.For == 0 {
			putThing(s, "b/u1@1")
			removeThing(s, "b/u1@2")
		}
		if got := s.kept(found) + found(s.Tombstones().Get("ns", "a")) + found(s.Tombstones().ByUID("")); got != "nonenone" {
			t.Errorf("%+v keeps %s", keep, got)
		}
		s.end()
	}
}

// "At most so many": 10,000 objects come and go. What is over leaves nothing in maps and indexes.
func TestRetainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 50
		s := graveyard(Retain{For: time.Hour, Max: most})
		cycle := func(i int) {
			text := fmt.Sprintf("p%d/u%d@%d", i%70, i, i)
			putThing(s, text, fmt.Sprint("v", i%7), "all")
			removeThing(s, text)
			if n := s.deliveryStats().retained; n > most {
				t.Fatalf("%d are kept", n)
			}
		}
		for i := range 10_000 {
			cycle(i)
		}
		if n := s.tombstones.byUID.len(); n != most {
			t.Errorf("%d by UID, want %d", n, most)
		}
		if n := len(slices.Collect(s.Tombstones().By("value", "all"))); n != most {
			t.Errorf("%d by value, want %d", n, most)
		}
		if got, _ := s.Tombstones().Get("ns", "p59"); got.Object == nil || got.Object.rv != "9999" {
			t.Errorf("the last one is %v", got.Object)
		}
		if got := found(s.Tombstones().ByUID("u9949")) + found(s.Tombstones().ByUID("u9950")); got != "none"+"p10/u9950@9950" {
			t.Errorf("the oldest is not where it should be: %s", got)
		}
		s.end()
	})
}

// "A quiet cluster" does not keep them for ever: the memory goes when they are over, with no change of the
// collection, no look-up and no goroutine.
func TestRetainLetsGoInAQuietCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := graveyard(Retain{For: time.Minute})
		goroutines := runtime.NumGoroutine()
		for i := range 100 {
			putThing(s, fmt.Sprintf("p%d/u%d@1", i, i), "x")
		}
		for i := range 100 {
			removeThing(s, fmt.Sprintf("p%d/u%d@2", i, i))
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.deliveryStats().retained; n != 100 {
			t.Fatalf("%d are kept, want 100", n)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines, %d before", n, goroutines)
		}
		time.Sleep(time.Minute + time.Minute/16) // after the last deletion
		s.mu.RLock()                             // a timer was there
		if all := s.tombstones; all.len() != 0 || all.byUID.len() != 0 || all.byKey.len() != 0 || all.byIndex[0].len() != 0 {
			t.Errorf("%d are kept, %d by UID, %d by name, %d by value", all.len(), all.byUID.len(), all.byKey.len(), all.byIndex[0].len())
		}
		s.mu.RUnlock()
		// And again, until the reflector ends.
		putThing(s, "q/u@1")
		removeThing(s, "q/u@2")
		s.end()
		time.Sleep(2 * time.Minute)
		if got := found(s.Tombstones().ByUID("u")); got != "none" || s.tombstones.len() != 1 {
			t.Errorf("%s is found, %d are kept; nothing has to run after the end", got, s.tombstones.len())
		}
	})
}

// What an object at rest has for its next version is not kept of one that will have none.
func TestRetainKeepsNoParts(t *testing.T) {
	dec, err := decode.New[*metav1.PartialObjectMetadata]()
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(`{"metadata":{"name":"a","uid":"u1","resourceVersion":"1","annotations":{"note":"` + strings.Repeat("x", 1000) + `"}}}`)
	obj, parts, err := dec.(decode.Sharer[labelled]).DecodeShared(decode.JSON, raw, nil, decode.Parts{})
	if err != nil || parts == (decode.Parts{}) {
		t.Fatalf("the specimen has no parts: %v", err)
	}
	m := decode.Meta{Name: "a", UID: "u1", ResourceVersion: "1"}
	for _, seen := range []bool{true, false} {
		s := NewStore[labelled]()
		s.retain(Retain{For: time.Hour})
		c := content[labelled]{obj: obj, parts: parts}
		s.upsert(nil, &m, c)
		if seen {
			s.remove(s.find(m.Key()), &m, c, true)
		} else {
			s.beginReplace().commit("2", false)
		}
		b := s.tombstones.byAge.First().Value
		if one, _ := s.Tombstones().ByUID("u1"); one.Object != obj || b.parts != (decode.Parts{}) {
			t.Errorf("its delete was seen: %t; it is %v with parts %v", seen, one.Object, b.parts)
		}
		s.end()
	}
}

// A compact store keeps bytes of the deleted, too.
func TestRetainCompact(t *testing.T) {
	keep := kept(t, ObjectsCompact)
	s := NewStore[*thing]()
	s.retain(Retain{For: time.Hour})
	o := newThing("a/u1@1")
	s.upsert(nil, metaOf(o), keep(o))
	end := newThing("a/u1@2")
	s.remove(s.find(o.meta().Key()), metaOf(end), keep(end), true)
	one, ok := s.Tombstones().ByUID("u1")
	if got := found(one, ok); got != "a/u1@2" {
		t.Errorf("found %s", got)
	}
	if two, _ := s.Tombstones().ByUID("u1"); two.Object == one.Object || s.tombstones.byAge.First().Value.obj != nil {
		t.Error("the object is kept, not its bytes")
	}
	s.end()
}

func TestRetainValidate(t *testing.T) {
	for _, tc := range []struct {
		keep Retain
		want string
	}{
		{Retain{}, ""},
		{Retain{For: time.Hour}, ""},
		{Retain{For: time.Hour, Max: 5}, ""},
		{Retain{For: -1}, "Config.Retain.For is -1ns: use a positive time"},
		{Retain{For: 1, Max: -1}, "Config.Retain.Max is -1: use a positive number of objects, or 0 for 1000"},
		{Retain{Max: 5}, "Config.Retain.Max is 5 and For is 0: set For"},
	} {
		_, err := New(Config[*thing]{ListerWatcher: named[*thing]{}, Retain: tc.keep})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: %v, want %q", tc.keep, err, tc.want)
		}
	}
}

// labelled is an object of which all there is is its metadata.
type labelled = *metav1.PartialObjectMetadata

func TestSelectAndByUID(t *testing.T) {
	s := NewStore(ByUID[labelled]())
	for i, text := range []string{"a/web/app=x", "a/db/app=y", "b/web/app=x", "b/bare/"} {
		part := strings.Split(text, "/")
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: part[0], Name: part[1], UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: "1"}}
		if k, v, ok := strings.Cut(part[2], "="); ok {
			o.Labels = map[string]string{k: v}
		}
		s.testUpsert(decode.Meta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}, o)
	}
	for _, tc := range []struct{ namespace, selector, want string }{
		{"", "", "a/db a/web b/bare b/web"},
		{"a", "", "a/db a/web"},
		{"", "app=x", "a/web b/web"},
		{"b", "app=x", "b/web"},
		{"b", "!app", "b/bare"},
		{"c", "", ""},
	} {
		var selector labels.Selector
		if tc.selector != "" {
			var err error
			if selector, err = labels.Parse(tc.selector); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for k, o := range s.Select(tc.namespace, selector) {
			if k.Name != o.Name {
				t.Errorf("%s under %v", o.Name, k)
			}
			got = append(got, k.String())
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("namespace %q, selector %q: %s, want %s", tc.namespace, tc.selector, text, tc.want)
		}
	}
	for range s.Select("", nil) {
		break
	}
	if got := namesBy(s, "uid", "u2"); got != "web" {
		t.Errorf("by UID: %s", got)
	}
	// Objects that have no labels at all match what nothing is asked of.
	things := NewStore[*thing]()
	upsertThing(things, "a/u1@1")
	n := 0
	for range things.Select("ns", labels.Everything()) {
		n++
	}
	for range things.Select("ns", labels.SelectorFromSet(labels.Set{"app": "x"})) {
		n += 10
	}
	if n != 1 {
		t.Errorf("things without labels: %d, want to be found once, by the selector of everything", n)
	}
}
