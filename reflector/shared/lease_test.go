package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// TestLateLease: "A late lease gets the snapshot first, without a request."
func TestLateLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, _ := serve(t, 12)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		first := acquire(t, p, Scope{})
		defer first.Close()
		if err := first.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := len(srv.Requests())
		late := acquire(t, p, Scope{})
		defer late.Close()
		if err := late.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ev := range late.Events(t.Context()) {
			if ev.Type == reflector.Synced {
				break
			}
			if !ev.Initial {
				t.Errorf("%v of %s is not of the snapshot", ev.Type, ev.Key)
			}
			n++
		}
		if n != 12 || late.Store() != first.Store() || late.Store().Len() != 12 {
			t.Errorf("%d pods in the snapshot", n)
		}
		if got := len(srv.Requests()); got != before {
			t.Errorf("the late one made %d requests", got-before)
		}
	})
}

// TestLeaseEnds: "A lease ends with its context or Close, and so do its
// subscriptions, not those of others."
func TestLeaseEnds(t *testing.T) {
	for name, end := range map[string]func(l *Lease[*corev1.Pod], cancel context.CancelFunc, p *Pool[*corev1.Pod]){
		"context": func(_ *Lease[*corev1.Pod], cancel context.CancelFunc, _ *Pool[*corev1.Pod]) { cancel() },
		"close":   func(l *Lease[*corev1.Pod], _ context.CancelFunc, _ *Pool[*corev1.Pod]) { l.Close(); l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, config, open := serve(t, 3)
				p := newPool(t, Config[*corev1.Pod]{REST: config})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l, err := p.Acquire(ctx, Scope{Resource: pods})
				if err != nil {
					t.Fatal(err)
				}
				other := acquire(t, p, Scope{})
				handled, ran, others := make(chan error, 1), make(chan error, 1), make(chan error, 1)
				go func() { handled <- l.Handle(context.Background(), reflector.Handler[*corev1.Pod]{}) }()
				go func() { ran <- l.Run(context.Background()) }()
				go func() { others <- other.Handle(context.Background(), reflector.Handler[*corev1.Pod]{}) }()
				synctest.Wait()
				end(l, cancel, p)
				synctest.Wait()
				if err := <-handled; !errors.Is(err, context.Canceled) || (name == "close") != errors.Is(err, ErrReleased) {
					t.Errorf("Handle: %v", err)
				}
				if err := <-ran; err != nil {
					t.Errorf("Run: %v", err)
				}
				if err := l.Run(t.Context()); !errors.Is(err, reflector.ErrAlreadyRun) {
					t.Errorf("Run again: %v", err)
				}
				if err := l.WaitForSync(t.Context()); err != nil {
					t.Errorf("what is synced stays so: %v", err)
				}
				for range l.Events(t.Context()) {
					t.Error("an event of a lease that is over")
				}
				select {
				case err := <-others:
					t.Errorf("the other one's Handle ended: %v", err)
				default:
				}
				if p.Len() != 1 || other.Status().State != reflector.StateWatching {
					t.Errorf("%d reflectors, that of the other one is %s", p.Len(), other.Status().State)
				}
				// The last one stops it.
				other.Close()
				synctest.Wait()
				if err := <-others; !errors.Is(err, ErrReleased) {
					t.Errorf("the other one's Handle: %v", err)
				}
				if p.Len() != 0 || open.Load() != 0 || l.Status().State != reflector.StateStopped || l.Store().Len() != 3 {
					t.Errorf("%d reflectors, %d connections, %s with %d pods", p.Len(), open.Load(), l.Status().State, l.Store().Len())
				}
				if _, err := p.Acquire(l.ctx, Scope{Resource: pods}); !errors.Is(err, context.Canceled) || p.Len() != 0 {
					t.Errorf("a lease for a context that is over: %v, %d reflectors", err, p.Len())
				}
			})
		})
	}
}

// TestRunHolds: a lease is run as any collection is, and Run's end is its own.
func TestRunHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		var c reflector.Collection[*corev1.Pod] = acquire(t, p, Scope{})
		go func() { ran <- c.Run(ctx) }()
		if err := c.WaitForSync(t.Context()); err != nil || p.Len() != 1 {
			t.Fatalf("%v, %d reflectors", err, p.Len())
		}
		cancel()
		if err := <-ran; err != nil || p.Len() != 0 {
			t.Errorf("%v, %d reflectors", err, p.Len())
		}
	})
}

// TestEndIsTheLeases: whatever is noticed first, the end of the lease or that of the reflector which it stops, the
// error is the lease's.
func TestEndIsTheLeases(t *testing.T) {
	_, config, _ := serve(t, 3)
	p := newPool(t, Config[*corev1.Pod]{REST: config})
	var wait sync.WaitGroup
	for i := range 500 {
		wait.Go(func() {
			l := acquire(t, p, Scope{Namespace: fmt.Sprint("empty-", i%3)})
			go l.Close()
			if i%2 == 0 {
				if err := l.Handle(t.Context(), reflector.Handler[*corev1.Pod]{}); !errors.Is(err, ErrReleased) {
					t.Errorf("Handle: %v", err)
				}
			} else if err := l.WaitForSync(t.Context()); err != nil && !errors.Is(err, ErrReleased) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	}
	wait.Wait()
	// In one order of the two that cannot be had by chance alone: the joined context does not know yet.
	l := acquire(t, p, Scope{})
	l.cancel(ErrReleased)
	if err := l.ended(t.Context()); !errors.Is(err, ErrReleased) {
		t.Errorf("ended: %v", err)
	}
}

// TestWrongSubscription: a program that is wrong is so at the call, as with a reflector, and not when somebody ranges.
func TestWrongSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		l := acquire(t, newPool(t, Config[*corev1.Pod]{REST: config}), Scope{})
		for says, c := range map[string]reflector.Collection[*corev1.Pod]{"the lease": l, "its reflector": l.of.reflector} {
			func() {
				defer func() {
					if p := recover(); p != "reflector: Subscription.Limit is -1: use a positive number of unread changes, or 0 for 1024" {
						t.Errorf("%s: Subscribe panics with %v", says, p)
					}
				}()
				c.Subscribe(t.Context(), reflector.Subscription[*corev1.Pod]{Limit: -1})
			}()
		}
	})
}
