package reflector_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// "A read watchdog, armed only while blocked on a read": a reflector that waits 40 s at a time for a
// subscriber has an idle limit of 2 s, and bookmarks each second. The wait is no part of the bookmarks' cadence.
func TestBlockedWatchIsNotIdle(t *testing.T) {
	for _, idle := range []string{"2s", "0s"} {
		t.Run("idle-timeout="+idle, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startScript(t, `
config idle-timeout=`+idle+`
> LIST rv=
< sleep 1s
< list 100 a@90
> WATCH rv=100
< MODIFIED a@101
< MODIFIED a@102
< MODIFIED a@103
< MODIFIED a@104
< beat 1s 300 104
< hold
`, nil)
				var got []string
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				wg.Go(func() {
					for ev := range r.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{Name: "slow", Policy: reflector.Block, Limit: 1}) {
						got = append(got, describe(ev))
						if len(got) < 6 {
							time.Sleep(40 * time.Second)
						}
					}
				})
				time.Sleep(60 * time.Second)
				synctest.Wait()
				if s := r.Status(); s.State != reflector.StateWatching || !strings.Contains(s.Detail, `1 blocking subscribers ("slow")`) {
					t.Errorf("state %s, %q; want it to say for whom it waits", s.State, s.Detail)
				}
				if c := r.Stats(); c.BlockedSince.IsZero() || c.BlockedTotal != 59*time.Second || len(c.Mailboxes) != 1 || c.Mailboxes[0].BlockedSince.IsZero() {
					t.Errorf("stats: blocked since %v for %v, mailboxes %+v", c.BlockedSince, c.BlockedTotal, c.Mailboxes)
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				want := []string{"ADDED a@90", "SYNCED 100", "MODIFIED a@101", "MODIFIED a@102", "MODIFIED a@103", "MODIFIED a@104"}
				if !slices.Equal(got, want) {
					t.Errorf("events %q, want each version: %q", got, want)
				}
				if s := r.Status(); s.LastRestart != nil || s.Detail != "" || s.ResourceVersion != "104" {
					t.Errorf("status: %+v, last restart %+v", s, s.LastRestart)
				}
				cancel()
				wg.Wait()
				r.stop()
			})
		})
	}
}

// Waiting for a subscriber is no wait for the mark of a watch-list.
func TestBlockedWatchListDoesNotMissItsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
config initial=watchlist
> WATCHLIST rv=
< sleep 1s
< ADDED a@90
< MODIFIED a@91
< MODIFIED a@92
< MODIFIED a@93
< MARK 100
< hold
`, func(c *reflector.Config[*corev1.Pod]) { c.WatchTimeout, c.IdleTimeout = time.Hour, time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		n := 0
		wg.Go(func() {
			for range r.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{Policy: reflector.Block, Limit: 1}) {
				n++
				time.Sleep(2 * time.Minute)
			}
		})
		time.Sleep(6*time.Minute + 15*time.Second)
		synctest.Wait()
		if s := r.Status(); !s.Synced || s.LastRestart != nil || n != 4 {
			t.Errorf("synced: %t, last restart %+v, %d events", s.Synced, s.LastRestart, n)
		}
		cancel()
		wg.Wait()
		r.stop()
	})
}

// M2: "everything stops within 100 ms of its context, from any point", a wait for a subscriber too.
func TestBlockedReflectorStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
> LIST rv=
< sleep 1s
< list 100 a@90 b@91 c@92 d@93
`, nil)
		seen := 0
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for range r.Subscribe(context.Background(), reflector.Subscription[*corev1.Pod]{Policy: reflector.Block, Limit: 1}) {
				seen++
				<-release
			}
		})
		time.Sleep(time.Hour)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v to stop", took)
		}
		if s := r.Status(); s.State != reflector.StateStopped || s.LastRestart == nil || s.LastRestart.Reason != reason.Stopped {
			t.Errorf("status %+v", s)
		}
		close(release)
		wg.Wait()
	})
}

// "10,000 subscribe/unsubscribe cycles leave goroutines as they were", and memory, with every kind of subscription.
func TestSubscribeCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, healthy, func(c *reflector.Config[*corev1.Pod]) {
			c.Retain = reflector.Retain{For: time.Hour}
			c.WatchTimeout, c.IdleTimeout = 1000*time.Hour, 1000*time.Hour
		})
		cycle := func(i int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sub := reflector.Subscription[*corev1.Pod]{Name: fmt.Sprint(i), Policy: reflector.Policy(i % 3), Limit: 1 + i%5}
			if i%2 == 0 {
				sub.Where = func(*corev1.Pod) bool { return true }
			}
			if i%7 == 0 {
				sub.Replay = time.Minute
			}
			n := 0
			for range r.Subscribe(ctx, sub) {
				if n++; n == 1+i%4 {
					switch { // its own end, its context's, or a replay first
					case i%4 == 3 && sub.Replay == 0:
						cancel()
					default:
						return
					}
				}
				if n == 3 && sub.Replay == 0 {
					return // nothing more would come
				}
			}
		}
		measure := func() (heap uint64, goroutines int) {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, runtime.NumGoroutine()
		}
		for i := range 500 {
			cycle(i)
		}
		heap0, goroutines0 := measure()
		for i := range 10_000 {
			cycle(i)
		}
		heap1, goroutines1 := measure()
		if heap1 > heap0+256<<10 {
			t.Errorf("the heap grew from %d to %d bytes", heap0, heap1)
		}
		if goroutines1 > goroutines0 {
			t.Errorf("goroutines grew from %d to %d", goroutines0, goroutines1)
		}
		if c := r.Stats(); c.Subscribers != 0 || len(c.Mailboxes) != 0 {
			t.Errorf("%d subscribers are left", c.Subscribers)
		}
		r.stop()
	})
}

// The same for 2,000 reflectors that start, have a subscriber, and stop; 10,000 without one are in the tests of the metrics.
func TestStartStopCycles(t *testing.T) {
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	lw := &flapping{dec: dec}
	cycle := func(t *testing.T) {
		r, err := reflector.New(reflector.Config[*corev1.Pod]{
			ListerWatcher: lw, Resource: "pods", InitialSync: reflector.InitialList,
			Retain: reflector.Retain{For: time.Hour, Max: 10},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		for ev := range r.Subscribe(context.Background(), reflector.Subscription[*corev1.Pod]{Policy: reflector.Block, Replay: time.Second}) {
			if ev.Type == reflector.Synced {
				cancel() // and the loop ends with the reflector
			}
		}
		wg.Wait()
	}
	cycles := func() {
		synctest.Test(t, func(t *testing.T) {
			for range 100 {
				cycle(t)
			}
		})
	}
	measure := func() (heap uint64, goroutines int) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	cycles()
	heap0, goroutines0 := measure()
	for range 20 {
		cycles()
	}
	heap1, goroutines1 := measure()
	if heap1 > heap0+256<<10 {
		t.Errorf("the heap grew from %d to %d bytes", heap0, heap1)
	}
	if goroutines1 > goroutines0 {
		t.Errorf("goroutines grew from %d to %d", goroutines0, goroutines1)
	}
}
