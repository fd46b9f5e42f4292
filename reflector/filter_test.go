package reflector

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// even is a predicate: the resourceVersion ends in an even digit.
func even(o *thing) bool { return strings.ContainsAny(o.rv[len(o.rv)-1:], "02468") }

// told drains a subscription.
func (d *deliverer[T]) told(describe func(Event[T]) string) []string {
	var got []string
	for {
		ev, ok, _ := d.take()
		if !ok {
			return got
		}
		got = append(got, describe(ev))
	}
}

// "An object that begins to match is told as Added, one that ceases to as Deleted", once, with the version that does
// not match and the one before.
func TestWhere(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "5", "a/u1@1", "b/u2@2")
	d := s.deliver(Subscription[*thing]{Limit: 100, Where: even}, slog.New(slog.DiscardHandler))
	wantEvents(t, d.told(describe), "ADDED b/u2@2", "SYNCED@5")
	for _, step := range []struct {
		change string
		want   []string
	}{
		{"+a/u1@6", []string{"ADDED a/u1@6"}},
		{"+a/u1@8", []string{"MODIFIED a/u1@8<6"}},
		{"+a/u1@9", []string{"DELETED a/u1@9<8"}},
		{"+a/u1@11", nil},
		{"-a/u1@12", nil}, // it had been told already
		{"+b/u2@14", []string{"MODIFIED b/u2@14<2"}},
		{"-b/u2@15", []string{"DELETED b/u2@15"}}, // its final state does not match, and is not asked for
		{"+c/u3@16", []string{"ADDED c/u3@16"}},
		{"+c/u4@17", []string{"DELETED c/u3@16?"}}, // another UID, which does not match
		{"+c/u5@18", []string{"ADDED c/u5@18"}},
		{"+c/u6@20", []string{"DELETED c/u5@18?", "ADDED c/u6@20"}},
	} {
		if gone, ok := strings.CutPrefix(step.change, "-"); ok {
			removeThing(s, gone)
		} else {
			upsertThing(s, step.change[1:])
		}
		wantEvents(t, d.told(describe), step.want...)
	}
	if n := d.filter.known.len(); n != 1 {
		t.Errorf("%d objects are known, want the one that is there", n)
	}
	list(s, "30", "c/u6@20", "d/u7@21")
	wantEvents(t, d.told(describe), "SYNCED@30")
}

// Nothing of it depends on how far behind the subscriber is, nor on how the store keeps its objects.
func TestWhereWhileBehind(t *testing.T) {
	for _, as := range []Objects{ObjectsShared, ObjectsCompact} {
		for _, policy := range []Policy{Coalesce, Resync} {
			t.Run(fmt.Sprintf("%v, %v", policy, as), func(t *testing.T) {
				keep := kept(t, as)
				s := NewStore[*thing]()
				put := func(texts ...string) {
					for _, text := range texts {
						o := newThing(text)
						s.upsert(s.find(o.meta().Key()), metaOf(o), keep(o))
					}
				}
				put("a/u1@2", "b/u2@2", "c/u3@3")
				asked := 0
				d := s.deliver(Subscription[*thing]{Limit: 1, Policy: policy, Where: func(o *thing) bool { asked++; return even(o) }}, nil)
				if got := d.told(describe); len(got) != 2 || asked != 3 {
					t.Fatalf("events %q, asked of %d versions; want two Added, and to be asked three times", got, asked)
				}
				asked = 0
				put("a/u1@3", "a/u1@4", "b/u2@4", "b/u2@5", "c/u3@4", "c/u3@5", "c/u3@6", "d/u4@8", "d/u4@9")
				wantEvents(t, d.told(describe), "MODIFIED a/u1@4<2", "DELETED b/u2@5<2", "ADDED c/u3@6")
				if asked != 4 {
					t.Errorf("asked of %d versions, want the four that were delivered or could have been", asked)
				}
			})
		}
	}
}

// A version for which the predicate panics does not match; the loop goes on, and it is told once a minute.
func TestWherePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		list(s, "5", "a/u1@2")
		var log bytes.Buffer
		d := s.deliver(Subscription[*thing]{Limit: 100, Where: func(o *thing) bool {
			if o.rv == "7" || o.name == "bad" {
				panic("no idea of " + o.rv)
			}
			return true
		}}, slog.New(slog.NewTextHandler(&log, nil)))
		wantEvents(t, d.told(describe), "ADDED a/u1@2", "SYNCED@5")
		upsertThing(s, "a/u1@7")
		upsertThing(s, "bad/u2@8")
		wantEvents(t, d.told(describe), "DELETED a/u1@7<2")
		upsertThing(s, "a/u1@9")
		wantEvents(t, d.told(describe), "ADDED a/u1@9")
		if n := s.deliveryStats().panics; n != 2 {
			t.Errorf("%d panics counted, want 2", n)
		}
		time.Sleep(time.Minute)
		upsertThing(s, "bad/u2@10")
		wantEvents(t, d.told(describe))
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d log lines, want 2: %s", n, log.String())
		}
		for _, part := range []string{"no idea of 7", "key=ns/a", "rv=7", "no idea of 10", "filter_test.go"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log does not say %q: %s", part, log.String())
			}
		}
	})
}
