package loopback

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nodewatch-go/nodewatch/bench/replay"
	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCounter: whoever is second, the one that counts or the one that waits, the wait ends.
func TestCounter(t *testing.T) {
	c := NewCounter()
	for round := range int64(200) {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 10 {
				c.Add(3)
			}
		})
		if err := c.Until(t.Context(), (round+1)*30-5); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if c.Load() != (round+1)*30 {
			t.Fatalf("the count is %d, want %d", c.Load(), (round+1)*30)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if err := c.Until(ctx, 1<<40); err == nil || !strings.Contains(err.Error(), "6000 of 1099511627776: enough") {
		t.Errorf("a wait that was given up says %v", err)
	}
}

// TestSessions: each client lists, applies what the server sends, and leaves nothing behind.
func TestSessions(t *testing.T) {
	const pods, n = 12, 30
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, mediaType := range []string{specimen.JSON, specimen.Protobuf} {
		for _, watchList := range []bool{false, true} {
			srv, err := replay.New(replay.Config{MediaType: mediaType, Pods: pods, WatchList: watchList})
			if err != nil {
				t.Fatal(err)
			}
			web := httptest.NewServer(srv.Handler(replay.Plain))
			defer web.Close()
			watches := 0
			for name, start := range map[string]Start{
				"shared": Nodewatch(reflector.ObjectsShared), "private": Nodewatch(reflector.ObjectsPrivate),
				"compact": Nodewatch(reflector.ObjectsCompact), "discard": Discard,
			} {
				for _, fields := range []Fields{Dropped, Kept} {
					t.Run(strings.Join([]string{mediaType, name, string(fields)}, " "), func(t *testing.T) {
						s, err := start(ctx, Target{URL: web.URL, Link: HTTP1, MediaType: mediaType, Fields: fields, WatchList: watchList})
						if err != nil {
							t.Fatal(err)
						}
						defer func() {
							if err := s.Stop(); err != nil {
								t.Error(err)
							}
						}()
						watches++
						if err := srv.Watches(ctx, watches); err != nil {
							t.Fatal(err)
						}
						if s.Get != nil {
							want := specimen.Pod(3)
							if fields == Dropped {
								want.ManagedFields = nil
							}
							if got, ok := s.Get(want.Name); !ok || !equality.Semantic.DeepEqual(got, want) {
								t.Errorf("after the list the store has %v", got)
							}
							if got := s.Handed(); got != pods {
								t.Errorf("the list handed on %d objects, want %d", got, pods)
							}
						}
						for range 2 {
							if err := s.Events(ctx, srv, n); err != nil {
								t.Fatal(err)
							}
						}
						switch got := s.Applied.Load(); {
						case s.InBytes && (got < 2*n*4_000 || got > 2*n*12_000):
							t.Errorf("%d bytes were read of %d events", got, 2*n)
						case !s.InBytes && got != 2*n:
							t.Errorf("%d events were applied, want %d", got, 2*n)
						}
					})
				}
			}
		}
	}
}

// TestNobodyThere: a server that does not answer is an error of the start, not a hang.
func TestNobodyThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for name, start := range map[string]Start{"nodewatch": Nodewatch(reflector.ObjectsShared), "discard": Discard} {
		if _, err := start(ctx, Target{URL: "http://127.0.0.1:1", Link: HTTP1, MediaType: specimen.JSON}); err == nil {
			t.Errorf("%s started without a server", name)
		}
	}
}
