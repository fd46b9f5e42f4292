package syncloop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	good := Config{Updates: make(chan podconfig.PodUpdate), Sources: files, Handler: &recorder{}}
	with := func(f func(*Config)) Config { c := good; f(&c); return c }
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{with(func(c *Config) { c.Updates = nil }), "Config.Updates is nil"},
		{with(func(c *Config) { c.Sources = nil }), "Config.Sources is empty"},
		{with(func(c *Config) { c.Handler = nil }), "Config.Handler is nil"},
		{with(func(c *Config) { c.SyncPeriod = -1 }), "Config.SyncPeriod is -1ns"},
		{with(func(c *Config) { c.HousekeepingPeriod = -1 }), "Config.HousekeepingPeriod is -1ns"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New: %v, want %q", err, c.want)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// TestDispatch: each operation goes to its method, DELETE to that of UPDATE;
// additions come in the order of their creation; the PodManager has been changed
// when the handler is called.
func TestDispatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		r := newRecorder()
		var l *Loop
		var known []int
		r.during = func(context.Context, string) { known = append(known, len(l.Pods().Pods())) }
		l = run(t, Config{Updates: updates, Sources: files, Handler: r})
		young, old := testPod("young", "1"), testPod("old", "2")
		young.CreationTimestamp = metav1.Unix(200, 0)
		old.CreationTimestamp = metav1.Unix(100, 0)
		updates <- initial(podconfig.FileSource, young, old)
		updates <- update(podconfig.Update, podconfig.FileSource, young)
		updates <- update(podconfig.Delete, podconfig.FileSource, old)
		updates <- update(podconfig.Reconcile, podconfig.FileSource, young)
		updates <- update(podconfig.Remove, podconfig.FileSource, old)
		r.want(t, "0s add old young", "0s update young", "0s update old", "0s reconcile young", "0s remove old")
		if !slices.Equal(known, []int{2, 2, 2, 2, 1}) {
			t.Errorf("pods known during the calls: %v", known)
		}
		if err := l.Run(t.Context()); !errors.Is(err, ErrAlreadyRun) {
			t.Errorf("the second Run: %v", err)
		}
	})
}

// TestHousekeeping: "Housekeeping comes only when every configured source has
// been handled", each 2 s from then on; an empty first state is one.
func TestHousekeeping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		r := newRecorder()
		r.cleanup = errBroken
		l := run(t, Config{Updates: updates, Sources: []podconfig.Source{podconfig.FileSource, podconfig.APIServerSource}, Handler: r})
		updates <- initial(podconfig.FileSource)
		updates <- update(podconfig.Add, podconfig.APIServerSource, testPod("a", "1")) // not its full state
		time.Sleep(5 * time.Second)
		if got := r.take(true); !slices.Equal(got, []string{"0s add a"}) {
			t.Errorf("calls %q", got)
		}
		if st := l.Status(); st.Ready || st.HousekeepingSkipped != 2 {
			t.Errorf("ready %t, skipped %d", st.Ready, st.HousekeepingSkipped)
		}
		updates <- initial(podconfig.APIServerSource)
		time.Sleep(4 * time.Second)
		if got := r.take(true); !slices.Equal(got, []string{"6s cleanup", "8s cleanup"}) {
			t.Errorf("calls %q", got)
		}
		if st := l.Status(); !st.Ready || st.CleanupErrors != 2 || st.Handled[Cleanups].Calls != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// TestDelayedSync: pods of the WorkQueue are synced with the first tick after
// their time, together, unless they are gone.
func TestDelayedSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		r := newRecorder()
		l := run(t, Config{Updates: updates, Sources: files, Handler: r})
		updates <- initial(podconfig.FileSource, testPod("a", "1"), testPod("b", "2"))
		r.take(true)
		l.Queue().Enqueue("1", 2500*time.Millisecond)
		l.Queue().Enqueue("2", 2100*time.Millisecond)
		l.Queue().Enqueue("3", 0) // nobody knows it
		time.Sleep(2900 * time.Millisecond)
		r.want(t)
		if st := l.Status(); st.Queued != 2 || st.Unknown != 1 {
			t.Errorf("queued %d, unknown %d", st.Queued, st.Unknown)
		}
		time.Sleep(time.Second)
		r.want(t, "3s sync b a")
		l.Queue().Enqueue("1", 0)
		l.Queue().Enqueue("1", 5*time.Second) // replaces
		time.Sleep(6 * time.Second)
		r.want(t, "9s sync a")
	})
}

// TestProbes: a liveness failure, and every change of readiness and startup,
// syncs the pod; results of pods that are gone are not for anybody.
func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		liveness, readiness, startup := make(chan ProbeResult), make(chan ProbeResult), make(chan ProbeResult)
		r := newRecorder()
		l := run(t, Config{Updates: updates, Sources: files, Handler: probeRecorder{r}, Liveness: liveness, Readiness: readiness, Startup: startup})
		updates <- initial(podconfig.FileSource, testPod("a", "1"))
		r.take(true)
		liveness <- ProbeResult{Pod: "1", ContainerID: "c", Success: true}
		r.want(t, "0s liveness c true a")
		liveness <- ProbeResult{Pod: "1", ContainerID: "c"}
		r.want(t, "0s liveness c false a", "0s sync a")
		for _, ok := range []bool{true, false} {
			readiness <- ProbeResult{Pod: "1", ContainerID: "c", Success: ok}
			startup <- ProbeResult{Pod: "1", ContainerID: "c", Success: ok}
		}
		r.want(t, "0s readiness c true a", "0s sync a", "0s startup c true a", "0s sync a",
			"0s readiness c false a", "0s sync a", "0s startup c false a", "0s sync a")
		readiness <- ProbeResult{Pod: "9"}
		close(startup) // and the loop does not spin on it
		close(liveness)
		time.Sleep(time.Second)
		r.want(t)
		if st := l.Status(); st.Unknown != 1 || st.Handled[Probes].Calls != 6 || st.Handled[Syncs].Calls != 5 {
			t.Errorf("%+v", st)
		}
		readiness <- ProbeResult{Pod: "1", ContainerID: "d"}
		r.want(t, "1s readiness d false a", "1s sync a")
	})
}

// TestPanic: "A handler that panics is caught and counted; the loop goes on with the next event."
func TestPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		r := newRecorder()
		r.during = func(_ context.Context, call string) {
			if strings.HasPrefix(call, "add") || call == "cleanup" {
				panic("index out of range")
			}
		}
		l := run(t, Config{Updates: updates, Sources: files, Handler: r})
		updates <- initial(podconfig.FileSource, testPod("a", "1"))
		updates <- update(podconfig.Update, podconfig.FileSource, testPod("a", "1"))
		time.Sleep(5 * time.Second)
		if got := r.take(true); !slices.Equal(got, []string{"0s add a", "0s update a", "2s cleanup", "4s cleanup"}) {
			t.Errorf("calls %q", got)
		}
		st := l.Status()
		if st.Handled[Additions].Panics != 1 || st.Handled[Cleanups].Panics != 2 || st.Handled[Updates].Panics != 0 || st.In != "" {
			t.Errorf("%+v", st)
		}
	})
}

// TestSlowHandler: "A handler that takes long delays the rest of the loop and
// nothing else: updates are merged by the PodConfig, ticks are skipped. Status
// shows the call and its age."
func TestSlowHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &chanSource{changes: make(chan podconfig.Change)}
		pc, err := podconfig.New(podconfig.Config{Sources: []podconfig.Producer{source}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- pc.Run(ctx) }()
		t.Cleanup(func() { // after the loop
			cancel()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
		r := newRecorder()
		r.during = func(ctx context.Context, call string) {
			if strings.HasPrefix(call, "add") {
				select {
				case <-time.After(10 * time.Minute):
				case <-ctx.Done():
				}
			}
		}
		l := run(t, Config{Updates: pc.Updates(), Sources: []podconfig.Source{podconfig.APIServerSource}, Handler: r})
		a := testPod("a", "1")
		source.changes <- podconfig.Change{Full: true, Initial: true, Pods: []*corev1.Pod{a}}
		for range 1000 {
			b := *a
			b.Labels = map[string]string{"at": time.Now().String()}
			source.changes <- podconfig.Change{Pods: []*corev1.Pod{&b}}
			time.Sleep(100 * time.Millisecond)
		}
		if err := l.Healthy(); err != nil {
			t.Errorf("after 100 s: %v", err)
		}
		if st := l.Status(); st.In != Additions || st.InPods != 1 || time.Since(st.InSince) != 100*time.Second {
			t.Errorf("in %q since %s", st.In, time.Since(st.InSince))
		}
		time.Sleep(5 * time.Minute)
		if err := l.Healthy(); err == nil || err.Error() != "syncloop: HandlePodAdditions of 1 pods has been running for 6m40s" {
			t.Errorf("Healthy: %v", err)
		}
		time.Sleep(200*time.Second + time.Second/2)
		// One merged update, and of the 300 ticks for housekeeping the one that was kept.
		got := r.take(true)
		slices.Sort(got[1:])
		if !slices.Equal(got, []string{"0s add a", "600s cleanup", "600s update a"}) {
			t.Errorf("calls %q", got)
		}
		if st := l.Status(); st.Handled[Additions].Longest != 10*time.Minute || l.Healthy() != nil {
			t.Errorf("%+v", st.Handled)
		}
	})
}

// chanSource is a producer that tells what it is given.
type chanSource struct{ changes chan podconfig.Change }

func (*chanSource) Source() podconfig.Source       { return podconfig.APIServerSource }
func (*chanSource) Status() podconfig.SourceStatus { return podconfig.SourceStatus{} }
func (s *chanSource) Run(ctx context.Context, tell func(podconfig.Change)) error {
	for {
		select {
		case ch := <-s.changes:
			tell(ch)
		case <-ctx.Done():
			return nil
		}
	}
}

// TestLifecycle: containers that start and die have their pod synced; what is
// removed, or not clear, or of a pod that nobody knows, has not.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		rt := &fakeRuntime{}
		pleg, err := NewPLEG(PLEGConfig{Runtime: rt})
		if err != nil {
			t.Fatal(err)
		}
		r := newRecorder()
		l := run(t, Config{Updates: updates, Sources: files, Handler: r, Lifecycle: pleg})
		updates <- initial(podconfig.FileSource, testPod("a", "1"))
		r.take(true)
		rt.set(func(f *fakeRuntime) { f.pods = containers("1/c=running", "2/d=running") })
		time.Sleep(1500 * time.Millisecond)
		r.want(t, "1s sync a")
		rt.set(func(f *fakeRuntime) { f.pods = containers("1/c=exited", "2/d=unknown") })
		time.Sleep(time.Second)
		r.want(t, "2s sync a")
		rt.set(func(f *fakeRuntime) { f.pods = nil })
		time.Sleep(time.Second)
		r.want(t)
		if st := l.Status(); st.Unknown != 2 {
			t.Errorf("%d events of pods that nobody knows, want 2 (started and died)", st.Unknown)
		}
	})
}

// TestPause: "While the runtime is not healthy nothing is handled; the loop looks
// again after 100 ms, doubling up to 5 s."
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate, 1)
		rt := &fakeRuntime{err: errBroken}
		pleg, err := NewPLEG(PLEGConfig{Runtime: rt})
		if err != nil {
			t.Fatal(err)
		}
		r := newRecorder()
		var log strings.Builder
		l := run(t, Config{Updates: updates, Sources: files, Handler: r, Lifecycle: pleg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		updates <- initial(podconfig.FileSource, testPod("a", "1"))
		time.Sleep(6*time.Minute + 50*time.Millisecond)
		r.want(t)
		if st := l.Status(); st.Paused != "the container runtime was not listed yet: broken" || time.Since(st.PausedSince) < 6*time.Minute {
			t.Errorf("paused %q since %s", st.Paused, st.PausedSince)
		}
		if err := l.Healthy(); err == nil || !strings.Contains(err.Error(), "nothing has been handled for 6m0s: the container runtime was not listed yet: broken") {
			t.Errorf("Healthy: %v", err)
		}
		rt.set(func(f *fakeRuntime) { f.err = nil })
		time.Sleep(6 * time.Second) // one relist, and one look
		got := r.take(false)
		if len(got) != 1 || !strings.HasSuffix(got[0], " add a") {
			t.Errorf("calls %q", got)
		}
		if st := l.Status(); st.Paused != "" || l.Healthy() != nil {
			t.Errorf("still paused: %q", st.Paused)
		}
		// A runtime that hangs pauses the loop when the last relist is too old.
		rt.set(func(f *fakeRuntime) { f.hangs = true })
		time.Sleep(3*time.Minute + 10*time.Second)
		if st := l.Status(); !strings.Contains(st.Paused, "it does not answer") {
			t.Errorf("paused %q", st.Paused)
		}
		synctest.Wait()
		begins, ends := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=INFO")
		if begins != 2 || ends != 1 {
			t.Errorf("the log has %d pauses that begin and %d that end, want 2 and 1:\n%s", begins, ends, log.String())
		}
	})
}

// slowLifecycle needs a moment to end.
type slowLifecycle struct {
	brokenLifecycle
	ended bool
}

func (s *slowLifecycle) Run(ctx context.Context) error {
	<-ctx.Done()
	time.Sleep(50 * time.Millisecond)
	s.ended = true
	return errors.New("interrupted") // as is no failure then
}

// brokenLifecycle fails after a second.
type brokenLifecycle struct{}

func (brokenLifecycle) Events() <-chan LifecycleEvent { return nil }
func (brokenLifecycle) Healthy() error                { return nil }
func (brokenLifecycle) Run(context.Context) error     { time.Sleep(time.Second); return errBroken }

// TestRunEnds: with the updates, or with an error of the lifecycle events.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan podconfig.PodUpdate)
		l, err := New(Config{Updates: updates, Sources: files, Handler: newRecorder()})
		if err != nil {
			t.Fatal(err)
		}
		close(updates)
		if err := l.Run(t.Context()); !errors.Is(err, ErrUpdatesClosed) {
			t.Errorf("Run: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		slow := &slowLifecycle{}
		l, err = New(Config{Updates: make(chan podconfig.PodUpdate), Sources: files, Handler: newRecorder(), Lifecycle: slow})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(ctx); err != nil || !slow.ended {
			t.Errorf("Run: %v, waited for the lifecycle events: %t", err, slow.ended)
		}
		l, err = New(Config{Updates: make(chan podconfig.PodUpdate), Sources: files, Handler: newRecorder(), Lifecycle: brokenLifecycle{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(t.Context()); !errors.Is(err, errBroken) || err.Error() != "syncloop: lifecycle events: broken" {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestStopFromAnyPoint: Run ends with its context while it waits, while it is
// paused, while the runtime hangs, and while a handler runs that heeds it.
func TestStopFromAnyPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"waiting", "paused", "relist", "handler", "closed"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				updates := make(chan podconfig.PodUpdate, 1)
				rt := &fakeRuntime{}
				r := newRecorder()
				switch point {
				case "paused":
					rt.err = errBroken
				case "relist":
					rt.hangs = true
				case "handler":
					r.during = func(ctx context.Context, _ string) { <-ctx.Done() }
				}
				pleg, err := NewPLEG(PLEGConfig{Runtime: rt})
				if err != nil {
					t.Fatal(err)
				}
				l, err := New(Config{Updates: updates, Sources: files, Handler: r, Lifecycle: pleg})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- l.Run(ctx) }()
				if point != "closed" {
					updates <- initial(podconfig.FileSource, testPod("a", "1"))
				}
				time.Sleep(10 * time.Second)
				begin := time.Now()
				cancel()
				if point == "closed" {
					close(updates) // as a PodConfig does that ends with the same context
				}
				if err := <-done; err != nil || time.Since(begin) > 100*time.Millisecond {
					t.Errorf("Run: %v after %s", err, time.Since(begin))
				}
			})
		})
	}
}
