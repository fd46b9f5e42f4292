package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

func testPod(name, uid string, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(uid)}}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, annotations[i], annotations[i+1])
	}
	return p
}

func update(op podconfig.Op, s podconfig.Source, pods ...*corev1.Pod) podconfig.PodUpdate {
	return podconfig.PodUpdate{Op: op, Source: s, Pods: pods}
}

func initial(s podconfig.Source, pods ...*corev1.Pod) podconfig.PodUpdate {
	return podconfig.PodUpdate{Op: podconfig.Add, Source: s, Pods: pods, Initial: true}
}

// recorder is a handler that writes down its calls, with the seconds since it was made.
type recorder struct {
	start time.Time
	// during, when set, is called inside each call.
	during func(ctx context.Context, call string)
	// cleanup is what HandlePodCleanups returns.
	cleanup error

	mu    sync.Mutex
	calls []string
}

func newRecorder() *recorder { return &recorder{start: time.Now()} }

func (r *recorder) note(ctx context.Context, call string, pods []*corev1.Pod) {
	for _, p := range pods {
		call += " " + p.Name
	}
	r.mu.Lock()
	r.calls = append(r.calls, fmt.Sprintf("%gs %s", time.Since(r.start).Seconds(), call))
	r.mu.Unlock()
	if r.during != nil {
		r.during(ctx, call)
	}
}

func (r *recorder) HandlePodAdditions(ctx context.Context, p []*corev1.Pod) { r.note(ctx, "add", p) }
func (r *recorder) HandlePodUpdates(ctx context.Context, p []*corev1.Pod)   { r.note(ctx, "update", p) }
func (r *recorder) HandlePodRemoves(ctx context.Context, p []*corev1.Pod)   { r.note(ctx, "remove", p) }
func (r *recorder) HandlePodReconcile(ctx context.Context, p []*corev1.Pod) {
	r.note(ctx, "reconcile", p)
}
func (r *recorder) HandlePodSyncs(ctx context.Context, p []*corev1.Pod) { r.note(ctx, "sync", p) }
func (r *recorder) HandlePodCleanups(ctx context.Context) error {
	r.note(ctx, "cleanup", nil)
	return r.cleanup
}

// probeRecorder is one that is told probe results too.
type probeRecorder struct{ *recorder }

func (r probeRecorder) HandleProbeResult(ctx context.Context, p *corev1.Pod, res ProbeResult) {
	r.note(ctx, fmt.Sprintf("%s %s %t", res.Probe, res.ContainerID, res.Success), []*corev1.Pod{p})
}

// take returns the calls so far and forgets them. Cleanups are left out unless asked for.
func (r *recorder) take(cleanups bool) []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.calls
	r.calls = nil
	if !cleanups {
		out = slices.DeleteFunc(out, func(s string) bool { return strings.HasSuffix(s, " cleanup") })
	}
	return out
}

func (r *recorder) want(t *testing.T, calls ...string) {
	t.Helper()
	if got := r.take(false); !slices.Equal(got, calls) {
		t.Errorf("the handler was called\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(calls, "\n\t"))
	}
}

// run starts a loop inside a synctest bubble and stops it at the end of the test.
func run(t *testing.T, c Config) *Loop {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, 100*time.Millisecond, l.Run)
	return l
}

// files is the one source of most tests.
var files = []podconfig.Source{podconfig.FileSource}

// fakeRuntime is what the test says it is.
type fakeRuntime struct {
	mu    sync.Mutex
	pods  []RuntimePod
	err   error
	hangs bool
	panic bool
	calls []time.Time
	takes time.Duration
}

func (f *fakeRuntime) set(change func(*fakeRuntime)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeRuntime) Pods(ctx context.Context) ([]RuntimePod, error) {
	f.mu.Lock()
	f.calls = append(f.calls, time.Now())
	pods, err, hangs, panics, takes := slices.Clone(f.pods), f.err, f.hangs, f.panic, f.takes
	f.mu.Unlock()
	time.Sleep(takes)
	switch {
	case panics:
		panic("runtime: nil map")
	case hangs:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return pods, err
}

// containers makes pods with one container each: "pod/container=state".
func containers(specs ...string) (out []RuntimePod) {
	states := map[string]ContainerState{"running": ContainerRunning, "exited": ContainerExited, "unknown": ContainerUnknown}
	for _, s := range specs {
		id, state, _ := strings.Cut(s, "=")
		pod, c, _ := strings.Cut(id, "/")
		out = append(out, RuntimePod{UID: types.UID(pod), Name: pod, Containers: []Container{{ID: c, Name: c, State: states[state]}}})
	}
	return out
}

var errBroken = errors.New("broken")
