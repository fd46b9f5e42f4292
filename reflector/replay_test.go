package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// L8: replay of 10,000 objects in 10 s: spread, flagged, off by default, in step with the period, and without a goroutine.
func TestReplay(t *testing.T) {
	for _, as := range []Objects{ObjectsShared, ObjectsCompact} {
		t.Run(as.String(), func(t *testing.T) {
			const objects, period, periods = 10_000, 10 * time.Second, 2
			synctest.Test(t, func(t *testing.T) {
				keep := kept(t, as)
				s := NewStore[*thing]()
				rep := s.beginReplace()
				for i := range objects {
					o := newThing(fmt.Sprintf("p%05d/u%d@%d", i, i, i+1))
					rep.put(nil, metaOf(o), keep(o))
				}
				rep.commit("99999", false)
				began := time.Now()
				times := map[string][]time.Duration{} // of each replay
				first := 0
				ctx, cancel := context.WithTimeout(t.Context(), periods*period+time.Millisecond/2)
				defer cancel()
				goroutines := runtime.NumGoroutine()
				go func() {
					time.Sleep(period / 2)
					if n := runtime.NumGoroutine(); n > goroutines+1 {
						t.Errorf("%d goroutines, %d before, and this one", n, goroutines)
					}
				}()
				for ev := range s.events(ctx, Subscription[*thing]{Replay: period}, slog.New(slog.DiscardHandler)) {
					if !ev.Replay {
						if first++; time.Since(began) != 0 {
							t.Fatalf("%s after %v", describe(ev), time.Since(began))
						}
						continue
					}
					if ev.Type != Modified || ev.Object != ev.Old || ev.Initial || ev.FinalStateUnknown {
						t.Fatalf("%s: %+v; want Modified with Old the same object", describe(ev), ev)
					}
					times[describe(ev)] = append(times[describe(ev)], time.Since(began))
				}
				if first != objects+1 || len(times) != objects {
					t.Fatalf("%d events first, %d objects replayed; want %d and Synced, and each of them", first, len(times), objects)
				}
				slots := make([]int, periods*10)
				for what, at := range times {
					if len(at) != periods {
						t.Fatalf("%s was replayed at %v, want once in each period", what, at)
					}
					for i, a := range at {
						slots[min(int((a-1)/time.Second), len(slots)-1)]++
						if i > 0 && a-at[i-1] != period {
							t.Fatalf("%s was replayed at %v, want a period between", what, at)
						}
					}
				}
				for i, n := range slots {
					if n < objects/10-1 || n > objects/10+1 {
						t.Errorf("%d replays in second %d, want %d", n, i, objects/10)
					}
				}
			})
		})
	}
}

// replaying is a subscription whose replays are read step by step.
type replaying struct {
	*deliverer[*thing]
	s *Store[*thing]
}

func (r replaying) tell() []string {
	return r.told(func(ev Event[*thing]) string {
		if ev.Replay {
			return "replay " + ev.Object.String()
		}
		return describe(ev)
	})
}

func newReplaying(where func(*thing) bool, objects ...string) replaying {
	s := NewStore[*thing]()
	list(s, "9", objects...)
	d := s.deliver(Subscription[*thing]{Limit: 100, Replay: 10 * time.Second, Where: where}, slog.New(slog.DiscardHandler))
	return replaying{d, s}
}

// Replays give way to changes: an object is told again in the version that the subscriber knows.
func TestReplayGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(nil, "a/u1@1", "b/u2@2", "c/u3@3", "d/u4@4")
		if got := r.tell(); len(got) != 5 {
			t.Fatalf("first came %q", got)
		}
		time.Sleep(2500 * time.Millisecond)
		wantEvents(t, r.tell(), "replay a/u1@1")
		wantEvents(t, r.tell())
		// b is due, and a change of it is pending; so is one of what was replayed, and one that is new.
		upsertThing(r.s, "b/u2@5")
		upsertThing(r.s, "a/u1@6")
		upsertThing(r.s, "n/u5@7")
		time.Sleep(2500 * time.Millisecond)
		wantEvents(t, r.tell(), "MODIFIED b/u2@5<2", "MODIFIED a/u1@6<1", "ADDED n/u5@7", "replay b/u2@5")
		// What is gone is not replayed, nor does it hold up the next.
		removeThing(r.s, "c/u3@8")
		time.Sleep(2500 * time.Millisecond)
		wantEvents(t, r.tell(), "DELETED c/u3@8")
		time.Sleep(2500 * time.Millisecond)
		wantEvents(t, r.tell(), "replay d/u4@4")
		// The next period has what is there then.
		time.Sleep(2500 * time.Millisecond)
		got := r.tell()
		if len(got) == 0 || got[0] != "replay a/u1@6" {
			t.Errorf("the next period begins with %q", got)
		}
	})
}

// Between looking at the mailbox and at the store nothing can come: what is told again is what the
// subscriber was told last, whenever the change comes.
func TestReplayIsAtomicAgainstChanges(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "9", "a/u1@1")
	d := s.deliver(Subscription[*thing]{Limit: 3, Replay: time.Second}, slog.New(slog.DiscardHandler))
	d.told(describe)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rv := 10; rv < 5000; rv++ {
			upsertThing(s, fmt.Sprintf("a/u1@%d", rv))
		}
	}()
	last, replays := "1", 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		d.replay.began = time.Now().Add(-time.Second) // each time that one looks it is due
		d.replay.pass, d.replay.told = d.replay.list(d), 0
		for {
			ev, ok, _ := d.take()
			if !ok {
				break
			}
			if ev.Replay {
				replays++
				if ev.Object.rv != last {
					t.Fatalf("replay of %s, the subscriber was told %s last", ev.Object, last)
				}
				break
			}
			last = ev.Object.rv
		}
	}
	if replays == 0 {
		t.Error("nothing was replayed")
	}
}

// What was late shifts the rest, and does not come in a heap.
func TestReplayAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []string
		for i := range 1000 {
			objects = append(objects, fmt.Sprintf("p%03d/u%d@1", i, i))
		}
		r := newReplaying(nil, objects...)
		r.tell()
		time.Sleep(time.Minute) // the subscriber was busy
		if n := len(r.tell()); n < 1 || n > 1000/replaySlack+1 {
			t.Errorf("%d replays at once after a minute, want at most a hundredth of all", n)
		}
		n := 0
		for range 99 {
			time.Sleep(100 * time.Millisecond)
			n += len(r.tell())
		}
		if n < 980 || n > 1000 {
			t.Errorf("%d replays in the 9.9 s after it, want about 990", n)
		}
	})
}

// Only what matches is replayed, spread over the whole period.
func TestReplayWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaying(even, "a/u1@1", "b/u2@2", "c/u3@3", "d/u4@4")
		r.tell()
		time.Sleep(5 * time.Second)
		wantEvents(t, r.tell(), "replay b/u2@2")
		upsertThing(r.s, "d/u4@5")
		upsertThing(r.s, "a/u1@6")
		time.Sleep(5 * time.Second)
		wantEvents(t, r.tell(), "DELETED d/u4@5<4", "ADDED a/u1@6")
		time.Sleep(5 * time.Second)
		wantEvents(t, r.tell(), "replay a/u1@6")
	})
}

// Before the first Synced, and in an empty collection, nothing is replayed; the wait costs nothing.
func TestReplayWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		upsertThing(s, "a/u1@1")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		go func() {
			for ev := range s.events(ctx, Subscription[*thing]{Replay: 10 * time.Second}, slog.New(slog.DiscardHandler)) {
				got = append(got, fmt.Sprintf("%v %s %t", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), describe(ev), ev.Replay))
			}
		}()
		time.Sleep(time.Minute)
		list(s, "5")
		time.Sleep(61 * time.Second)
		upsertThing(s, "b/u2@6")
		time.Sleep(20 * time.Second) // the next period begins, and ends
		synctest.Wait()
		want := []string{"0s ADDED a/u1@1 false", "1m0s DELETED a/u1@1? false", "1m0s SYNCED@5 false", "2m1s ADDED b/u2@6 false", "2m20s MODIFIED b/u2@6<6 true"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		cancel()
		synctest.Wait()
	})
}

// A replay comes to OnUpdate.
func TestReplayComesToOnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore[*thing]()
		list(s, "5", "a/u1@1")
		n := 0
		h := Handler[*thing]{Subscription: Subscription[*thing]{Replay: time.Second}, OnUpdate: func(ev Event[*thing]) {
			if n++; !ev.Replay || n == 3 {
				s.end()
			}
		}}
		if err := s.handle(t.Context(), &h, slog.New(slog.DiscardHandler)); err != nil || n != 3 {
			t.Errorf("%d replays, %v", n, err)
		}
	})
}
