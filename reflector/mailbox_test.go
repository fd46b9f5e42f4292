package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// event reads what describe writes: "MODIFIED a/u1@7<5", "DELETED a/u1@7?", "SYNCED@9".
func event(text string) change[*thing] {
	if rv, ok := strings.CutPrefix(text, "SYNCED@"); ok {
		return syncedAt[*thing](rv)
	}
	word, object, _ := strings.Cut(text, " ")
	object, unknown := strings.CutSuffix(object, "?")
	object, old, modified := strings.Cut(object, "<")
	o := newThing(object)
	c := change[*thing]{unknown: unknown, e: entryOf(o)}
	for _, t := range []EventType{Added, Modified, Deleted} {
		if t.String() == word {
			c.typ = t
		}
	}
	if modified {
		if old == o.rv {
			o.values = []string{"other contents"}
		}
		c.old = entryOf(&thing{name: o.name, uid: o.uid, rv: old})
	}
	return c
}

func entryOf(o *thing) *entry[*thing] {
	return &entry[*thing]{key: o.meta().Key(), uid: types.UID(o.uid), rv: o.rv, content: content[*thing]{obj: o}}
}

// TestCoalescing is the algebra of the mailbox: what a subscriber that is
// behind gets of a sequence of changes.
func TestCoalescing(t *testing.T) {
	for _, tc := range []struct {
		name      string
		in, want  []string
		coalesced uint64
	}{
		{"Added Modified is Added(new)",
			[]string{"ADDED a/u1@1", "MODIFIED a/u1@2<1"},
			[]string{"ADDED a/u1@2"}, 1},
		{"Modified Modified is Modified(new), Old the first",
			[]string{"MODIFIED a/u1@2<1", "MODIFIED a/u1@3<2", "MODIFIED a/u1@4<3"},
			[]string{"MODIFIED a/u1@4<1"}, 2},
		{"Added Deleted is nothing",
			[]string{"ADDED a/u1@1", "DELETED a/u1@2"},
			nil, 2},
		{"Added Modified Deleted is nothing",
			[]string{"ADDED a/u1@1", "MODIFIED a/u1@2<1", "DELETED a/u1@3"},
			nil, 3},
		{"Modified Deleted is Deleted with the final state",
			[]string{"MODIFIED a/u1@2<1", "DELETED a/u1@3"},
			[]string{"DELETED a/u1@3"}, 1},
		{"FinalStateUnknown stays",
			[]string{"MODIFIED a/u1@2<1", "DELETED a/u1@2?"},
			[]string{"DELETED a/u1@2?"}, 1},
		{"Deleted Added with a new UID keeps both in order",
			[]string{"DELETED a/u1@2", "ADDED a/u2@3"},
			[]string{"DELETED a/u1@2", "ADDED a/u2@3"}, 0},
		{"Modified Deleted Added Modified",
			[]string{"MODIFIED a/u1@2<1", "DELETED a/u1@3", "ADDED a/u2@4", "MODIFIED a/u2@5<4"},
			[]string{"DELETED a/u1@3", "ADDED a/u2@5"}, 2},
		{"Deleted Added Deleted is the first Deleted",
			[]string{"DELETED a/u1@2", "ADDED a/u2@3", "DELETED a/u2@4"},
			[]string{"DELETED a/u1@2"}, 2},
		{"and goes on from there",
			[]string{"DELETED a/u1@2", "ADDED a/u2@3", "DELETED a/u2@4", "ADDED a/u3@5", "MODIFIED a/u3@6<5"},
			[]string{"DELETED a/u1@2", "ADDED a/u3@6"}, 3},
		{"Added Deleted Added",
			[]string{"ADDED a/u1@1", "DELETED a/u1@2", "ADDED a/u2@3"},
			[]string{"ADDED a/u2@3"}, 2},
		{"objects do not mix, and stay where they first stood",
			[]string{"MODIFIED a/u1@2<1", "ADDED b/u2@3", "MODIFIED a/u1@4<2", "ADDED c/u3@5", "DELETED b/u2@6"},
			[]string{"MODIFIED a/u1@4<1", "ADDED c/u3@5"}, 3},
		{"a Synced stays behind what came before it",
			[]string{"ADDED a/u1@1", "SYNCED@9", "MODIFIED a/u1@10<1", "ADDED b/u2@11"},
			[]string{"ADDED a/u1@10", "SYNCED@9", "ADDED b/u2@11"}, 1},
		{"a later Synced takes the place of the one before",
			[]string{"SYNCED@1", "ADDED a/u1@2", "SYNCED@3", "ADDED b/u2@4"},
			[]string{"ADDED a/u1@2", "SYNCED@3", "ADDED b/u2@4"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// From the first change on, and at once when the limit is passed.
			for _, limit := range []int{0, len(tc.in) - 1} {
				m := testMailbox[*thing](limit, nil, time.Now())
				for _, text := range tc.in {
					m.push(event(text), time.Now())
				}
				st := m.stats(time.Now())
				if st.Depth != len(tc.want) || st.Coalesced != tc.coalesced {
					t.Errorf("limit %d: depth %d, coalesced %d; want %d, %d", limit, st.Depth, st.Coalesced, len(tc.want), tc.coalesced)
				}
				wantEvents(t, drain(m), tc.want...)
			}
			// Up to the limit there is no loss.
			m := testMailbox[*thing](len(tc.in), nil, time.Now())
			for _, text := range tc.in {
				m.push(event(text), time.Now())
			}
			wantEvents(t, drain(m), tc.in...)
		})
	}
}

// What was delivered is not merged into.
func TestCoalescingGoesOnBehindTheReader(t *testing.T) {
	m := testMailbox[*thing](0, nil, time.Now())
	push := func(texts ...string) {
		for _, text := range texts {
			m.push(event(text), time.Now())
		}
	}
	pop := func(want string) {
		t.Helper()
		if ev, ok, _ := m.popEvent(); !ok || describe(ev) != want {
			t.Errorf("got %s, want %s", describe(ev), want)
		}
	}
	push("ADDED a/u1@1", "ADDED b/u2@2")
	pop("ADDED a/u1@1")
	push("MODIFIED a/u1@3<1", "DELETED a/u1@4") // its Added was delivered
	pop("ADDED b/u2@2")
	push("ADDED a/u3@5")
	pop("DELETED a/u1@4")
	push("DELETED a/u3@6", "ADDED a/u4@7", "SYNCED@8")
	pop("ADDED a/u4@7")
	push("SYNCED@9")
	pop("SYNCED@9")
	wantEvents(t, drain(m))
	if m.last != nil {
		t.Error("the mailbox still coalesces after the consumer has caught up")
	}
}

func TestMailboxIsLossFreeAgainAfterCatchingUp(t *testing.T) {
	m := testMailbox[*thing](2, nil, time.Now())
	for rv := 2; rv < 10; rv++ {
		m.push(event(fmt.Sprintf("MODIFIED a/u1@%d<%d", rv, rv-1)), time.Now())
	}
	wantEvents(t, drain(m), "MODIFIED a/u1@9<1")
	m.push(event("MODIFIED a/u1@10<9"), time.Now())
	m.push(event("MODIFIED a/u1@11<10"), time.Now())
	wantEvents(t, drain(m), "MODIFIED a/u1@10<9", "MODIFIED a/u1@11<10")
}

// "Slow subscribers cost O(objects)": 10,000 changes of 30 objects, and as many
// objects that come and go, for a consumer that does not read.
func TestMailboxIsBounded(t *testing.T) {
	const objects, limit = 30, 100
	s := NewStore[*thing]()
	for i := range objects {
		upsertThing(s, fmt.Sprintf("a%d/u%d@1", i, i))
	}
	m := s.testSubscribe(limit)
	drain(m)
	peak := 0
	rv := 1
	for i := range 10_000 {
		rv++
		upsertThing(s, fmt.Sprintf("a%d/u%d@%d", i%objects, i%objects, rv))
		upsertThing(s, fmt.Sprintf("short%d/s%d@%d", i, i, rv))
		removeThing(s, fmt.Sprintf("short%d/s%d@%d", i, i, rv+1))
		if i%100 == 0 {
			s.beginReplace().abandon()
			s.publishLocked(syncedAt[*thing](fmt.Sprint(rv)))
		}
		peak = max(peak, m.stats(time.Now()).Depth)
	}
	if want := limit + 1; peak > want {
		t.Errorf("the backlog grew to %d events, want at most %d", peak, want)
	}
	if depth := m.stats(time.Now()).Depth; depth > objects+1 {
		t.Errorf("%d events are pending, want at most one for each of %d objects, and a Synced", depth, objects)
	}
	final := map[string]string{}
	for {
		ev, ok, _ := m.popEvent()
		if !ok {
			break
		}
		if ev.Type != Synced {
			final[ev.Key.Name] = ev.Object.rv
		}
	}
	for _, o := range s.All() {
		if final[o.name] != o.rv {
			t.Errorf("the last event of %s has version %s, the store %s", o.name, final[o.name], o.rv)
		}
	}
}

func TestMailboxStats(t *testing.T) {
	at := time.Now()
	m := testMailbox(0, []*entry[*thing]{entryOf(newThing("z/u0@1"))}, at)
	m.push(event("MODIFIED a/u1@2<1"), at.Add(2*time.Second))
	m.push(event("MODIFIED a/u1@3<2"), at.Add(4*time.Second))
	m.push(event("ADDED b/u1@4"), at.Add(5*time.Second))
	for _, want := range []Mailbox{
		{Since: at, Depth: 3, Age: 10 * time.Second, Coalesced: 1},
		{Since: at, Depth: 2, Age: 8 * time.Second, Coalesced: 1}, // of the first that was merged
		{Since: at, Depth: 1, Age: 5 * time.Second, Coalesced: 1},
		{Since: at, Depth: 0, Age: 0, Coalesced: 1},
	} {
		if got := m.stats(at.Add(10 * time.Second)); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		m.pop()
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		d := s.deliver(Subscription[*thing]{Limit: 10}, nil)
		m := d.m
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan string, 10)
		go func() {
			for {
				ev, ok := d.next(ctx)
				if !ok {
					got <- "end"
					return
				}
				got <- describe(ev)
			}
		}()
		wantNow := func(want string) {
			t.Helper()
			synctest.Wait()
			var have string
			select {
			case have = <-got:
			default:
			}
			if have != want {
				t.Errorf("the consumer got %q, want %q", have, want)
			}
		}
		wantNow("")
		m.push(event("ADDED a/u1@1"), time.Now())
		wantNow("ADDED a/u1@1")
		wantNow("")
		m.push(event("MODIFIED a/u1@2<1"), time.Now())
		m.push(event("MODIFIED a/u1@3<2"), time.Now())
		wantNow("MODIFIED a/u1@2<1")
		wantNow("MODIFIED a/u1@3<2")
		cancel()
		wantNow("end")
	})
}

// next waits for the next event. ok is false when there will be none.
func (d *deliverer[T]) next(ctx context.Context) (ev Event[T], ok bool) {
	for ctx.Err() == nil {
		ev, told, more := d.take()
		if told || !more {
			return ev, told
		}
		d.wait(ctx)
	}
	return ev, false
}

// A server that went back in time, while the subscriber was behind, to the version that it knows: nothing is told twice.
// Of another content, which the server gave that resourceVersion, it is told.
func TestBackToWhatTheSubscriberKnows(t *testing.T) {
	for _, policy := range []Policy{Coalesce, Resync} {
		for _, as := range []Objects{ObjectsShared, ObjectsCompact} {
			t.Run(fmt.Sprintf("%v, %v", policy, as), func(t *testing.T) {
				keep := kept(t, as)
				s := NewStore[*thing]()
				list := func(rv string, rewound bool, objects ...string) {
					rep := s.beginReplace()
					rep.doubtful = rewound
					for _, text := range objects {
						o := newThing(text)
						rep.put(s.find(o.meta().Key()), metaOf(o), keep(o))
					}
					rep.commit(rv, rewound)
				}
				list("5", false, "a/u1@3", "b/u2@4")
				d := s.deliver(Subscription[*thing]{Policy: policy, Limit: 1}, slog.New(slog.DiscardHandler))
				d.told(describe)
				list("9", false, "a/u1@8", "b/u2@9")
				list("5", true, "a/u1@3", "b/u2@4")
				if m := s.find(newThing("a/u1@3").meta().Key()); m.rv != "3" {
					t.Fatalf("the store has version %s", m.rv)
				}
				wantEvents(t, d.told(describe), "SYNCED@5")
				if d.m.last != nil || d.m.resync.lag != nil {
					t.Error("it is not in step")
				}
			})
		}
	}
	version := func(label string) *entry[labelled] {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": label}}}
		return &entry[labelled]{key: decode.Key{Name: "a"}, uid: "u1", rv: "3", content: content[labelled]{obj: o}}
	}
	for now, want := range map[string]bool{"x": true, "y": false} {
		if c := (change[labelled]{typ: Modified, e: version(now), old: version("x")}); c.tellsNothing() != want {
			t.Errorf("of x the subscriber is told %s: %t", now, !c.tellsNothing())
		}
	}
}

// What is pending of an object keeps nothing of the versions in between, the text of their keys included.
func TestMailboxKeepsNoVersionInBetween(t *testing.T) {
	for _, policy := range []Policy{Coalesce, Resync} {
		t.Run(policy.String(), func(t *testing.T) {
			s := NewStore[labelled]()
			rv := 0
			do := func(remove bool, texts ...string) {
				for _, text := range texts {
					name, uid, _ := strings.Cut(text, "/")
					rv++
					o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: strings.Clone(name), UID: types.UID(uid), ResourceVersion: fmt.Sprint(rv)}}
					m := decode.Meta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
					if remove {
						s.testRemove(m, o, true)
					} else {
						s.testUpsert(m, o)
					}
				}
			}
			do(false, "a/u1", "b/u2", "c/u3")
			d := s.deliver(Subscription[labelled]{Policy: policy, Limit: 1}, nil)
			name := func(ev Event[labelled]) string { return ev.Type.String() + " " + ev.Key.Name }
			d.told(name)
			for range 3 {
				do(false, "a/u1", "b/u2", "c/u3")
			}
			do(true, "b/u2", "c/u3")
			do(false, "c/u4")         // one that came
			do(true, "c/u4")          // and went
			keeps := map[*byte]bool{} // the text of the names of what is pending
			keep := func(e *entry[labelled]) {
				if e != nil {
					keeps[unsafe.StringData(e.key.Name)] = true
				}
			}
			n := 0
			for k, l := range d.m.last {
				keep(l.Value.e)
				keep(l.Value.old)
				if n++; !keeps[unsafe.StringData(k.Name)] {
					t.Errorf("the key of %s is of a version that is not pending", k)
				}
			}
			for k, l := range d.m.resync.lag {
				keep(l.Value.is)
				keep(l.Value.knows)
				if n++; !keeps[unsafe.StringData(k.Name)] {
					t.Errorf("the key of %s is of a version that is not pending", k)
				}
			}
			if n != 3 {
				t.Errorf("%d objects are pending, want 3", n)
			}
			wantEvents(t, d.told(name), "MODIFIED a", "DELETED b", "DELETED c")
		})
	}
}
