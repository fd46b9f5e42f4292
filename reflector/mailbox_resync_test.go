package reflector

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestResync is what a subscriber of that policy is told after the drop: the difference from what it knew.
func TestResync(t *testing.T) {
	for _, tc := range []struct {
		name     string
		known    []string // is in the store and was read
		missed   []string // changes that were not read
		want     []string
		pristine bool // no list was complete
	}{
		{
			name: "many versions are one", known: []string{"a/u1@1"},
			missed: []string{"+a/u1@2", "+a/u1@3", "+a/u1@4"},
			want:   []string{"MODIFIED a/u1@4<1", "SYNCED@1"},
		},
		{
			name: "what came and went is nothing", known: []string{"a/u1@1"},
			missed: []string{"+b/u2@2", "-b/u2@3", "+b/u3@4", "-b/u3@5"},
			want:   []string{"SYNCED@1"},
		},
		{
			name: "what is gone, as the subscriber knew it", known: []string{"a/u1@1", "b/u2@1"},
			missed: []string{"+a/u1@2", "-a/u1@3", "-b/u2@4"},
			want:   []string{"DELETED a/u1@1?", "DELETED b/u2@1?", "SYNCED@1"},
		},
		{
			name: "another UID under the name", known: []string{"a/u1@1"},
			missed: []string{"+a/u2@2", "+a/u2@3"},
			want:   []string{"DELETED a/u1@1?", "ADDED a/u2@3", "SYNCED@1"},
		},
		{
			name: "another UID, which is gone as well", known: []string{"a/u1@1"},
			missed: []string{"+a/u2@2", "-a/u2@3"},
			want:   []string{"DELETED a/u1@1?", "SYNCED@1"},
		},
		{
			name: "a list missed it, and a later one has it again", known: []string{"a/u1@1", "b/u2@1"},
			missed: []string{"-a/u1@2", "+a/u1@1", "-b/u2@3", "+b/u2@4"},
			want:   []string{"MODIFIED b/u2@4<1", "SYNCED@1"},
		},
		{
			name: "new ones", known: nil,
			missed: []string{"+a/u1@1", "+a/u1@2", "+b/u2@3"},
			want:   []string{"ADDED a/u1@2", "ADDED b/u2@3", "SYNCED@1"},
		},
		{
			name: "a list is of no interest but that it was", known: []string{"a/u1@1"},
			missed: []string{"+a/u1@2", "list 7 a/u1@2 c/u3@6", "+c/u3@8"},
			want:   []string{"MODIFIED a/u1@2<1", "ADDED c/u3@8", "SYNCED@7"},
		},
		{
			name: "no Synced before a list was complete", known: []string{"a/u1@1"}, pristine: true,
			missed: []string{"+a/u1@2", "+a/u1@3"},
			want:   []string{"MODIFIED a/u1@3<1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewStore[*thing]()
			if tc.pristine {
				for _, text := range tc.known {
					upsertThing(s, text)
				}
			} else {
				list(s, "1", tc.known...)
			}
			d := s.deliver(Subscription[*thing]{Policy: Resync, Limit: 1}, nil)
			d.told(describe)
			for _, text := range tc.missed {
				if objects, ok := strings.CutPrefix(text, "list "); ok {
					words := strings.Fields(objects)
					list(s, words[0], words[1:]...)
				} else if gone, ok := strings.CutPrefix(text, "-"); ok {
					removeThing(s, gone)
				} else {
					upsertThing(s, text[1:])
				}
			}
			if st := d.m.stats(time.Now()); st.Resyncs != 1 || st.Coalesced != 0 {
				t.Errorf("%+v, want one resync", st)
			}
			wantEvents(t, d.told(describe), tc.want...)
			// In step again: every version.
			upsertThing(s, "z/u9@10")
			wantEvents(t, d.told(describe), "ADDED z/u9@10")
		})
	}
}

// The part of the first snapshot, and of a difference, that was not read is told with the next one.
func TestResyncOfWhatWasNotRead(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "1", "a/u1@1", "b/u2@1")
	m := s.subscribe(Subscription[*thing]{Policy: Resync, Limit: 1})
	first, _, _ := m.popEvent() // a or b
	other := map[string]string{"a": "b", "b": "a"}[first.Object.name]
	uid := map[string]string{"a": "u1", "b": "u2"}
	versions := func(name string, from, to int) {
		for rv := from; rv <= to; rv++ {
			upsertThing(s, fmt.Sprintf("%s/%s@%d", name, uid[name], rv))
		}
	}
	versions(first.Object.name, 2, 4)
	versions(other, 5, 6)
	ev, _, _ := m.popEvent()
	if got, want := describe(ev), "ADDED "+other+"/"+uid[other]+"@6"; got != want || !ev.Initial {
		t.Errorf("the rest of the first snapshot came as %s (initial: %t), want %s", got, ev.Initial, want)
	}
	versions(other, 7, 9)
	wantEvents(t, drain(m),
		"MODIFIED "+first.Object.name+"/"+uid[first.Object.name]+"@4<1", "MODIFIED "+other+"/"+uid[other]+"@9<6", "SYNCED@1")
	if n := m.stats(time.Now()).Resyncs; n != 2 {
		t.Errorf("%d resyncs, want 2", n)
	}
}

// The age is that of the first change which is not read.
func TestResyncAge(t *testing.T) {
	at := time.Now()
	m := newMailbox[*thing]("", Resync, 1, nil, at)
	m.push(event("MODIFIED a/u1@2<1"), at.Add(time.Second))
	m.push(event("MODIFIED b/u2@3<1"), at.Add(2*time.Second))
	m.push(event("MODIFIED b/u2@4<3"), at.Add(3*time.Second))
	for _, want := range []int{2, 1, 0} {
		st := m.stats(at.Add(10 * time.Second))
		if age := min(want, 1) * 9; st.Depth != want || st.Age != time.Duration(age)*time.Second {
			t.Errorf("%d events of %v, want %d of %ds", st.Depth, st.Age, want, age)
		}
		m.pop()
	}
	m.push(event("MODIFIED a/u1@5<2"), at.Add(20*time.Second))
	m.push(event("MODIFIED a/u1@6<5"), at.Add(21*time.Second))
	if st := m.stats(at.Add(25 * time.Second)); st.Age != 5*time.Second {
		t.Errorf("behind once more for %v, want 5s", st.Age)
	}
}

// "Memory is O(objects), and unlike with Coalesce final states and what came and went cost nothing."
func TestResyncIsBounded(t *testing.T) {
	const objects = 30
	s := NewStore[*thing]()
	for i := range objects {
		upsertThing(s, fmt.Sprintf("a%d/u%d@1", i, i))
	}
	m := s.subscribe(Subscription[*thing]{Policy: Resync, Limit: 10})
	drain(m)
	for i := range 10_000 {
		rv := i + 2
		upsertThing(s, fmt.Sprintf("a%d/u%d@%d", i%objects, i%objects, rv))
		upsertThing(s, fmt.Sprintf("short%d/s%d@%d", i, i, rv))
		removeThing(s, fmt.Sprintf("short%d/s%d@%d", i, i, rv))
		if depth := m.stats(time.Now()).Depth; depth > objects+10 {
			t.Fatalf("%d events pending after %d changes of %d objects", depth, i, objects)
		}
	}
	if n := len(m.resync.lag); n != objects || m.resync.list.Len() != objects || m.queue.Len() != 0 {
		t.Errorf("%d objects are kept in a list of %d, and %d changes; want %d", n, m.resync.list.Len(), m.queue.Len(), objects)
	}
	if got := drain(m); len(got) != objects {
		t.Errorf("%d events, want %d", len(got), objects)
	}
}
