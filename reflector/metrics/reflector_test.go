package metrics

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// silent is a server that takes every request and never answers.
type silent struct{}

func (silent) List(ctx context.Context, _ metav1.ListOptions, _ listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	<-ctx.Done()
	return metav1.ListMeta{}, ctx.Err()
}

func (silent) Watch(ctx context.Context, _ metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// start runs a reflector; stop ends it and returns when it is gone.
func start(t *testing.T, c reflector.Config[*corev1.Pod]) (r *reflector.Reflector[*corev1.Pod], stop func()) {
	t.Helper()
	r, err := reflector.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// series returns the text of every series that reg has, without values.
func series(t *testing.T, reg prometheus.Gatherer) map[string]bool {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]bool)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[fmt.Sprint(f.GetName(), m.GetLabel())] = true
		}
	}
	return out
}

// TestSeriesAfterStop quotes: a stopped reflector leaves no series behind.
// 10,000 reflectors are started and stopped, half of them with names of their
// own; one runs all the time.
func TestSeriesAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry reflector.Registry
		reg := prometheus.NewRegistry()
		if err := Register(reg, &registry); err != nil {
			t.Fatal(err)
		}
		_, stopFirst := start(t, reflector.Config[*corev1.Pod]{ListerWatcher: silent{}, Resource: "pods", Name: "first", Registry: &registry})
		synctest.Wait()
		before := series(t, reg)
		if len(before) == 0 {
			t.Fatal("a running reflector has no series")
		}

		const rounds, together = 100, 100
		for round := range rounds {
			var stops []func()
			for i := range together {
				name := "same"
				if i%2 == 0 {
					name = fmt.Sprintf("own-%d-%d", round, i)
				}
				_, stop := start(t, reflector.Config[*corev1.Pod]{ListerWatcher: silent{}, Resource: "pods", Name: name, Registry: &registry})
				stops = append(stops, stop)
			}
			synctest.Wait()
			if round == 0 {
				// Half of them with a name each, the other half sharing one, and the first.
				if got, want := len(series(t, reg)), len(before)*(together/2+2); got != want {
					t.Errorf("%d series while they run, want %d", got, want)
				}
			}
			for _, stop := range stops {
				stop()
			}
		}
		after := series(t, reg)
		for s := range after {
			if !before[s] {
				t.Errorf("series left behind: %s", s)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%d series after, %d before", len(after), len(before))
		}
		stopFirst()
		if left := series(t, reg); len(left) != 0 {
			t.Errorf("%d series with no reflector left", len(left))
		}
	})
}

// TestRunningReflector follows a reflector through a list, events, the end of a watch and a
// bookmark, and reads what Prometheus would.
func TestRunningReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		}
		create := func(name string) {
			t.Helper()
			if err := srv.Create(pod(name)); err != nil {
				t.Fatal(err)
			}
		}
		create("web-0")
		create("web-1")

		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		var registry reflector.Registry
		reg := prometheus.NewPedanticRegistry()
		if err := Register(reg, &registry); err != nil {
			t.Fatal(err)
		}
		r, stop := start(t, reflector.Config[*corev1.Pod]{ListerWatcher: lw, InitialSync: reflector.InitialList, Registry: &registry})
		defer stop()
		if err := r.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		create("web-2")
		if err := srv.Delete(pod("web-0")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		srv.EndWatches()
		time.Sleep(5 * time.Second) // virtual: the wait before the watch is opened again
		synctest.Wait()
		srv.SendBookmarks()
		synctest.Wait()
		time.Sleep(7 * time.Second) // virtual: ages grow, and nothing else
		synctest.Wait()

		for name, want := range map[string]float64{
			`nodewatch_reflectors{state="Watching"}`:        1,
			`nodewatch_synced{}`:                            1,
			`nodewatch_store_objects{}`:                     2,
			`nodewatch_lists_total{outcome="success"}`:      1,
			`nodewatch_lists_total{outcome="error"}`:        0,
			`nodewatch_list_items_total{}`:                  2,
			`nodewatch_list_duration_seconds{}`:             1,
			`nodewatch_watches_total{}`:                     2,
			`nodewatch_watch_duration_seconds{}`:            1,
			`nodewatch_events_total{type="ADDED"}`:          1,
			`nodewatch_events_total{type="DELETED"}`:        1,
			`nodewatch_events_total{type="BOOKMARK"}`:       1,
			`nodewatch_restarts_total{reason="eof"}`:        1,
			`nodewatch_restarts_total{reason="expired"}`:    0,
			`nodewatch_freshness_age_seconds{}`:             7,
			`nodewatch_last_byte_age_seconds{}`:             7,
			`nodewatch_last_bookmark_age_seconds{}`:         7,
			`nodewatch_last_resource_version{}`:             float64(srv.ResourceVersion()),
			`nodewatch_quarantined_objects{}`:               0,
			`nodewatch_ignored_events_total{cause="stale"}`: 0,
			`nodewatch_backoff_delay_seconds{}`:             0,
		} {
			if got := read1(t, reg, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		wire, decoded := read1(t, reg, "nodewatch_wire_bytes_total{}"), read1(t, reg, "nodewatch_decoded_bytes_total{}")
		if wire == 0 || decoded < wire {
			t.Errorf("%v bytes on the wire, %v decoded", wire, decoded)
		}
		problems, err := testutil.GatherAndLint(reg)
		if err != nil || len(problems) != 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	})
}

// read1 returns the value of the one series of the reflector "pods" that has the extra label; of a
// histogram its count. A series that is not there is -1.
func read1(t *testing.T, reg prometheus.Gatherer, selector string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			extra := ""
			for _, l := range m.GetLabel() {
				if n := l.GetName(); n != "resource" && n != "reflector" {
					extra = fmt.Sprintf("%s=%q", n, l.GetValue())
				} else if l.GetValue() != "pods" {
					t.Errorf("%s has the label %s=%q, want pods", f.GetName(), n, l.GetValue())
				}
			}
			if f.GetName()+"{"+extra+"}" == selector {
				if f.GetType() == dto.MetricType_HISTOGRAM {
					return float64(m.GetHistogram().GetSampleCount())
				}
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}
