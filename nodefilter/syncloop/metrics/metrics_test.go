package metrics

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
	sources "github.com/nodewatch-go/nodewatch/nodefilter/podconfig/metrics"
	"github.com/nodewatch-go/nodewatch/nodefilter/syncloop"
)

type fixedLoop syncloop.Status

func (f fixedLoop) Status() syncloop.Status { return syncloop.Status(f) }

type fixedPLEG struct {
	status syncloop.PLEGStatus
	err    error
}

func (f fixedPLEG) Status() syncloop.PLEGStatus { return f.status }
func (f fixedPLEG) Healthy() error              { return f.err }

// TestLoop: what Status says, with a series for each method also where it was never called.
func TestLoop(t *testing.T) {
	t.Parallel()
	// The running call's age needs a clock that stands still.
	synctest.Test(t, func(t *testing.T) {
		c := NewLoopCollector(fixedLoop{
			Ready: true, Paused: "no runtime", Entered: time.UnixMilli(1_700_000_000_250),
			In: syncloop.Syncs, InSince: time.Now().Add(-3 * time.Second),
			Handled: map[syncloop.Handling]syncloop.Calls{
				syncloop.Additions: {Calls: 2, Pods: 9, Panics: 1, Total: 1500 * time.Millisecond},
			},
			CleanupErrors: 4, HousekeepingSkipped: 5, Unknown: 6, Queued: 7, Pods: 8, MirrorPods: 3,
		})
		got := values(t, c)
		for name, want := range map[string]float64{
			"nodewatch_sync_loop_ready":                                              1,
			"nodewatch_sync_loop_paused":                                             1,
			"nodewatch_sync_loop_entered_timestamp_seconds":                          1_700_000_000.25,
			"nodewatch_sync_loop_handler_running_seconds":                            3,
			"nodewatch_sync_loop_handler_duration_seconds_count{HandlePodAdditions}": 2,
			"nodewatch_sync_loop_handler_duration_seconds_sum{HandlePodAdditions}":   1.5,
			"nodewatch_sync_loop_handler_duration_seconds_count{HandlePodCleanups}":  0,
			"nodewatch_sync_loop_handled_pods_total{HandlePodAdditions}":             9,
			"nodewatch_sync_loop_handler_panics_total{HandlePodAdditions}":           1,
			"nodewatch_sync_loop_handler_panics_total{HandleProbeResult}":            0,
			"nodewatch_sync_loop_queued_pods":                                        7,
			"nodewatch_sync_loop_pods":                                               8,
			"nodewatch_sync_loop_mirror_pods":                                        3,
			"nodewatch_sync_loop_unknown_pods_total":                                 6,
			"nodewatch_sync_loop_housekeeping_skipped_total":                         5,
			"nodewatch_sync_loop_cleanup_errors_total":                               4,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: %v (there: %t), want %v", name, v, ok, want)
			}
		}
		before := values(t, NewLoopCollector(fixedLoop{}))
		if _, ok := before["nodewatch_sync_loop_entered_timestamp_seconds"]; ok || before["nodewatch_sync_loop_handler_running_seconds"] != 0 {
			t.Errorf("before Run: %v", before)
		}
	})
}

func TestPLEG(t *testing.T) {
	t.Parallel()
	c := NewPLEGCollector(fixedPLEG{status: syncloop.PLEGStatus{
		LastRelist: time.UnixMilli(1_700_000_000_250), Took: time.Second, Total: 90 * time.Second, Relists: 60, Failed: 2,
		Events: 5, NoRoom: 4, Waiting: 3, Containers: 20}})
	got := values(t, c)
	for name, want := range map[string]float64{
		"nodewatch_pleg_healthy":                       1,
		"nodewatch_pleg_last_relist_timestamp_seconds": 1_700_000_000.25,
		"nodewatch_pleg_relist_duration_seconds_count": 60,
		"nodewatch_pleg_relist_duration_seconds_sum":   90,
		"nodewatch_pleg_relists_failed_total":          2,
		"nodewatch_pleg_containers":                    20,
		"nodewatch_pleg_waiting_events":                3,
		"nodewatch_pleg_events_total":                  5,
		"nodewatch_pleg_deferred_events_total":         4,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v (there: %t), want %v", name, v, ok, want)
		}
	}
	ill := values(t, NewPLEGCollector(fixedPLEG{err: errors.New("no answer")}))
	if _, ok := ill["nodewatch_pleg_last_relist_timestamp_seconds"]; ok || ill["nodewatch_pleg_healthy"] != 0 {
		t.Errorf("before the first relist: %v", ill)
	}
}

// TestDocumented: docs/podsources.md lists each metric, and promlint has nothing against their names.
func TestDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/podsources.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []prometheus.Collector{
		NewLoopCollector(fixedLoop{Entered: time.Unix(1, 0)}),
		NewPLEGCollector(fixedPLEG{status: syncloop.PLEGStatus{LastRelist: time.Unix(1, 0)}}),
	} {
		if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		described, families := make(chan *prometheus.Desc, 32), gather(t, c)
		c.Describe(described)
		if len(families) != len(described) {
			t.Errorf("%d metrics are collected and %d described", len(families), len(described))
		}
		for _, name := range families {
			if !strings.Contains(string(page), "| `"+name+"`") {
				t.Errorf("docs/podsources.md does not have %s", name)
			}
		}
	}
}

// TestMethods: what syncloop calls by these names is all that has a series.
func TestMethods(t *testing.T) {
	t.Parallel()
	all := syncloop.Handlings()
	if slices.Sort(all); len(slices.Compact(all)) != 7 {
		t.Errorf("%v, want seven different methods", all)
	}
}

// TestAlertsKnowTheirMetrics: a metric that is renamed must not leave a dead alert.
func TestAlertsKnowTheirMetrics(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../../deploy/alerts/podsources.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := sources.NewCollector(fixedSources{Sources: []podconfig.SourceState{{Source: podconfig.FileSource}}})
	known := slices.Concat(gather(t, config), gather(t, NewLoopCollector(fixedLoop{Entered: time.Unix(1, 0)})), gather(t, NewPLEGCollector(fixedPLEG{})))
	names := regexp.MustCompile(`\bnodewatch_[a-z_]+`).FindAllString(string(rules), -1)
	if len(names) < 6 {
		t.Fatalf("only %d names of metrics in the rules", len(names))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			t.Errorf("an alert uses %s, which is not a metric", name)
		}
	}
}

type fixedSources podconfig.Status

func (f fixedSources) Status() podconfig.Status { return podconfig.Status(f) }

func gather(t *testing.T, c prometheus.Collector) (names []string) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	return names
}

// values has each sample by its name and the value of its label.
func values(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				label = "{" + l.GetValue() + "}"
			}
			switch {
			case m.Summary != nil:
				got[f.GetName()+"_count"+label] = float64(m.Summary.GetSampleCount())
				got[f.GetName()+"_sum"+label] = m.Summary.GetSampleSum()
			case m.Counter != nil:
				got[f.GetName()+label] = m.Counter.GetValue()
			default:
				got[f.GetName()+label] = m.Gauge.GetValue()
			}
		}
	}
	return got
}
