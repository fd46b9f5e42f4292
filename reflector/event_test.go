package reflector

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// list replaces the store's contents by the given objects.
func list(s *Store[*thing], rv string, objects ...string) {
	r := s.beginReplace()
	for _, text := range objects {
		o := newThing(text)
		r.testPut(o.meta(), o)
	}
	r.commit(rv, false)
}

// reader ranges over events in its own goroutine and keeps what it got.
type reader struct {
	got  []string // touched by the goroutine; read it only after synctest.Wait
	done bool
}

func read(ctx context.Context, s *Store[*thing], limit int) *reader {
	r := &reader{}
	go func() {
		for ev := range s.testEvents(ctx, limit) {
			text := describe(ev)
			if ev.Initial {
				text = "initial " + text
			}
			r.got = append(r.got, text)
		}
		r.done = true
	}()
	return r
}

func (r *reader) take() []string {
	synctest.Wait()
	got := r.got
	r.got = nil
	return got
}

func TestEventsBeforeTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		early := read(ctx, s, 10)
		wantEvents(t, early.take())
		r := s.beginReplace()
		r.testPut(newThing("a/u1@1").meta(), newThing("a/u1@1"))
		wantEvents(t, early.take(), "initial ADDED a/u1@1")

		// One that comes in the middle of the first list waits for its end too.
		middle := read(ctx, s, 10)
		wantEvents(t, middle.take(), "initial ADDED a/u1@1")
		upsertThing(s, "a/u1@2")
		r.commit("5", false)
		want := []string{"initial MODIFIED a/u1@2<1", "initial SYNCED@5"}
		wantEvents(t, early.take(), want...)
		wantEvents(t, middle.take(), want...)

		upsertThing(s, "b/u2@6")
		wantEvents(t, early.take(), "ADDED b/u2@6")
		wantEvents(t, middle.take(), "ADDED b/u2@6")
		list(s, "9", "b/u2@6")
		wantEvents(t, early.take(), "DELETED a/u1@2?", "SYNCED@9")
	})
}

// "First a snapshot; if a list was complete before, Synced follows at once;
// then every change."
func TestEventsAfterTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		list(s, "5", "a/u1@1")
		upsertThing(s, "a/u1@6")
		ctx, cancel := context.WithCancel(t.Context())
		sub := read(ctx, s, 10)
		wantEvents(t, sub.take(), "initial ADDED a/u1@6", "initial SYNCED@5")
		removeThing(s, "a/u1@7")
		wantEvents(t, sub.take(), "DELETED a/u1@7")
		if got := len(s.deliveryStats().mailboxes); got != 1 {
			t.Errorf("%d subscribers, want 1", got)
		}
		cancel()
		synctest.Wait()
		if !sub.done {
			t.Error("the loop goes on after its context has ended")
		}
		if got := len(s.deliveryStats().mailboxes); got != 0 {
			t.Errorf("%d subscribers after the end, want 0", got)
		}
	})
}

// "The loop ends when Run has returned and all that came before is delivered."
func TestEventsEndWithTheReflectorAfterTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		list(s, "5", "a/u1@1")
		waiting := read(t.Context(), s, 10)
		synctest.Wait()
		m := s.deliver(Subscription[*thing]{Limit: 10}, nil)
		upsertThing(s, "b/u2@6")
		s.end()
		wantEvents(t, waiting.take(), "initial ADDED a/u1@1", "initial SYNCED@5", "ADDED b/u2@6")
		if !waiting.done {
			t.Error("a waiting loop goes on after the reflector has stopped")
		}
		for range 3 {
			if _, ok := m.next(t.Context()); !ok {
				t.Error("the backlog was cut off")
			}
		}
		if ev, ok := m.next(t.Context()); ok {
			t.Errorf("after the end came %s", describe(ev))
		}
		late := read(t.Context(), s, 10)
		got := late.take()
		if len(got) != 3 || got[2] != "initial SYNCED@5" || !late.done {
			t.Errorf("a subscription after the end: %q, ended %t; want two objects, Synced and the end", got, late.done)
		}
	})
}

func TestContextEndsEventsBeforeTheBacklog(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "5", "a/u1@1", "b/u2@2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for range s.testEvents(ctx, 10) {
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("%d events after the context had ended, want none", n-1)
	}
}

func TestBreakAndPanicUnsubscribe(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "5", "a/u1@1", "b/u2@2")
	for range s.testEvents(t.Context(), 10) {
		break
	}
	if n := len(s.deliveryStats().mailboxes); n != 0 {
		t.Errorf("%d subscribers after break", n)
	}
	p := panicOf(func() {
		for ev := range s.testEvents(t.Context(), 10) {
			panic("at " + ev.Type.String())
		}
	})
	if p != "at ADDED" {
		t.Errorf("panic %v, want the body's own", p)
	}
	if n := len(s.deliveryStats().mailboxes); n != 0 {
		t.Errorf("%d subscribers after a panic", n)
	}
	if got := upsertThing(s, "c/u3@6"); got != applied {
		t.Errorf("the store does not go on: outcome %d", got)
	}
}

// "Subscribers do not wait for each other", nor does the store: one is blocked
// in its body, the other gets every version.
func TestBlockedSubscriberHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		list(s, "1", "a/u1@1")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fast := read(ctx, s, 1000)
		release := make(chan struct{})
		var slow []string
		go func() {
			for ev := range s.testEvents(ctx, 5) {
				slow = append(slow, describe(ev))
				<-release
			}
		}()
		synctest.Wait()
		wantEvents(t, fast.take(), "initial ADDED a/u1@1", "initial SYNCED@1")
		for rv := 2; rv <= 500; rv++ {
			upsertThing(s, fmt.Sprintf("a/u1@%d", rv))
			wantEvents(t, fast.take(), fmt.Sprintf("MODIFIED a/u1@%d<%d", rv, rv-1))
		}
		st := s.deliveryStats()
		if st.depth != 2 || st.coalesced != 498 || len(st.mailboxes) != 2 {
			t.Errorf("%+v, want a depth of 2 (Synced and one Modified) and 498 coalesced", st)
		}
		time.Sleep(7 * time.Second) // virtual
		if got := s.deliveryStats().age; got != 7*time.Second {
			t.Errorf("the oldest unread event is %v old, want 7s", got)
		}
		close(release)
		synctest.Wait()
		wantEvents(t, slow, "ADDED a/u1@1", "SYNCED@1", "MODIFIED a/u1@500<1")
		cancel()
		synctest.Wait()
		if got := s.deliveryStats(); got.coalesced != 498 || got.depth != 0 {
			t.Errorf("after the end %+v, want the count of coalesced events to stay", got)
		}
	})
}

func TestHandlerTimeIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		list(s, "5", "a/u1@1", "b/u2@2")
		go func() {
			time.Sleep(time.Hour) // waiting for events is not handling
			s.end()
		}()
		n := 0
		for range s.testEvents(t.Context(), 10) {
			n++
			time.Sleep(time.Duration(n) * 50 * time.Millisecond)
			if n == 3 {
				break // counts as well
			}
		}
		h := s.deliveryStats().handler
		if h.Count != 3 || h.Sum != 300*time.Millisecond {
			t.Errorf("%d observations of %v, want 3 of 300ms", h.Count, h.Sum)
		}
		for _, b := range h.Buckets {
			want := uint64(0)
			switch {
			case b.UpperBound >= time.Second:
				want = 3
			case b.UpperBound >= 100*time.Millisecond:
				want = 2
			}
			if b.Count != want {
				t.Errorf("bucket %v has %d, want %d", b.UpperBound, b.Count, want)
			}
		}
		time.Sleep(2 * time.Hour)
	})
}

// "If its ADD was delivered, a DELETE follows", however far behind the consumer is.
func TestDeleteFollowsADeliveredAdd(t *testing.T) {
	for _, limit := range []int{0, 100} {
		s := NewStore[*thing]()
		m := s.testSubscribe(limit)
		upsertThing(s, "o/u1@1")
		if ev, ok, _ := m.popEvent(); !ok || describe(ev) != "ADDED o/u1@1" {
			t.Fatalf("got %s", describe(ev))
		}
		list(s, "9", "p/u2@2")
		wantEvents(t, drain(m), "ADDED p/u2@2", "DELETED o/u1@1?", "SYNCED@9")
		wantContents(t, s, "p/u2@2")
	}
}

func TestEventTypeString(t *testing.T) {
	var all []string
	for i := range EventType(6) {
		all = append(all, i.String())
	}
	if got, want := strings.Join(all, " "), "UNKNOWN ADDED MODIFIED DELETED SYNCED UNKNOWN"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
