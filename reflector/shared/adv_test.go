package shared

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestAdvNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		all := acquire(t, p, Scope{})
		defer all.Close()
		for _, s := range []Scope{{LabelSelector: labels.Nothing()}, {FieldSelector: fields.Nothing()}} {
			s.Resource = pods
			l, err := p.Acquire(t.Context(), s)
			if err == nil {
				t.Errorf("%v: a lease of everything", s)
				l.Close()
			} else {
				t.Log(err)
			}
		}
	})
}

func TestAdvStoreErr(t *testing.T) {
	bad, hang := 0, 0
	for range 300 {
		_, config, _ := serve(t, 3)
		store := reflector.NewStore[*corev1.Pod]()
		p := newPool(t, Config[*corev1.Pod]{REST: config, Reflector: func(c *reflector.Config[*corev1.Pod]) { c.Store = store }})
		first := acquire(t, p, Scope{})
		first.WaitForSync(t.Context())
		second := acquire(t, p, Scope{Namespace: "default"})
		if err := second.WaitForSync(t.Context()); err == nil || errors.Unwrap(err) != nil && !contains(err) {
			bad++
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if hang == 0 && second.Handle(ctx, reflector.Handler[*corev1.Pod]{}) != nil {
			hang++
		}
		cancel()
		p.Close()
	}
	t.Log("without reason", bad, "hang", hang)
}

func contains(err error) bool {
	return fmt.Sprint(err) != "" && len(err.Error()) > 70
}

func TestAdvRace(t *testing.T) {
	_, config, open := serve(t, 20)
	p := newPool(t, Config[*corev1.Pod]{REST: config, Linger: 100 * time.Microsecond})
	var wg sync.WaitGroup
	nils, stopped := 0, 0
	var mu sync.Mutex
	for i := range 500 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for range 4 {
				ctx, cancel := context.WithCancel(t.Context())
				l, err := p.Acquire(ctx, Scope{Resource: pods, Namespace: fmt.Sprint("n", rnd.IntN(3))})
				if err != nil {
					t.Error(err)
				}
				go func() {
					if rnd := i % 3; rnd == 0 {
						time.Sleep(time.Duration(i%7) * 300 * time.Microsecond)
					}
					l.Close()
				}()
				if i%2 == 0 {
					err := l.Handle(t.Context(), reflector.Handler[*corev1.Pod]{})
					if err == nil {
						mu.Lock()
						nils++
						mu.Unlock()
					}
				} else {
					err := l.WaitForSync(t.Context())
					if errors.Is(err, reflector.ErrStopped) && !errors.Is(err, ErrReleased) {
						mu.Lock()
						stopped++
						mu.Unlock()
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	time.Sleep(50 * time.Millisecond)
	p.Close()
	t.Log("Handle nil", nils, "WaitForSync ErrStopped", stopped, "open", open.Load(), p.Len())
}

func TestAdvCloseRace(t *testing.T) {
	for i := range 200 {
		_, config, open := serve(t, 2)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		var wg sync.WaitGroup
		for j := range 8 {
			wg.Go(func() {
				l, err := p.Acquire(t.Context(), Scope{Resource: pods, Namespace: fmt.Sprint(j % 2)})
				if err != nil {
					return
				}
				for range l.Events(t.Context()) {
					if j%2 == 0 {
						l.Close()
					}
				}
			})
		}
		time.Sleep(time.Duration(i*10) * time.Microsecond)
		start := time.Now()
		p.Close()
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Error("Close took", d)
		}
		wg.Wait()
		if p.Len() != 0 {
			t.Error(p.Len())
		}
		_ = open
	}
}
