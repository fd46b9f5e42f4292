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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
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
