package reflector_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// M2: "Everything stops within 100 ms of its context, from any point (dial,
// header wait, mid-body, backoff, handler)."
func TestStopFromAnyPoint(t *testing.T) {
	const listed = "> LIST rv=\n< list 100 a@90\n"
	for name, text := range map[string]string{
		"list without an answer":   "> LIST rv=\n< hang",
		"watch without an answer":  listed + "> WATCH rv=100\n< hang",
		"mid-body":                 listed + "> WATCH rv=100\n< MODIFIED a@101\n< hold",
		"mid-event":                listed + "> WATCH rv=100\n< raw {\"type\":\"ADD\n< hold",
		"watch-list, no answer":    "config initial=auto\n> WATCHLIST rv=\n< hang",
		"watch-list, no mark":      "config initial=auto\n> WATCHLIST rv=\n< ADDED a@90\n< hold",
		"backoff":                  "> LIST rv=\n< 503 ServiceUnavailable retry=60s x",
		"backoff after a refusal":  listed + "> WATCH rv=100\n< 403 Forbidden x",
		"after the mark":           "config initial=auto\n> WATCHLIST rv=\n< ADDED a@90\n< MARK 100\n< hold",
		"between two pages":        "config page=1\n> LIST rv= limit=1\n< list 100 a@90 continue=t\n> LIST rv= limit=1 continue=t\n< hang",
		"busy stream":              listed + "> WATCH rv=100\n< churn 1ms 100000 a 101",
		"stream that never breaks": listed + "> WATCH rv=100\n< beat 1s 100000 101",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startScript(t, text, nil)
				time.Sleep(50 * time.Millisecond)
				began := time.Now()
				r.stop()
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("stopping took %v", d)
				}
				if s := r.Status(); s.State != reflector.StateStopped || s.LastRestart.Reason != reason.Stopped {
					t.Errorf("status: %+v", s)
				}
				if n := r.Stats().Restarts[reason.Stopped]; n != 1 {
					t.Errorf("stopped counts %d", n)
				}
			})
		})
	}
}

// "from any point": also in the middle of a list whose items are in memory.
func TestStopInTheMiddleOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		script, err := listwatchtest.ParseScript(t.Name(), []byte("> LIST rv=\n< list 100 a@1 b@2 c@3"))
		if err != nil {
			t.Fatal(err)
		}
		lw := newScripted(t, script, listwatch.EncodingAuto)
		defer lw.close(t)
		c := scriptConfig(t, script, lw, io.Discard)
		c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			cancel()
			return p, nil
		}
		r, err := reflector.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := r.Store().Len(); n != 1 {
			t.Errorf("%d items were taken after the end, want only the one under way", n)
		}
		if r.Status().Synced {
			t.Error("a list that was broken off is no snapshot")
		}
	})
}

// stubborn is a ListerWatcher whose stream does not end with its context.
type stubborn struct{ *scripted }

type deafBody struct {
	closed chan struct{}
	once   sync.Once
}

func (b *deafBody) Read([]byte) (int, error) { <-b.closed; return 0, io.ErrClosedPipe }
func (b *deafBody) Close() error             { b.once.Do(func() { close(b.closed) }); return nil }

func (s stubborn) Watch(context.Context, metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		return nil, err
	}
	return streamwatcher.New(streamwatcher.Config[*corev1.Pod]{
		Body: &deafBody{closed: make(chan struct{})}, ContentType: "application/json", Decoder: dec,
	})
}

func TestStreamThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startScript(t, "> LIST rv=\n< list 100 a@1", func(c *reflector.Config[*corev1.Pod]) {
			c.ListerWatcher = stubborn{c.ListerWatcher.(*scripted)}
			c.WatchTimeout, c.IdleTimeout = time.Second, time.Hour
		})
		time.Sleep(5 * time.Second)
		if n := r.Stats().Restarts[reason.Deadline]; n == 0 {
			t.Error("the deadline did not end the stream")
		}
		began := time.Now()
		r.stop()
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("stopping took %v", d)
		}
	})
}
