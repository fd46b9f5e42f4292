package controllerruntime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

type queue = workqueue.TypedRateLimitingInterface[string]

// podsOf is a reflector of the pods of a server.
func podsOf(t *testing.T, srv *listwatchtest.Server) *reflector.Reflector[*corev1.Pod] {
	t.Helper()
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	must(t, err)
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close})
	must(t, err)
	return r
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"v": version}}}
}

// TestSource: what a handler is told, and when, with predicates between.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		must(t, srv.Create(pod("a", "1")))
		must(t, srv.Create(pod("hidden", "1")))
		r := podsOf(t, srv)

		var calls []string
		first := true
		note := func(words ...string) { calls = append(calls, strings.Join(words, " ")) }
		told := func() string {
			synctest.Wait()
			got := strings.Join(calls, "; ")
			calls = nil
			return got
		}
		s := NewSource(r, handler.TypedFuncs[*corev1.Pod, string]{
			CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) {
				if first {
					time.Sleep(10 * time.Second) // virtual: a handler that takes its time
					first = false
				}
				note("create", e.Object.Name, map[bool]string{true: "initial", false: "new"}[e.IsInInitialList])
				q.Add(e.Object.Name)
			},
			UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], _ queue) {
				note("update", e.ObjectOld.Labels["v"], "to", e.ObjectNew.Labels["v"])
			},
			DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Pod], _ queue) {
				note("delete", e.Object.Name, map[bool]string{true: "unseen", false: "seen"}[e.DeleteStateUnknown])
			},
		}, predicate.NewTypedPredicateFuncs(func(p *corev1.Pod) bool { return p.Name != "hidden" }))
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		defer q.ShutDown()

		ctx, cancel := context.WithCancel(t.Context())
		running := make(chan error, 1)
		go func() { running <- Runnable{r}.Start(ctx) }()
		began := time.Now()
		must(t, s.Start(ctx, q))
		must(t, s.WaitForSync(ctx))
		if waited := time.Since(began); waited < 10*time.Second {
			t.Errorf("synced after %v, while the handler had not been told everything", waited)
		}
		if got := told(); got != "create a initial" || q.Len() != 1 {
			t.Errorf("at first the handler was told %q, and %d are queued", got, q.Len())
		}
		must(t, srv.Create(pod("b", "1")))
		must(t, srv.Update(pod("a", "2")))
		must(t, srv.Update(pod("hidden", "2")))
		if got, want := told(), "create b new; update 1 to 2"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		must(t, srv.Delete(pod("b", "")))
		must(t, srv.Delete(pod("hidden", "")))
		if got, want := told(), "delete b seen"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		// A delete that only a relist finds.
		srv.Pause()
		must(t, srv.Delete(pod("a", "")))
		srv.Compact(srv.ResourceVersion())
		srv.CloseConnections()
		srv.Resume()
		time.Sleep(time.Minute)
		if got, want := told(), "delete a unseen"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		cancel()
		must(t, <-running)
	})
}

// WaitForSync says why there is no sync, and is content when the manager stops.
func TestSourceWithoutSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{Authorize: func(listwatchtest.Access) bool { return false }})
		defer srv.Close()
		r := podsOf(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		running := make(chan error, 1)
		go func() { running <- r.Run(ctx) }()
		s := NewSource(r, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})
		must(t, s.Start(ctx, nil))

		short, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		var refused *listwatch.Error
		if err := s.WaitForSync(short); !errors.As(err, &refused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its time: %v, want the deadline and the refusal", err)
		}
		time.AfterFunc(time.Minute, cancel)
		if err := s.WaitForSync(ctx); err != nil {
			t.Errorf("when the manager stops: %v", err)
		}
		must(t, <-running)
	})
}

// A collection does not wait for leader election.
func TestRunnable(t *testing.T) {
	if (Runnable{}).NeedLeaderElection() {
		t.Error("a standby would have an empty store")
	}
}
