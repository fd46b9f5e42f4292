package podconfig

import (
	"context"
	"fmt"
	"log/slog"
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
)

// testPod is a small pod. Its name may be "name" or "namespace/name"; edits
// change it before anybody sees it.
func testPod(name, uid string, edits ...func(*corev1.Pod)) *corev1.Pod {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = "default", namespace
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(uid), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "main", Image: "img:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, e := range edits {
		e(p)
	}
	return p
}

// edited is a later version of p. It shares with p what is not edited.
func edited(p *corev1.Pod, edits ...func(*corev1.Pod)) *corev1.Pod {
	q := *p
	for _, e := range edits {
		e(&q)
	}
	return &q
}

func phase(ph corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = ph }
}

func image(img string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "main", Image: img}} }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		a := map[string]string{key: value}
		for k, v := range p.Annotations {
			if k != key {
				a[k] = v
			}
		}
		p.Annotations = a
	}
}

func terminating(p *corev1.Pod) {
	at, grace := metav1.NewTime(time.Unix(1_700_000_000, 0)), int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
}

func set(pods ...*corev1.Pod) Change     { return Change{Full: true, Pods: pods} }
func first(pods ...*corev1.Pod) Change   { return Change{Full: true, Pods: pods, Initial: true} }
func changed(pods ...*corev1.Pod) Change { return Change{Pods: pods} }

func gone(pods ...*corev1.Pod) Change {
	var ch Change
	for _, p := range pods {
		ch.Gone = append(ch.Gone, Gone{UID: p.UID, Namespace: p.Namespace, Name: p.Name})
	}
	return ch
}

// testSource is a producer that tells what the test does.
type testSource struct {
	name    Source
	changes chan Change

	mu     sync.Mutex
	status SourceStatus
}

func newTestSource(name Source) *testSource {
	return &testSource{name: name, changes: make(chan Change)}
}

func (s *testSource) Source() Source { return s.name }

func (s *testSource) Run(ctx context.Context, tell func(Change)) error {
	for {
		select {
		case ch := <-s.changes:
			tell(ch)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *testSource) Status() SourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// line is an update in one line: OP source initial: name@uid ...
func line(u PodUpdate) string {
	b := fmt.Sprintf("%s %s", u.Op, u.Source)
	if u.Initial {
		b += " initial"
	}
	for _, p := range u.Pods {
		b += " " + p.Name + "@" + string(p.UID)
	}
	return b
}

// running is a PodConfig with sources that a test drives, inside a synctest bubble.
type running struct {
	*PodConfig
	t    *testing.T
	stop func()
}

// run starts a PodConfig and stops it at the end of the test.
func run(t *testing.T, c Config) *running {
	t.Helper()
	pc, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &running{PodConfig: pc, t: t, stop: testkit.Start(t, 100*time.Millisecond, pc.Run)}
}

// drain receives until nothing is pending.
func (r *running) drain() []string {
	var out []string
	for {
		synctest.Wait()
		select {
		case u, ok := <-r.Updates():
			if !ok {
				return out
			}
			out = append(out, line(u))
		default:
			return out
		}
	}
}

// want drains and compares.
func (r *running) want(lines ...string) {
	r.t.Helper()
	if got := r.drain(); !slices.Equal(got, lines) {
		r.t.Errorf("the consumer was told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// logTo is a logger whose lines the test reads.
func logTo(b *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
