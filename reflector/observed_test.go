package reflector_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

func TestStatusOfAListUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
config page=2
> LIST rv= limit=2
< list 100 a@1 b@2 continue=t1 remaining=7
> LIST rv= limit=2 continue=t1
< hang
`, nil)
		s := r.Status()
		if s.State != reflector.StateListing || s.ListedItems != 2 || s.RemainingItems != 7 || s.Synced || s.Objects != 2 || !s.FreshAsOf.IsZero() {
			t.Errorf("status: %+v", s)
		}
		r.stop()
		if s := r.Status(); s.State != reflector.StateStopped || s.LastRestart.Reason != reason.Stopped || s.LastError != nil {
			t.Errorf("status after the end: %+v", s)
		}
	})
}

// "Status().FreshAsOf is the time up to which the store is known current."
func TestFreshAsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := startScript(t, `
> LIST rv=
< sleep 3s
< list 100 a@90
> WATCH rv=100
< sleep 10s
< BOOKMARK 105
< sleep 10s
< MODIFIED a@110
< sleep 10s
< ADDED Node:n@120
< hold
`, nil)
		for _, c := range []struct{ after, fresh time.Duration }{
			{4 * time.Second, 0}, // the start of the list's request, not its end
			{14 * time.Second, 13 * time.Second},
			{24 * time.Second, 23 * time.Second},
			{60 * time.Second, 23 * time.Second}, // a foreign object proves nothing
		} {
			time.Sleep(c.after - time.Since(began))
			synctest.Wait()
			if got := r.Status().FreshAsOf.Sub(began); got != c.fresh {
				t.Errorf("after %v: fresh as of %v, want %v", c.after, got, c.fresh)
			}
		}
		stats := r.Stats()
		if got := stats.LastBookmark.Sub(began); got != 13*time.Second {
			t.Errorf("last bookmark: %v", got)
		}
		if got := stats.LastByte.Sub(began); got != 33*time.Second {
			t.Errorf("last byte: %v", got)
		}
		r.stop()
		if got := r.Stats().LastByte.Sub(began); got != 33*time.Second {
			t.Errorf("last byte after the end: %v", got)
		}
	})
}

func TestStatusWhileBackingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
> LIST rv=
< 503 ServiceUnavailable retry=10s down
> LIST rv=
< list 100 a@1
> WATCH rv=100
< hold
`, nil)
		s, stats := r.Status(), r.Stats()
		wait := time.Until(s.NextAttempt)
		if s.State != reflector.StateBackingOff || wait < 10*time.Second || wait > 15*time.Second || stats.BackoffDelay != wait || s.Detail != "then Listing" {
			t.Errorf("status: %+v, wait %v, delay %v", s, wait, stats.BackoffDelay)
		}
		if s.LastRestart == nil || s.LastRestart.Reason != reason.ServerError || s.LastError == nil {
			t.Errorf("last restart: %+v", s.LastRestart)
		}
		time.Sleep(wait)
		synctest.Wait()
		s, stats = r.Status(), r.Stats()
		if s.State != reflector.StateWatching || !s.NextAttempt.IsZero() || stats.BackoffDelay != 0 || stats.BackoffTotal != wait {
			t.Errorf("after the wait: %+v, total %v, want %v", s, stats.BackoffTotal, wait)
		}
		if s.LastError == nil {
			t.Error("the last error is forgotten")
		}
		r.stop()
	})
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
config page=2
> LIST rv= limit=2
< sleep 1s
< list 100 a@1 b@2 continue=t1
> LIST rv= limit=2 continue=t1
< list 100 c@3
> WATCH rv=100
< sleep 20s
< MODIFIED a@101
< SYNC a@102
< BOOKMARK 103
< ERROR 410 Expired too old
< END
> LIST rv=103 limit=2
< 500 InternalError x
> LIST rv=103 limit=2
< list 110 a@101 b@2
> WATCH rv=110
< hold
`, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		s := r.Stats()
		if s.Lists["success"] != 3 || s.Lists["error"] != 1 || s.ListItems != 5 || s.ListSkips != 2 || s.Watches != 2 {
			t.Errorf("lists %v, items %d, skips %d, watches %d", s.Lists, s.ListItems, s.ListSkips, s.Watches)
		}
		if got := fmt.Sprint(s.Events); got != "map[BOOKMARK:1 ERROR:1 MODIFIED:1 UNKNOWN:1]" {
			t.Errorf("events %v", got)
		}
		if s.ListDuration.Count != 2 || s.ListDuration.Sum != time.Second {
			t.Errorf("list durations: %+v", s.ListDuration)
		}
		if s.WatchDuration.Count != 1 || s.WatchDuration.Sum != 20*time.Second {
			t.Errorf("watch durations: %+v", s.WatchDuration)
		}
		s.Lists["success"], s.Restarts[reason.Idle] = 99, 99 // a copy: nobody else sees it
		if again := r.Stats(); again.Lists["success"] != 3 || again.Restarts[reason.Idle] != 0 {
			t.Error("Stats hands out its own maps")
		}
		r.stop()
	})
}

func TestRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reg reflector.Registry
		join := func(c *reflector.Config[*corev1.Pod]) { c.Registry = &reg }
		one, two := startScript(t, healthy, join), startScript(t, healthy, join)
		if s := reg.Sources(); len(s) != 2 || s[0] != reflector.Source(one.podReflector) || s[1] != reflector.Source(two.podReflector) {
			t.Errorf("sources: %v", s)
		}
		one.stop()
		if s := reg.Sources(); len(s) != 1 || s[0] != reflector.Source(two.podReflector) {
			t.Errorf("sources after the first left: %v", s)
		}
		two.stop()
		if s := reg.Sources(); len(s) != 0 {
			t.Errorf("sources after both left: %v", s)
		}
	})
}
