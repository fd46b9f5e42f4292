package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/replay"
	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// benchPods is the size of the collection.
const benchPods = 10_000

// within bounds what a benchmark waits for. It is no measure: a client that hangs says so.
const within = 10 * time.Minute

// start starts a client and waits until it watches.
func start(ctx context.Context, t testing.TB, srv *remote, c client, at loopback.Target) *loopback.Session {
	t.Helper()
	before, err := srv.Opened(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.start(ctx, at)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	if err := srv.Watches(ctx, before+1); err != nil {
		log, _ := srv.Requests(ctx)
		t.Fatalf("%s: %v; requests so far: %q", c.name, err, log)
	}
	return s
}

// TestClientsAgree: over each link both clients end with what the server sent.
func TestClientsAgree(t *testing.T) {
	const pods, n = 16, 40
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for _, enc := range encodings {
		srv := startServer(t, replay.Config{MediaType: enc.mediaType, Pods: pods})
		for _, link := range links {
			want := versions(t, enc, pods, n)
			for _, fields := range fieldsOf(link) {
				for _, c := range clients {
					t.Run(fmt.Sprint(enc.name, "/", link, "/", fields, "/", c.name), func(t *testing.T) {
						s := start(ctx, t, srv, c, srv.target(link, fields))
						defer stop(t, s)
						if err := srv.Prepare(ctx, n/2); err != nil {
							t.Fatal(err)
						}
						for range 2 {
							if err := s.Events(ctx, srv, n/2); err != nil {
								t.Fatal(err)
							}
						}
						if err := s.Stop(); err != nil { // the last event is counted before it is stored
							t.Fatal(err)
						}
						s.Stop = func() error { return nil }
						for name, pod := range want {
							got, ok := s.Get(name)
							if !ok {
								t.Fatalf("%s is not in the store", name)
							}
							samePod(t, got, withFields(pod, fields))
						}
					})
				}
			}
			t.Run(fmt.Sprint(enc.name, "/", link, "/", discard.name), func(t *testing.T) {
				s := start(ctx, t, srv, discard, srv.target(link, loopback.Kept))
				defer stop(t, s)
				if err := s.Events(ctx, srv, n); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func stop(t testing.TB, s *loopback.Session) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// versions are the pods by name after n events of a collection, as client-go's decoder reads them. The
// times in them are those of the events.
func versions(t testing.TB, enc encoding, pods, n int) map[string]*corev1.Pod {
	t.Helper()
	out := make(map[string]*corev1.Pod)
	for _, p := range specimen.Pods(pods) {
		out[p.Name] = p
	}
	next, stop := openClientGoDecoder(t, newStream(t, enc, pods).Reader(), enc)
	defer stop()
	for k := range n {
		pod, err := next(k)
		if err != nil {
			t.Fatal(err)
		}
		out[pod.Name] = pod
	}
	return out
}

func withFields(pod *corev1.Pod, fields loopback.Fields) *corev1.Pod {
	if fields == loopback.Kept {
		return pod
	}
	out := *pod
	out.ManagedFields = nil
	return &out
}

func samePod(t testing.TB, got, want *corev1.Pod) {
	t.Helper()
	if !equality.Semantic.DeepEqual(got, want) {
		t.Fatalf("pod %s is not what was sent (-want +got):\n%s", want.Name, cmp.Diff(want, got))
	}
}

var links = []loopback.Link{loopback.HTTP1, loopback.Gzip, loopback.TLS, loopback.TLSHTTP2}

// fieldsOf are the fields that are measured over a link.
func fieldsOf(link loopback.Link) []loopback.Fields {
	if link == loopback.HTTP1 {
		return []loopback.Fields{loopback.Dropped, loopback.Kept}
	}
	return []loopback.Fields{loopback.Dropped}
}

// podsOf is the size of the collection over a link: client-go's JSON lists take their time.
func podsOf(link loopback.Link) int {
	if link == loopback.HTTP1 {
		return benchPods
	}
	return benchPods / 10
}

// BenchmarkWatch: one operation is one event that is in the store. cpu-ns is the processor time of
// the client's process, on which other work on the machine has less influence; server-cpu-ns is that of the
// server's, which no client can be faster than.
func BenchmarkWatch(b *testing.B) {
	for _, enc := range encodings {
		for _, link := range links {
			for _, f := range fieldsOf(link) {
				all := clients
				if f == loopback.Dropped {
					all = append(all[:len(all):len(all)], discard)
				}
				for _, c := range all {
					benchmarkWatch(b, c, link, enc, f)
				}
			}
		}
	}
}

func benchmarkWatch(b *testing.B, c client, link loopback.Link, enc encoding, fields loopback.Fields) {
	// The function below is called several times for one figure: one client serves all.
	var s *loopback.Session
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	b.Run(fmt.Sprintf("link=%s/encoding=%s/fields=%s/impl=%s", link, enc.name, fields, c.name), func(b *testing.B) {
		srv := sharedServer(b, replay.Config{MediaType: enc.mediaType, Pods: podsOf(link)})
		if s == nil {
			s = start(ctx, b, srv, c, srv.target(link, fields))
		}
		if err := srv.Prepare(ctx, b.N); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.SetBytes(int64(enc.eventBytes()))
		before, servers := cpu(b), srv.cpu(b)
		b.ResetTimer()
		if err := s.Events(ctx, srv, b.N); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
		b.StopTimer()
		b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(srv.cpu(b)-servers)/float64(b.N), "server-cpu-ns/op")
	})
	if s != nil {
		stop(b, s)
	}
}
