package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// taker is a subscriber in a goroutine of its own that takes one event each time it is allowed to.
type taker struct {
	got   []string // read it only after synctest.Wait
	allow chan struct{}
	done  bool
}

func take(ctx context.Context, s *Store[*thing], sub Subscription[*thing]) *taker {
	r := &taker{allow: make(chan struct{})}
	go func() {
		for ev := range s.events(ctx, sub, slog.New(slog.DiscardHandler)) {
			r.got = append(r.got, describe(ev))
			<-r.allow
		}
		r.done = true
	}()
	synctest.Wait()
	return r
}

// some lets it go on n times.
func (r *taker) some(n int) {
	for range n {
		r.allow <- struct{}{}
	}
	synctest.Wait()
}

// writer changes a store from a goroutine of its own, as a reflector does; done counts its changes.
func writer(s *Store[*thing], from, to int) (done func() int) {
	n := 0
	go func() {
		for rv := from; rv <= to; rv++ {
			upsertThing(s, fmt.Sprintf("a/u1@%d", rv))
			n++
		}
	}()
	return func() int { synctest.Wait(); return n }
}

// blockable is a store that a reflector fills, whose Run ends with stop.
func blockable() (s *Store[*thing], stop func()) {
	s = NewStore[*thing]()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = ctx.Done()
	return s, cancel
}

// "Every version is delivered", and "nobody but the reflector waits for a blocking subscriber".
func TestBlockHoldsUpTheReflectorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := blockable()
		defer stop()
		list(s, "1", "a/u1@1")
		ctx, cancel := context.WithCancel(t.Context())
		slow := take(ctx, s, Subscription[*thing]{Name: "audit", Policy: Block, Limit: 3})
		slow.some(1) // it has the object and Synced
		fast := read(ctx, s, 100)
		wantEvents(t, fast.take(), "initial ADDED a/u1@1", "initial SYNCED@1")

		written := writer(s, 2, 10)
		if n := written(); n != 3 {
			t.Errorf("%d changes were made, want 3: the mailbox is full", n)
		}
		time.Sleep(7 * time.Second)
		// The store, Status and Stats, and other subscribers, new ones too.
		wantContents(t, s, "a/u1@4")
		wantEvents(t, fast.take(), "MODIFIED a/u1@2<1", "MODIFIED a/u1@3<2", "MODIFIED a/u1@4<3")
		late := read(ctx, s, 100)
		wantEvents(t, late.take(), "initial ADDED a/u1@4", "initial SYNCED@1")
		st := s.deliveryStats()
		if time.Since(st.blocked) != 7*time.Second || st.waited != 7*time.Second || !st.mailboxes[0].BlockedSince.Equal(st.blocked) {
			t.Errorf("blocked since %v, for %v in all; its mailbox %+v", st.blocked, st.waited, st.mailboxes[0])
		}
		if got, want := s.blocking(), `for room in the mailboxes of 1 blocking subscribers ("audit") since 2000-01-01T00:00:00Z`; got != want {
			t.Errorf("Status says %q, want %q", got, want)
		}

		slow.some(1)
		if n := written(); n != 4 {
			t.Errorf("%d changes were made, want one more than 3: there was room for one", n)
		}
		slow.some(10 - 4)
		if n := written(); n != 9 {
			t.Errorf("%d changes were made, want all 9", n)
		}
		slow.some(2)
		wantEvents(t, slow.got, "ADDED a/u1@1", "SYNCED@1", "MODIFIED a/u1@2<1", "MODIFIED a/u1@3<2", "MODIFIED a/u1@4<3",
			"MODIFIED a/u1@5<4", "MODIFIED a/u1@6<5", "MODIFIED a/u1@7<6", "MODIFIED a/u1@8<7", "MODIFIED a/u1@9<8", "MODIFIED a/u1@10<9")
		if st := s.deliveryStats(); !st.blocked.IsZero() || st.waited != 7*time.Second || st.coalesced != 0 || s.waited != st.waited {
			t.Errorf("after it caught up: blocked since %v, for %v (the writer knows of %v), %d coalesced", st.blocked, st.waited, s.waited, st.coalesced)
		}
		if got := s.blocking(); got != "" {
			t.Errorf("Status says %q when nobody waits", got)
		}
		cancel()
		close(slow.allow)
		synctest.Wait()
	})
}

// "Run's context as well as the subscriber's end the wait", and so do the end of its loop and of the reflector.
func TestBlockEndsWithEitherContext(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(stop, cancel func(), slow *taker)
		made int // changes, of 9
	}{
		{"Run's", func(stop, _ func(), _ *taker) { stop() }, 9},
		{"the subscriber's, which does not look at it", func(_, cancel func(), _ *taker) { cancel() }, 9},
		{"neither", func(func(), func(), *taker) {}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, stop := blockable()
				ctx, cancel := context.WithCancel(t.Context())
				slow := take(ctx, s, Subscription[*thing]{Policy: Block, Limit: 2})
				written := writer(s, 2, 10)
				if n := written(); n != 3 { // one is read
					t.Fatalf("%d changes were made before the end, want 3", n)
				}
				began := time.Now()
				tc.end(stop, cancel, slow)
				if n := written(); n != max(tc.made, 3) || time.Since(began) != 0 {
					t.Errorf("%d changes were made after %v, want %d at once", n, time.Since(began), max(tc.made, 3))
				}
				cancel()
				stop()
				close(slow.allow)
				synctest.Wait()
				if !slow.done || len(s.deliveryStats().mailboxes) != 0 || s.blockers.Load() != 0 {
					t.Errorf("the loop is over: %t; %d mailboxes and %d blockers are left", slow.done, len(s.deliveryStats().mailboxes), s.blockers.Load())
				}
			})
		})
	}
}

// A subscriber that was told to end and does not look costs no memory.
func TestBlockKeepsNothingForWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := blockable()
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		slow := take(ctx, s, Subscription[*thing]{Policy: Block, Limit: 2})
		upsertThing(s, "a/u1@1")
		synctest.Wait() // it is in its body
		upsertThing(s, "b/u2@2")
		cancel()
		synctest.Wait()
		for rv := range 100 {
			upsertThing(s, fmt.Sprintf("a/u1@%d", rv+3))
		}
		if d := s.deliveryStats().depth; d != 0 {
			t.Errorf("%d events are kept for it", d)
		}
		close(slow.allow)
		synctest.Wait()
	})
}

// "A list waits as well", item by item, and for each object that is gone.
func TestBlockedListWaitsItemByItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := blockable()
		defer stop()
		list(s, "1", "a/u1@1", "b/u2@1", "c/u3@1")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow := take(ctx, s, Subscription[*thing]{Policy: Block, Limit: 1})
		slow.some(3) // the snapshot and Synced
		done := false
		go func() {
			list(s, "9", "d/u4@8", "e/u5@8", "c/u3@1")
			done = true
		}()
		for want := range 5 { // d, e, a and b gone, Synced
			synctest.Wait()
			if depth := s.deliveryStats().depth; depth != 1 || done != (want == 4) {
				t.Errorf("after %d events %d are pending, the list is over: %t", want, depth, done)
			}
			if got := len(slow.got) - 4; got != want {
				t.Errorf("%d events were read, want %d", got, want)
			}
			slow.some(1)
		}
		if !done || s.Len() != 3 {
			t.Errorf("the list is over: %t, %d objects", done, s.Len())
		}
		text := strings.Join(slow.got[4:], " ")
		for _, part := range []string{"ADDED d/u4@8 ADDED e/u5@8 DELETED", "DELETED a/u1@1?", "DELETED b/u2@1?"} {
			if !strings.Contains(text, part) {
				t.Errorf("events %q, want %q among them", text, part)
			}
		}
		if last := slow.got[len(slow.got)-1]; last != "SYNCED@9" {
			t.Errorf("the last event is %s", last)
		}
		cancel()
		close(slow.allow)
		synctest.Wait()
	})
}

// relay is what a union has in the store of a member.
type relay struct{ to *Store[*thing] }

func (r relay) push(c change[*thing], _ time.Time) {
	if c.typ == Added || c.typ == Modified {
		r.to.testUpsert(c.e.obj.meta(), c.e.obj)
	}
}
func (relay) end()                    {}
func (relay) stats(time.Time) Mailbox { return Mailbox{} }
func (r relay) room() <-chan struct{} { return r.to.room() }

// The reflector of a store that feeds another one waits for the other one's subscribers, before it holds any lock.
func TestBlockReachesThroughAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member, stop := blockable()
		defer stop()
		union := NewStore[*thing]()
		member.mu.Lock()
		member.joinLocked(relay{union}, time.Now())
		member.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		slow := take(ctx, union, Subscription[*thing]{Policy: Block, Limit: 2})
		written := writer(member, 2, 10)
		if n := written(); n != 3 {
			t.Errorf("%d changes were made, want 3: one is read, two are pending", n)
		}
		wantContents(t, member, "a/u1@4")
		wantContents(t, union, "a/u1@4")
		slow.some(2)
		if n := written(); n != 5 {
			t.Errorf("%d changes were made, want 5", n)
		}
		cancel()
		if n := written(); n != 9 {
			t.Errorf("%d changes were made after it left, want 9", n)
		}
		member.unsubscribe(relay{union})
		if n := member.blockers.Load(); n != 0 {
			t.Errorf("%d blockers are left", n)
		}
		close(slow.allow)
		synctest.Wait()
	})
}

// A wait that ends while Status asks whom it is for is not told as one for nobody.
func TestBlockingIsOver(t *testing.T) {
	s := NewStore[*thing]()
	s.delivery.wait.begin()
	if got := s.blocking(); got != "" {
		t.Errorf("Status says %q", got)
	}
}

// The time that a watch waited for a subscriber is no part of its bookmarks' cadence, which its idle limit follows.
func TestBlockedTimeIsNoCadence(t *testing.T) {
	var c cadence
	at := time.Now()
	c.bookmark(at, at.Add(time.Minute))
	c.waited = time.Hour
	c.bookmark(at, at.Add(time.Hour+2*time.Minute))
	c.bookmark(at, at.Add(time.Hour+3*time.Minute))
	if got := c.limit(); got != 3*time.Minute {
		t.Errorf("the limit is %v after bookmarks that came each minute, want 3m", got)
	}
}
