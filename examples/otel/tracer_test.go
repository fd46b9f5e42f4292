package otel_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/examples/otel"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// The server refuses a watch-list, has a list of two pages, and then forgets its history.
const script = `
> WATCHLIST rv=
< 422 Invalid no
> LIST rv= limit=1
< list 100 continue=more a@90
> LIST limit=1 continue=more
< list 100 b@91
> WATCH rv=100
< 410 Expired too old
> LIST rv= limit=1
< list 120 a@90
> WATCH rv=120
< hold
`

// TestSpans: what an exporter gets, requests included, as a tree.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		provider := trace.NewTracerProvider(trace.WithSyncer(exporter))

		parsed, err := listwatchtest.ParseScript(t.Name(), []byte(script))
		if err != nil {
			t.Fatal(err)
		}
		server := listwatchtest.New(listwatchtest.Config{})
		defer server.Close()
		play := server.Play(parsed)
		config := server.RESTConfig()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return otelhttp.NewTransport(next, otelhttp.WithTracerProvider(provider))
		})
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: config, Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, PageSize: 1, Tracer: otel.New(provider)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		lw.Close()
		synctest.Wait()
		if err := play.Err(); err != nil {
			t.Fatalf("%v\n%s", err, play.Transcript())
		}

		want := strings.TrimSpace(`
nodewatch.sync attempts=2 objects=2 outcome=success reflector=pods resource=pods rv= rvAfter=100
  nodewatch.watchlist items=0 outcome=error reason=watchlist_unsupported reflector=pods resource=pods rv= rvAfter= skipped=0 (error)
    HTTP GET
  nodewatch.list items=2 outcome=success pages=2 reflector=pods resource=pods rv= rvAfter=100 skipped=0
    HTTP GET
    HTTP GET
nodewatch.watch events=0 outcome=error reason=expired reflector=pods resource=pods rv=100 rvAfter=100 (error)
  HTTP GET
nodewatch.relist attempts=1 objects=1 outcome=success reason=expired reflector=pods resource=pods rv=100 rvAfter=120
  nodewatch.list items=1 outcome=success pages=1 reflector=pods resource=pods rv= rvAfter=120 skipped=1
    HTTP GET
nodewatch.watch events=0 outcome=stopped reason=stopped reflector=pods resource=pods rv=120 rvAfter=120
  HTTP GET
`)
		if got := strings.TrimSpace(tree(exporter.GetSpans())); got != want {
			t.Errorf("got\n%s\n\nwant\n%s", got, want)
		}
	})
}

// tree writes the spans, each below its parent, in the order of their starts.
func tree(spans tracetest.SpanStubs) string {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	var below func(parent, indent string)
	below = func(parent, indent string) {
		for _, s := range spans {
			if s.Parent.SpanID().String() != parent {
				continue
			}
			b.WriteString(indent + s.Name)
			var attrs []string
			for _, a := range s.Attributes {
				if name, ok := strings.CutPrefix(string(a.Key), "nodewatch."); ok && name != "bytes" {
					attrs = append(attrs, fmt.Sprintf(" %s=%s", name, a.Value.String()))
				}
			}
			slices.Sort(attrs)
			b.WriteString(strings.Join(attrs, ""))
			if s.Status.Code == codes.Error && strings.HasPrefix(s.Name, "nodewatch.") {
				b.WriteString(" (error)")
			}
			b.WriteByte('\n')
			below(s.SpanContext.SpanID().String(), indent+"  ")
		}
	}
	below("0000000000000000", "")
	return b.String()
}
