package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/replay"
	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// delays are the times from the server's write to the handler.
type delays struct {
	count *loopback.Counter

	mu  sync.Mutex
	all []time.Duration
	err error
}

// handle is the handler of an update on both sides.
func (d *delays) handle(pod *corev1.Pod) {
	now := time.Now()
	sent, err := strconv.ParseInt(pod.Annotations[specimen.SentAnnotation], 10, 64)
	d.mu.Lock()
	if err == nil {
		d.all = append(d.all, now.Sub(time.Unix(0, sent)))
	} else if d.err == nil {
		d.err = fmt.Errorf("%s is not stamped: %w", pod.Name, err)
	}
	d.mu.Unlock()
	d.count.Add(1)
}

// take returns what was measured since the last call, in ascending order.
func (d *delays) take() ([]time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.all
	d.all = nil
	slices.Sort(all)
	return all, d.err
}

// handlers are the clients with a handler for updates.
var handlers = []struct {
	name  string
	start func(ctx context.Context, at loopback.Target, d *delays) (stop func() error, err error)
}{
	{implNodewatch, handleNodewatch},
	{implClientGo, handleClientGo},
}

func handleNodewatch(ctx context.Context, at loopback.Target, d *delays) (func() error, error) {
	lw, err := loopback.ListerWatcher(at)
	if err != nil {
		return nil, err
	}
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, InitialSync: reflector.InitialList, OnStop: lw.Close})
	if err != nil {
		return nil, err
	}
	stopHandler := loopback.Run(ctx, func(ctx context.Context) error {
		return r.Handle(ctx, reflector.Handler[*corev1.Pod]{OnUpdate: func(ev reflector.Event[*corev1.Pod]) { d.handle(ev.Object) }})
	})
	stopRun := loopback.Run(ctx, r.Run)
	stop := func() error { return errors.Join(stopRun(), stopHandler()) }
	if err := r.WaitForSync(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func handleClientGo(ctx context.Context, at loopback.Target, d *delays) (func() error, error) {
	lw, closeIdle, err := newClientGo(at)
	if err != nil {
		return nil, err
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    &corev1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) { d.handle(obj.(*corev1.Pod)) }},
		Transform: func(obj any) (any, error) {
			if pod, ok := obj.(*corev1.Pod); ok && at.Fields == loopback.Dropped {
				pod.ManagedFields = nil
			}
			return obj, nil
		},
	})
	stopRun := loopback.Run(ctx, func(ctx context.Context) error { informer.RunWithContext(ctx); return nil })
	stop := func() error {
		defer closeIdle()
		return stopRun()
	}
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.Join(context.Cause(ctx), stop())
	}
	return stop, nil
}

// paced makes the server send n events at a rate and waits until all are handled.
func (d *delays) paced(ctx context.Context, srv replay.Controller, n, rate int) error {
	before := d.count.Load()
	if err := srv.Pace(ctx, n, rate); err != nil {
		return err
	}
	return d.count.Until(ctx, before+int64(n))
}

// TestDelays: each event is measured once, by both.
func TestDelays(t *testing.T) {
	const n = 40
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for _, enc := range encodings {
		srv := startServer(t, replay.Config{MediaType: enc.mediaType, Pods: 20, Stamped: true})
		for i, h := range handlers {
			t.Run(enc.name+"/"+h.name, func(t *testing.T) {
				d := &delays{count: loopback.NewCounter()}
				stop, err := h.start(ctx, srv.target(loopback.HTTP1, loopback.Dropped), d)
				if err != nil {
					t.Fatal(err)
				}
				if err := srv.Watches(ctx, 1+i); err != nil {
					t.Fatal(err)
				}
				if err := d.paced(ctx, srv, n, 2_000); err != nil {
					t.Fatal(err)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				all, err := d.take()
				if err != nil || len(all) != n || all[0] <= 0 || all[n-1] > within {
					t.Errorf("%d delays of %d events: %v, %v", len(all), n, all, err)
				}
			})
		}
	}
}

// latencyPods is the size of the collection whose latency is measured.
const latencyPods = 1_000

// BenchmarkLatency: one operation is some seconds of events at a rate; p50 and p99 are the times from
// the server's write to the first line of the handler.
func BenchmarkLatency(b *testing.B) {
	for _, enc := range encodings {
		cfg := replay.Config{MediaType: enc.mediaType, Pods: latencyPods, Stamped: true}
		for _, h := range handlers {
			b.Run("encoding="+enc.name+"/impl="+h.name, func(b *testing.B) {
				ctx, cancel := context.WithTimeout(b.Context(), within)
				defer cancel()
				srv, d := sharedServer(b, cfg), &delays{count: loopback.NewCounter()}
				opened, err := srv.Opened(ctx)
				if err != nil {
					b.Fatal(err)
				}
				stop, err := h.start(ctx, srv.target(loopback.HTTP1, loopback.Dropped), d)
				if err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := stop(); err != nil {
						b.Error(err)
					}
				}()
				if err := srv.Watches(ctx, opened+1); err != nil {
					b.Fatal(err)
				}
				for _, pace := range []struct{ rate, n int }{{100, 200}, {1_000, 2_000}, {10_000, 10_000}} {
					b.Run(fmt.Sprintf("rate=%d", pace.rate), func(b *testing.B) {
						for range b.N {
							if err := d.paced(ctx, srv, pace.n, pace.rate); err != nil {
								b.Fatal(err)
							}
						}
						all, err := d.take()
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(all[len(all)/2]), "p50-ns")
						b.ReportMetric(float64(all[len(all)*99/100]), "p99-ns")
					})
				}
			})
		}
	}
}
