package reflector_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// spanRecorder is a Tracer that writes down what it is told.
type spanRecorder struct {
	mu    sync.Mutex
	spans []*recordedSpan
}

type recordedSpan struct {
	parent *recordedSpan
	name   reflector.SpanName
	begin  []slog.Attr
	ended  int
	err    error
	end    []slog.Attr
}

type spanKey struct{}

func (s *spanRecorder) Start(ctx context.Context, name reflector.SpanName, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
	span := &recordedSpan{name: name, begin: slices.Clone(attrs)}
	span.parent, _ = ctx.Value(spanKey{}).(*recordedSpan)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans = append(s.spans, span)
	return context.WithValue(ctx, spanKey{}, span), func(err error, attrs ...slog.Attr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		span.ended++
		span.err, span.end = err, slices.Clone(attrs)
	}
}

// String has a line for each span, in the order of their starts. The bytes, which
// are of HTTP, are left out where there were any.
func (s *spanRecorder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, span := range s.spans {
		if span.parent != nil {
			b.WriteString("  ")
		}
		fmt.Fprintf(&b, "%s %v", span.name, span.begin[2:])
		if span.ended == 0 {
			b.WriteString(" ...\n")
			continue
		}
		end := slices.DeleteFunc(slices.Clone(span.end), func(a slog.Attr) bool { return a.Key == "bytes" && a.Value.Uint64() > 0 })
		fmt.Fprintf(&b, " -> %v", end)
		if span.err != nil {
			fmt.Fprintf(&b, " error")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestSpans(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"relist", `
			> LIST rv=
			< 500 InternalError broken
			> LIST rv=
			< list 100 a@90 b@91
			> WATCH rv=100
			< ADDED c@101
			< END
			> WATCH rv=101
			< 410 Expired too old
			> LIST rv=101
			< list 120 a@90 b@110
			> WATCH rv=120
			< hold
			`, `
sync [rv=] -> [outcome=success rvAfter=100 attempts=2 objects=2]
  list [rv=] -> [outcome=error reason=server_error rvAfter= bytes=0 items=0 skipped=0 pages=1] error
  list [rv=] -> [outcome=success rvAfter=100 items=2 skipped=0 pages=1]
watch [rv=100] -> [outcome=success reason=eof rvAfter=101 events=1]
watch [rv=101] -> [outcome=error reason=expired rvAfter=101 bytes=0 events=0] error
relist [rv=101 reason=expired] -> [outcome=success rvAfter=120 attempts=1 objects=2]
  list [rv=101] -> [outcome=success rvAfter=120 items=2 skipped=1 pages=1]
watch [rv=120] -> [outcome=stopped reason=stopped rvAfter=120 bytes=0 events=0]
`},
		{"watch-list", `
			config initial=auto
			> WATCHLIST rv=
			< ADDED a@90
			< MARK 100
			< ADDED b@101
			< END
			> WATCH rv=101
			< hold
			`, `
sync [rv=] -> [outcome=success rvAfter=100 attempts=1 objects=1]
  watchlist [rv=] -> [outcome=success rvAfter=100 items=1 skipped=0]
watch [rv=100] -> [outcome=success reason=eof rvAfter=101 events=1]
watch [rv=101] -> [outcome=stopped reason=stopped rvAfter=101 bytes=0 events=0]
`},
		{"pages, after a watch-list that is refused", `
			config initial=auto page=1
			> WATCHLIST rv=
			< 422 Invalid no
			> LIST rv= limit=1
			< list 100 continue=more a@90
			> LIST limit=1 continue=more
			< list 100 b@91
			> WATCH rv=100
			< hold
			`, `
sync [rv=] -> [outcome=success rvAfter=100 attempts=2 objects=2]
  watchlist [rv=] -> [outcome=error reason=watchlist_unsupported rvAfter= bytes=0 items=0 skipped=0] error
  list [rv=] -> [outcome=success rvAfter=100 items=2 skipped=0 pages=2]
watch [rv=100] -> [outcome=stopped reason=stopped rvAfter=100 bytes=0 events=0]
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spans := &spanRecorder{}
				r := startScript(t, strings.ReplaceAll(c.script, "\t", ""), func(c *reflector.Config[*corev1.Pod]) { c.Tracer = spans })
				time.Sleep(time.Minute / 2)
				r.stop()
				if got := spans.String(); got != c.want[1:] {
					t.Errorf("got\n%s\nwant\n%s", got, c.want[1:])
				}
				for _, span := range spans.spans {
					if fmt.Sprint(span.begin[:2]) != "[reflector=pods resource=pods]" {
						t.Errorf("%s begins with %v", span.name, span.begin)
					}
				}
			})
		})
	}
}

// check reports what does not hold of any reflector that has ended: each span is
// ended once, and lists and watch-lists belong to a sync or relist.
// TestScriptsStoppedAnywhere calls it for every script.
func (s *spanRecorder) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	syncs := 0
	for _, span := range s.spans {
		if span.ended != 1 {
			t.Errorf("%s %v was ended %d times", span.name, span.begin, span.ended)
		}
		switch span.name {
		case reflector.SpanSync:
			syncs++
			fallthrough
		case reflector.SpanRelist, reflector.SpanWatch:
			if span.parent != nil {
				t.Errorf("%s %v has the parent %s", span.name, span.begin, span.parent.name)
			}
		case reflector.SpanList, reflector.SpanWatchList:
			if span.parent == nil || span.parent.name != reflector.SpanSync && span.parent.name != reflector.SpanRelist {
				t.Errorf("%s %v has not a sync or relist for its parent", span.name, span.begin)
			}
		}
	}
	if syncs != 1 {
		t.Errorf("%d spans of the first sync", syncs)
	}
}

// TestSpansReachTheTransport: the requests' contexts carry the span.
func TestSpansReachTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := listwatchtest.New(listwatchtest.Config{})
		defer server.Close()
		script, err := listwatchtest.ParseScript(t.Name(), []byte("> WATCHLIST rv=\n< 422 Invalid no\n"+strings.TrimSpace(healthy)))
		if err != nil {
			t.Fatal(err)
		}
		server.Play(script)
		rest := server.RESTConfig()
		var mu sync.Mutex
		var got []string
		rest.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if span, ok := r.Context().Value(spanKey{}).(*recordedSpan); ok {
					got = append(got, string(span.name))
				} else {
					got = append(got, "none: "+r.URL.String())
				}
				return next.RoundTrip(r)
			})
		}
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: rest, Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, Tracer: &spanRecorder{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"watchlist", "list", "watch"}; !slices.Equal(got, want) {
			t.Errorf("the requests were made within %q, want %q", got, want)
		}
	})
}

// brokenTracer is broken in one of several ways.
type brokenTracer func(context.Context) (context.Context, func(error, ...slog.Attr))

func (f brokenTracer) Start(ctx context.Context, _ reflector.SpanName, _ ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
	return f(ctx)
}

// TestBrokenTracer: "A Tracer that panics, or returns nil, does not stop the reflector."
func TestBrokenTracer(t *testing.T) {
	for name, broken := range map[string]brokenTracer{
		"Start panics": func(context.Context) (context.Context, func(error, ...slog.Attr)) { panic("Start") },
		"the end panics": func(ctx context.Context) (context.Context, func(error, ...slog.Attr)) {
			return ctx, func(error, ...slog.Attr) { panic("end") }
		},
		"no context": func(context.Context) (context.Context, func(error, ...slog.Attr)) {
			return nil, func(error, ...slog.Attr) {}
		},
		"no end": func(ctx context.Context) (context.Context, func(error, ...slog.Attr)) { return ctx, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := 0
				r := startScript(t, "> LIST rv=\n< list 100 a@90\n> WATCH rv=100\n< ADDED b@101\n< hold\n", func(c *reflector.Config[*corev1.Pod]) {
					c.Tracer = brokenTracer(func(ctx context.Context) (context.Context, func(error, ...slog.Attr)) {
						started++
						return broken(ctx)
					})
				})
				time.Sleep(time.Minute / 2)
				if s := r.Status(); !s.Synced || s.Objects != 2 || s.State != reflector.StateWatching {
					t.Errorf("%+v", s)
				}
				r.stop()
				if started != 3 { // sync, list and watch
					t.Errorf("%d spans began", started)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
