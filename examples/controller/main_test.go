package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLength: the example is short, and no line of it is two.
func TestLength(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(source), "\n"), "\n")
	if len(lines) >= 60 {
		t.Errorf("main.go has %d lines, it should have less than 60", len(lines))
	}
	for i, line := range lines {
		code, _, _ := strings.Cut(line, "//")
		if len(line) > 160 || strings.Contains(code, ";") && !strings.Contains(code, "if ") && !strings.Contains(code, "for ") {
			t.Errorf("main.go:%d is more than a line should be", i+1)
		}
	}
	if formatted, err := format.Source(source); err != nil || !bytes.Equal(formatted, source) {
		t.Errorf("main.go is not as gofmt writes it (%v)", err)
	}
}

// book notes what was reconciled.
type book struct {
	sync.Mutex
	calls []string
	fail  map[string]int // how often a key still fails
}

func (b *book) reconcile(key decode.Key, pod *corev1.Pod) error {
	b.Lock()
	defer b.Unlock()
	what := key.String() + " gone"
	if pod != nil {
		what = key.String() + " " + string(pod.Status.Phase)
	}
	b.calls = append(b.calls, what)
	if b.fail[key.Name] > 0 {
		b.fail[key.Name]--
		return errors.New("not yet")
	}
	return nil
}

// take waits until nothing moves any more and returns what was reconciled since the last time.
func (b *book) take() []string {
	synctest.Wait()
	b.Lock()
	defer b.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

func pod(name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{Phase: phase}}
}

// TestController goes through what client-go's example does: the first list, a pod that was
// known before and is gone, updates, deletes, retries and giving up, in virtual time.
func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		do(srv.Create(pod("a", corev1.PodRunning)))
		do(srv.Create(pod("b", corev1.PodPending)))
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		do(err)
		pods, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close})
		do(err)
		b := &book{fail: map[string]int{}}
		stopped := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, pods, b.reconcile) }()

		// "Sync before workers start": nothing is called while there is no snapshot, not for mypod either.
		if got := b.take(); got != nil {
			t.Errorf("before the first list %q were reconciled", got)
		}
		running := make(chan error, 1)
		go func() { running <- pods.Run(ctx) }()
		expect := func(when string, want ...string) {
			t.Helper()
			got := b.take()
			seen := map[string]bool{}
			for _, call := range got {
				seen[call] = true
			}
			for _, w := range want {
				if !seen[w] {
					t.Errorf("%s: %q were reconciled, without %q", when, got, w)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %q were reconciled, want %q", when, got, want)
			}
		}
		expect("first", "default/mypod gone", "default/a Running", "default/b Pending")
		do(srv.UpdateStatus(pod("b", corev1.PodRunning)))
		expect("an update", "default/b Running")
		do(srv.Delete(pod("a", "")))
		expect("a delete", "default/a gone")

		b.fail["c"] = 2
		do(srv.Create(pod("c", corev1.PodPending)))
		time.Sleep(time.Minute) // virtual: the retries come by and by
		expect("twice failed", "default/c Pending", "default/c Pending", "default/c Pending")

		b.fail["d"] = 100
		do(srv.Create(pod("d", corev1.PodPending)))
		time.Sleep(time.Hour)
		if got := b.take(); len(got) != 6 {
			t.Errorf("a pod that always fails was tried %d times, want once and 5 retries", len(got))
		}
		b.fail["d"] = 1
		do(srv.UpdateStatus(pod("d", corev1.PodRunning)))
		time.Sleep(time.Second)
		expect("the count begins anew", "default/d Running", "default/d Running")

		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("run ended with %v, want the cause of its context", err)
		}
		do(<-running)
	})
}

// A context that ends before the first list ends run, with what the list met.
func TestStopBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{Authorize: func(listwatchtest.Access) bool { return false }})
		defer srv.Close()
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		if err != nil {
			t.Fatal(err)
		}
		pods, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		running := make(chan error, 1)
		go func() { running <- pods.Run(ctx) }()
		err = run(ctx, pods, func(key decode.Key, _ *corev1.Pod) error { return fmt.Errorf("%s was reconciled", key) })
		var refused *listwatch.Error
		if !errors.As(err, &refused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run ended with %v, want the deadline and the refusal", err)
		}
		if err := <-running; err != nil {
			t.Error(err)
		}
	})
}
