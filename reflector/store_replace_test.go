package reflector

import (
	"cmp"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// TestReplace runs scripts of one replacement over a store that has a, b and c.
func TestReplace(t *testing.T) {
	type script struct {
		*Store[*thing]
		r *replacement[*thing]
	}
	put := func(s script, text string) {
		o := newThing(text)
		s.r.testPut(o.meta(), o)
	}
	for _, tc := range []struct {
		name    string
		do      func(s script)
		rewound bool
		rv      string // of the list; "100" where it is empty
		want    replaceResult
		held    int // items kept until commit
		left    string
		events  []string
	}{
		{
			name: "the same again",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@20")
				put(s, "c/u3@30")
			},
			want:   replaceResult{unchanged: 3},
			left:   "a/u1@1 b/u2@20 c/u3@30",
			events: []string{"SYNCED@100"},
		},
		{
			name: "what is gone is deleted (FinalStateUnknown), at the end",
			do: func(s script) {
				put(s, "a/u1@2")
				put(s, "d/u4@40")
				put(s, "c/u3@30")
			},
			want:   replaceResult{added: 1, modified: 1, deleted: 1, unchanged: 1},
			left:   "a/u1@2 c/u3@30 d/u4@40",
			events: []string{"MODIFIED a/u1@2<1", "ADDED d/u4@40", "DELETED b/u2@20?", "SYNCED@100"},
		},
		{
			name: "a changed UID under one name is DELETE(old) then ADD(new)",
			do: func(s script) {
				put(s, "a/u9@50")
				put(s, "b/u2@20")
				put(s, "c/u3@30")
			},
			want:   replaceResult{added: 1, deleted: 1, unchanged: 2},
			left:   "a/u9@50 b/u2@20 c/u3@30",
			events: []string{"DELETED a/u1@1?", "ADDED a/u9@50", "SYNCED@100"},
		},
		{
			name: "the transform fails for b: retained, c is deleted",
			do: func(s script) {
				put(s, "a/u1@1")
				s.r.retain(metaOf(newThing("b/u2@21")))
				s.r.retain(metaOf(newThing("nobody/u7@21")))
			},
			want:   replaceResult{deleted: 1, unchanged: 1},
			left:   "a/u1@1 b/u2@20",
			events: []string{"DELETED c/u3@30?", "SYNCED@100"},
		},
		{
			name: "b does not decode and is another object: the old one is gone",
			do: func(s script) {
				put(s, "a/u1@1")
				s.r.retain(metaOf(newThing("b/u9@21")))
				put(s, "c/u3@30")
			},
			want:   replaceResult{deleted: 1, unchanged: 2},
			left:   "a/u1@1 c/u3@30",
			events: []string{"DELETED b/u2@20?", "SYNCED@100"},
		},
		{
			name: "b does not decode and is older: the stored one is of a lost history",
			do: func(s script) {
				put(s, "a/u1@1")
				s.r.retain(metaOf(newThing("b/u2@19")))
				put(s, "c/u3@30")
			},
			rewound: true,
			want:    replaceResult{deleted: 1, unchanged: 2, regressed: 1},
			held:    1,
			left:    "a/u1@1 c/u3@30",
			events:  []string{"DELETED b/u2@20?", "SYNCED@100"},
		},
		{
			name: "older than stored, from a cache that lags: the newer object stays",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@19")
				put(s, "c/u3@30")
			},
			rv:     "19",
			want:   replaceResult{unchanged: 2},
			held:   1,
			left:   "a/u1@1 b/u2@20 c/u3@30",
			events: []string{"SYNCED@19"},
		},
		{
			name: "older than stored, from a list that is not: the stored one is of a lost history",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@19")
				put(s, "c/u3@30")
			},
			rv:     "20",
			want:   replaceResult{unchanged: 2, modified: 1, regressed: 1},
			held:   1,
			left:   "a/u1@1 b/u2@19 c/u3@30",
			events: []string{"MODIFIED b/u2@19<20", "SYNCED@20"},
		},
		{
			name: "told twice in one watch-list: what it brought first stays",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@20")
				upsertThing(s.Store, "b/u2@19")
				put(s, "c/u3@30")
				upsertThing(s.Store, "c/u3@33")
				upsertThing(s.Store, "c/u3@32")
			},
			rewound: true,
			want:    replaceResult{unchanged: 3},
			left:    "a/u1@1 b/u2@20 c/u3@33",
			events:  []string{"MODIFIED c/u3@33<30", "SYNCED@100"},
		},
		{
			name: "older than stored, from a server that went back in time: real replace",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@19")
			},
			rewound: true,
			want:    replaceResult{unchanged: 1, modified: 1, deleted: 1, regressed: 1},
			held:    1,
			left:    "a/u1@1 b/u2@19",
			events:  []string{"MODIFIED b/u2@19<20", "DELETED c/u3@30?", "SYNCED@100"},
		},
		{
			name: "an item twice, the second newer",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@19")
				put(s, "b/u2@21")
				put(s, "c/u3@30")
			},
			rewound: true,
			want:    replaceResult{unchanged: 2, modified: 1},
			left:    "a/u1@1 b/u2@21 c/u3@30",
			events:  []string{"MODIFIED b/u2@21<20", "SYNCED@100"},
		},
		{
			name: "live events during a watch-list count as seen",
			do: func(s script) {
				put(s, "a/u1@1")
				upsertThing(s.Store, "b/u2@25") // changed
				upsertThing(s.Store, "c/u3@30") // told again
				upsertThing(s.Store, "d/u4@40") // new
				removeThing(s.Store, "a/u1@41") // deleted after it was put
				upsertThing(s.Store, "e/u5@42")
				removeThing(s.Store, "e/u5@43")
			},
			want: replaceResult{unchanged: 1},
			left: "b/u2@25 c/u3@30 d/u4@40",
			events: []string{"MODIFIED b/u2@25<20", "ADDED d/u4@40", "DELETED a/u1@41",
				"ADDED e/u5@42", "DELETED e/u5@43", "SYNCED@100"},
		},
		{
			name: "an older live event is held like an item",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@18")
				upsertThing(s.Store, "b/u2@19")
				removeThing(s.Store, "c/u3@29")
			},
			rv:     "19",
			want:   replaceResult{unchanged: 1},
			held:   2,
			left:   "a/u1@1 b/u2@20 c/u3@30",
			events: []string{"SYNCED@19"},
		},
		{
			name: "and is the truth when the server went back in time",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@18")
				put(s, "c/u3@30")
				upsertThing(s.Store, "b/u2@19")
			},
			rewound: true,
			want:    replaceResult{unchanged: 2, modified: 1, regressed: 1},
			held:    1,
			left:    "a/u1@1 b/u2@19 c/u3@30",
			events:  []string{"MODIFIED b/u2@19<20", "SYNCED@100"},
		},
		{
			name: "so is an older delete",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@20")
				put(s, "c/u3@28")
				removeThing(s.Store, "c/u3@29")
			},
			rewound: true,
			want:    replaceResult{unchanged: 2, deleted: 1, regressed: 1},
			held:    1,
			left:    "a/u1@1 b/u2@20",
			events:  []string{"DELETED c/u3@29", "SYNCED@100"},
		},
		{
			name: "a newer live event overrules a held item",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@19")
				put(s, "c/u3@29")
				upsertThing(s.Store, "b/u2@21")
				removeThing(s.Store, "c/u3@31")
			},
			rewound: true,
			want:    replaceResult{unchanged: 1},
			left:    "a/u1@1 b/u2@21",
			events:  []string{"MODIFIED b/u2@21<20", "DELETED c/u3@31", "SYNCED@100"},
		},
		{
			name: "a good version overrules one before it that did not decode",
			do: func(s script) {
				put(s, "a/u1@1")
				s.r.retain(metaOf(newThing("b/u2@18")))
				upsertThing(s.Store, "b/u2@19")
				put(s, "c/u3@30")
			},
			rewound: true,
			want:    replaceResult{unchanged: 2, modified: 1, regressed: 1},
			held:    1,
			left:    "a/u1@1 b/u2@19 c/u3@30",
			events:  []string{"MODIFIED b/u2@19<20", "SYNCED@100"},
		},
		{
			name: "and one that came back after an older delete that did not decode",
			do: func(s script) {
				put(s, "a/u1@1")
				put(s, "b/u2@20")
				put(s, "c/u3@27")
				s.testRemove(newThing("c/u3@28").meta(), nil, false)
				upsertThing(s.Store, "c/u3@29")
			},
			rewound: true,
			want:    replaceResult{unchanged: 2, modified: 1, regressed: 1},
			held:    1,
			left:    "a/u1@1 b/u2@20 c/u3@29",
			events:  []string{"MODIFIED c/u3@29<30", "SYNCED@100"},
		},
		{
			name:   "an empty list",
			do:     func(s script) {},
			want:   replaceResult{deleted: 3},
			left:   "",
			events: []string{"DELETED a/u1@1?", "DELETED b/u2@20?", "DELETED c/u3@30?", "SYNCED@100"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewStore[*thing]()
			for _, o := range []string{"a/u1@1", "b/u2@20", "c/u3@30"} {
				upsertThing(s, o)
			}
			m := s.testSubscribe(100)
			drain(m)
			r := s.beginReplace()
			tc.do(script{s, r})
			if len(r.held) != tc.held {
				t.Errorf("%d items are held, want %d", len(r.held), tc.held)
			}
			if got := r.commit(cmp.Or(tc.rv, "100"), tc.rewound); got != tc.want {
				t.Errorf("result %+v, want %+v", got, tc.want)
			}
			wantContents(t, s, tc.left)
			got := drain(m)
			sortDeletes(got)
			wantEvents(t, got, tc.events...)
			if s.open != nil {
				t.Error("the replacement is still open")
			}
		})
	}
}

// sortDeletes brings the deletes of a commit, which have no order among
// themselves, into that of their names.
func sortDeletes(events []string) {
	for i := range events {
		for j := i + 1; j < len(events) && events[j][:7] == "DELETED" && events[i][:7] == "DELETED"; j++ {
			if events[j] < events[i] {
				events[i], events[j] = events[j], events[i]
			}
		}
	}
}

func TestAbandonDeletesNothing(t *testing.T) {
	s := NewStore[*thing]()
	upsertThing(s, "a/u1@1")
	upsertThing(s, "b/u2@2")
	m := s.testSubscribe(10)
	drain(m)
	r := s.beginReplace()
	r.testPut(newThing("a/u1@3").meta(), newThing("a/u1@3"))
	r.abandon()
	wantContents(t, s, "a/u1@3 b/u2@2")
	wantEvents(t, drain(m), "MODIFIED a/u1@3<1")

	// What the abandoned one saw is not seen by the next.
	r = s.beginReplace()
	r.testPut(newThing("b/u2@2").meta(), newThing("b/u2@2"))
	if got, want := r.commit("9", false), (replaceResult{deleted: 1, unchanged: 1}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	wantEvents(t, drain(m), "DELETED a/u1@3?", "SYNCED@9")
}

// "One that is still open is abandoned": its late abandon does not close the new one.
func TestBeginAbandonsTheOpenOne(t *testing.T) {
	s := NewStore[*thing]()
	upsertThing(s, "a/u1@5")
	first := s.beginReplace()
	first.testPut(newThing("a/u1@4").meta(), newThing("a/u1@4"))
	second := s.beginReplace()
	first.abandon()
	if s.open != second {
		t.Fatal("the late abandon closed the replacement that is open")
	}
	if got, want := second.commit("9", true), (replaceResult{deleted: 1}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
}

// "What kept UID and RV is untouched (no event, no decode, no allocation)."
func TestUnchangedTouchesNothing(t *testing.T) {
	s := NewStore[*thing]()
	upsertThing(s, "a/u1@5")
	m := s.testSubscribe(10)
	drain(m)
	r := s.beginReplace()
	for text, want := range map[string]bool{"a/u1@5": true, "a/u1@6": false, "a/u2@5": false, "b/u1@5": false} {
		if got := r.testUnchanged(newThing(text).meta()); got != want {
			t.Errorf("unchanged(%s) = %t, want %t", text, got, want)
		}
	}
	meta := newThing("a/u1@5").meta()
	if n := testing.AllocsPerRun(1000, func() { r.testUnchanged(meta) }); n != 0 {
		t.Errorf("unchanged: %v allocations, want 0", n)
	}
	before, _ := s.Get("ns", "a")
	r.commit("7", false)
	if after, _ := s.Get("ns", "a"); after != before {
		t.Error("the object was replaced")
	}
	wantEvents(t, drain(m), "SYNCED@7")
}

// A relist of an unchanged collection costs a constant: the replacement itself,
// whatever the number of objects.
func TestRelistOfUnchangedAllocatesAConstant(t *testing.T) {
	const n = 10_000
	s := NewStore[*thing]()
	list := make([]*thing, n)
	for i := range list {
		list[i] = newThing(fmt.Sprintf("pod-%05d/uid-%d@%d", i, i, i+1))
		s.testUpsert(list[i].meta(), list[i])
	}
	relist := func() {
		r := s.beginReplace()
		for _, o := range list {
			if !r.testUnchanged(o.meta()) {
				t.Fatalf("%v is not known", o)
			}
		}
		if got := r.commit("99999", false); got != (replaceResult{unchanged: n}) {
			t.Fatalf("result %+v", got)
		}
	}
	if allocs := testing.AllocsPerRun(5, relist); allocs > 2 {
		t.Errorf("a relist of %d unchanged objects makes %v allocations, want at most 2", n, allocs)
	}
}

// In doubt "the same UID and resourceVersion is no proof of the same version":
// contents are compared, whatever form they came in.
func TestDoubtComparesContents(t *testing.T) {
	pod := func(node string, labels map[string]string, kind string) *corev1.Pod {
		return &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{Kind: kind},
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "5", Labels: labels},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	meta := decode.Meta{Name: "a", UID: "1", ResourceVersion: "5"}
	for _, tc := range []struct {
		name     string
		doubtful bool
		item     *corev1.Pod
		changed  bool
	}{
		{"without doubt nothing is compared", false, pod("other", nil, "Pod"), false},
		{"the same", true, pod("n", nil, "Pod"), false},
		{"the same from a list, with an empty map", true, pod("n", map[string]string{}, ""), false},
		{"another", true, pod("other", nil, "Pod"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewStore[*corev1.Pod]()
			s.testUpsert(meta, pod("n", nil, "Pod"))
			r := s.beginReplace()
			r.doubtful = tc.doubtful
			r.testPut(meta, tc.item)
			got := r.commit("5", false)
			want := replaceResult{unchanged: 1}
			if tc.changed {
				want = replaceResult{modified: 1}
			}
			if got != want {
				t.Errorf("result %+v, want %+v", got, want)
			}
			if stored, _ := s.Get("", "a"); (stored == tc.item) != tc.changed {
				t.Errorf("the stored object is the item: %t, want %t", stored == tc.item, tc.changed)
			}
		})
	}
}
