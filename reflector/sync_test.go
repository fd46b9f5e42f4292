package reflector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

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
