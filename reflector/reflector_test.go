package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

type podReflector = reflector.Reflector[*corev1.Pod]

// started is a reflector that runs against a script.
type started struct {
	*podReflector
	lw   *scripted
	log  *logged
	stop func() // ends Run and waits for it
}

// startScript runs a reflector against a script; change may alter its configuration.
// It is called inside a synctest bubble.
func startScript(t *testing.T, text string, change func(*reflector.Config[*corev1.Pod])) started {
	t.Helper()
	script, err := listwatchtest.ParseScript(t.Name(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	st := started{lw: newScripted(t, script, listwatch.EncodingAuto), log: &logged{}}
	c := scriptConfig(t, script, st.lw, st.log)
	if change != nil {
		change(&c)
	}
	r, err := reflector.New(c)
	if err != nil {
		t.Fatal(err)
	}
	st.podReflector = r
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	st.stop = func() {
		cancel()
		<-done
		st.lw.close(t)
	}
	synctest.Wait()
	return st
}

const healthy = `
> LIST rv=
< list 100 a@90 b@91
> WATCH rv=100
< hold
`

// G4: "Run twice is an error."
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops := 0
		r := startScript(t, healthy, func(c *reflector.Config[*corev1.Pod]) { c.OnStop = func() { stops++ } })
		if err := r.Run(t.Context()); !errors.Is(err, reflector.ErrAlreadyRun) {
			t.Errorf("the second Run: %v", err)
		}
		if stops != 0 {
			t.Error("OnStop was called while the reflector runs")
		}
		r.stop()
		if err := r.Run(t.Context()); !errors.Is(err, reflector.ErrAlreadyRun) {
			t.Errorf("a Run after the end: %v", err)
		}
		if stops != 1 {
			t.Errorf("OnStop was called %d times, want once", stops)
		}
	})
}

func TestStoreOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := startScript(t, healthy, nil)
		r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: first.lw, Store: first.Store(), Name: "second"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "second") {
			t.Errorf("Run with another's Store: %v", err)
		}
		if err := r.WaitForSync(t.Context()); !errors.Is(err, reflector.ErrStopped) {
			t.Errorf("WaitForSync: %v", err)
		}
		first.stop()
	})
}

func TestWaitForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
> LIST rv=
< sleep 3s
< list 100 a@90
> WATCH rv=100
< hold
`, nil)
		began := time.Now()
		if err := r.WaitForSync(t.Context()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, ok := r.Store().Get("default", "a"); !ok {
			t.Error("synced, and the store does not have the object")
		}
		r.stop()
		if err := r.WaitForSync(t.Context()); err != nil {
			t.Errorf("a snapshot that is there counts after the end too: %v", err)
		}
	})
}

// The Go type or Kind is not the resource's: the error says so, and nothing is taken for an empty collection.
func TestWaitForSyncSaysThatTheKindIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
config initial=watchlist backoff=10s..10s
> WATCHLIST rv=
< ADDED Node:node-x@91 Node:node-y@92
< MARK 100
< hold
`, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := r.WaitForSync(ctx)
		var e *listwatch.Error
		if !errors.As(err, &e) || e.Reason != reason.Decode || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v, want the deadline and an error with reason decode", err)
		}
		const want = `list pods: the server sent 2 objects, of kind "Node" and none of kind "Pod": do the Go type and Kind fit the resource?`
		s := r.Status()
		if s.Synced || s.LastError == nil || s.LastError.Error() != want {
			t.Errorf("synced %v, the last error is %v, want %s", s.Synced, s.LastError, want)
		}
		r.stop()
	})
}

// Before Run nothing can come: a wait that ends then says what is missing.
func TestWaitForSyncWithoutRun(t *testing.T) {
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: &listwatch.ListerWatcher[*corev1.Pod]{}, Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.WaitForSync(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "Run was not called") {
		t.Errorf("WaitForSync without Run: %v", err)
	}
}

// H3: 403, WaitForSync with a deadline: an error that errors.As finds as Forbidden.
func TestWaitForSyncSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
> LIST rv= times=2
< 403 Forbidden User "tester" cannot list resource "pods"
`, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.WaitForSync(ctx)
		var e *listwatch.Error
		if !errors.As(err, &e) || e.Reason != reason.Forbidden || !apierrors.IsForbidden(err) {
			t.Errorf("no Forbidden in %v", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no DeadlineExceeded in %v", err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
		cause := errors.New("enough")
		ctx2, cancel2 := context.WithCancelCause(t.Context())
		cancel2(cause)
		if err := r.WaitForSync(ctx2); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
			t.Errorf("the caller's cause is not in %v", err)
		}
		r.stop()
		if err := r.WaitForSync(t.Context()); !errors.Is(err, reflector.ErrStopped) || !errors.As(err, &e) {
			t.Errorf("after the end: %v", err)
		}
	})
}

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

// M2: "Everything stops within 100 ms of its context, from any point (dial,
// header wait, mid-body, backoff, handler)."
func TestStopFromAnyPoint(t *testing.T) {
	const listed = "> LIST rv=\n< list 100 a@90\n"
	for name, text := range map[string]string{
		"list without an answer":   "> LIST rv=\n< hang",
		"watch without an answer":  listed + "> WATCH rv=100\n< hang",
		"mid-body":                 listed + "> WATCH rv=100\n< MODIFIED a@101\n< hold",
		"mid-event":                listed + "> WATCH rv=100\n< raw {\"type\":\"ADD\n< hold",
		"watch-list, no answer":    "config initial=auto\n> WATCHLIST rv=\n< hang",
		"watch-list, no mark":      "config initial=auto\n> WATCHLIST rv=\n< ADDED a@90\n< hold",
		"backoff":                  "> LIST rv=\n< 503 ServiceUnavailable retry=60s x",
		"backoff after a refusal":  listed + "> WATCH rv=100\n< 403 Forbidden x",
		"after the mark":           "config initial=auto\n> WATCHLIST rv=\n< ADDED a@90\n< MARK 100\n< hold",
		"between two pages":        "config page=1\n> LIST rv= limit=1\n< list 100 a@90 continue=t\n> LIST rv= limit=1 continue=t\n< hang",
		"busy stream":              listed + "> WATCH rv=100\n< churn 1ms 100000 a 101",
		"stream that never breaks": listed + "> WATCH rv=100\n< beat 1s 100000 101",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startScript(t, text, nil)
				time.Sleep(50 * time.Millisecond)
				began := time.Now()
				r.stop()
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("stopping took %v", d)
				}
				if s := r.Status(); s.State != reflector.StateStopped || s.LastRestart.Reason != reason.Stopped {
					t.Errorf("status: %+v", s)
				}
				if n := r.Stats().Restarts[reason.Stopped]; n != 1 {
					t.Errorf("stopped counts %d", n)
				}
			})
		})
	}
}

// "from any point": also in the middle of a list whose items are in memory.
func TestStopInTheMiddleOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		script, err := listwatchtest.ParseScript(t.Name(), []byte("> LIST rv=\n< list 100 a@1 b@2 c@3"))
		if err != nil {
			t.Fatal(err)
		}
		lw := newScripted(t, script, listwatch.EncodingAuto)
		defer lw.close(t)
		c := scriptConfig(t, script, lw, io.Discard)
		c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			cancel()
			return p, nil
		}
		r, err := reflector.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := r.Store().Len(); n != 1 {
			t.Errorf("%d items were taken after the end, want only the one under way", n)
		}
		if r.Status().Synced {
			t.Error("a list that was broken off is no snapshot")
		}
	})
}

// stubborn is a ListerWatcher whose stream does not end with its context.
type stubborn struct{ *scripted }

type deafBody struct {
	closed chan struct{}
	once   sync.Once
}

func (b *deafBody) Read([]byte) (int, error) { <-b.closed; return 0, io.ErrClosedPipe }
func (b *deafBody) Close() error             { b.once.Do(func() { close(b.closed) }); return nil }

func (s stubborn) Watch(context.Context, metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		return nil, err
	}
	return streamwatcher.New(streamwatcher.Config[*corev1.Pod]{
		Body: &deafBody{closed: make(chan struct{})}, ContentType: "application/json", Decoder: dec,
	})
}

func TestStreamThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, "> LIST rv=\n< list 100 a@1", func(c *reflector.Config[*corev1.Pod]) {
			c.ListerWatcher = stubborn{c.ListerWatcher.(*scripted)}
			c.WatchTimeout, c.IdleTimeout = time.Second, time.Hour
		})
		time.Sleep(5 * time.Second)
		if n := r.Stats().Restarts[reason.Deadline]; n == 0 {
			t.Error("the deadline did not end the stream")
		}
		began := time.Now()
		r.stop()
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("stopping took %v", d)
		}
	})
}

// M4: a handler blocks 5 s, idle limit 2 s, bookmarks each second: no
// reconnect. "A read watchdog, armed only while blocked on a read."
func TestSlowConsumersAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
config idle-timeout=2s
> LIST rv=
< list 100 a@90
> WATCH rv=100
< MODIFIED a@101
< beat 1s 60 102
< hold
`, func(c *reflector.Config[*corev1.Pod]) {
			c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
				time.Sleep(5 * time.Second)
				return p, nil
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			for range r.Events(t.Context()) {
				time.Sleep(time.Minute) // a handler
			}
		})
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if s := r.Status(); s.State != reflector.StateWatching || s.ResourceVersion != "102" || s.LastRestart != nil {
			t.Errorf("status: %+v, last restart %+v", s, s.LastRestart)
		}
		r.stop()
		wg.Wait()
	})
}

// L5: a counting transform over list, watch, relist: exactly once for each
// received object, before it is visible. What the store has already is not
// received: "no event, no decode, no allocation".
func TestTransformOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		store := reflector.NewStore[*corev1.Pod]()
		r := startScript(t, `
> LIST rv=
< list 100 a@90 b@91
> WATCH rv=100
< sleep 1s
< MODIFIED a@102
< MODIFIED a@102
< MODIFIED a@101
< MODIFIED a@99
< DELETED b@102
< DELETED b@102
< ADDED Node:n@103
< ADDED c@104!
< ERROR 410 Expired too old
< END
> LIST rv=104
< list 200 a@102 d@150
> WATCH rv=200
< hold
`, func(c *reflector.Config[*corev1.Pod]) {
			c.Store = store
			c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
				got = append(got, show(p))
				if have, ok := store.Get(p.Namespace, p.Name); ok && have.ResourceVersion == p.ResourceVersion {
					t.Errorf("%s is visible before it was transformed", show(p))
				}
				p.Labels = map[string]string{"transformed": "yes"}
				return p, nil
			}
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []string{"a@90", "b@91", "a@102", "b@102", "d@150"}; !slices.Equal(got, want) {
			t.Errorf("transformed %v, want %v", got, want)
		}
		for _, p := range r.Store().All() {
			if p.Labels["transformed"] != "yes" {
				t.Errorf("%s was not transformed", show(p))
			}
		}
		r.stop()
	})
}

// A panic of an index function is one of the caller's functions too: the
// object is quarantined, and the loop goes on.
func TestIndexPanicIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, `
> LIST rv=
< list 100 a@90 b@91=Bad
> WATCH rv=100
< MODIFIED a@101=Bad
< MODIFIED b@102
< hold
`, func(c *reflector.Config[*corev1.Pod]) {
			c.Store = reflector.NewStore(reflector.Index[*corev1.Pod]{Name: "i", Values: func(p *corev1.Pod) []string {
				if p.Status.Phase == "Bad" {
					panic("index of " + p.Name)
				}
				return nil
			}})
		})
		s := r.Status()
		if len(s.Quarantined) != 1 || s.Quarantined[0].Key.Name != "a" || s.Objects != 2 || r.Stats().Panics != 2 {
			t.Errorf("status: %+v, %d panics", s, r.Stats().Panics)
		}
		if !strings.Contains(r.log.String(), "index of a") {
			t.Error("the panic is not in the log")
		}
		r.stop()
	})
}

// flapping is a server whose watches bring one event and end.
type flapping struct {
	dec decode.Decoder[*corev1.Pod]
	n   int
}

func (f *flapping) List(_ context.Context, _ metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	meta := metav1.ListMeta{ResourceVersion: "1"}
	return meta, sink.Meta(meta)
}

func (f *flapping) Watch(context.Context, metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	f.n++
	line := fmt.Sprintf("{\"type\":\"ADDED\",\"object\":%s}\n", object(fmt.Sprintf("p%d@%d", f.n%7, f.n+1)))
	return streamwatcher.New(streamwatcher.Config[*corev1.Pod]{
		Body: io.NopCloser(strings.NewReader(line)), ContentType: "application/json", Decoder: f.dec,
	})
}

// Memory does not grow over 10,000 reconnects, and no goroutine is left.
func TestTenThousandReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dec, err := decode.New[*corev1.Pod]()
		if err != nil {
			t.Fatal(err)
		}
		lw := &flapping{dec: dec}
		r, err := reflector.New(reflector.Config[*corev1.Pod]{
			ListerWatcher: lw, Resource: "pods", InitialSync: reflector.InitialList,
			Backoff: reflector.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		reach := func(watches uint64) (heap uint64, goroutines int) {
			for r.Stats().Watches < watches {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, runtime.NumGoroutine()
		}
		heap0, goroutines0 := reach(500)
		heap1, goroutines1 := reach(10500)
		if heap1 > heap0+512<<10 {
			t.Errorf("the heap grew from %d to %d bytes over 10,000 reconnects", heap0, heap1)
		}
		if goroutines1 > goroutines0 {
			t.Errorf("goroutines grew from %d to %d", goroutines0, goroutines1)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := r.Store().Len(); n != 7 {
			t.Errorf("%d objects, want 7", n)
		}
	})
}
