package metrics

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

type fixed podconfig.Status

func (f fixed) Status() podconfig.Status { return podconfig.Status(f) }

var sample = fixed{
	Pending: 3, Merged: 7,
	Updates:   map[podconfig.Op]uint64{podconfig.Add: 2, podconfig.Remove: 1},
	Pods:      map[podconfig.Op]uint64{podconfig.Add: 20, podconfig.Remove: 4},
	Conflicts: []podconfig.Conflict{{Name: "a"}},
	Sources: []podconfig.SourceState{
		{Source: podconfig.FileSource, Refused: make([]podconfig.Refused, 2), Own: podconfig.SourceStatus{
			Seen: true, Pods: 5, LastChange: time.UnixMilli(1_700_000_000_250), Errors: make([]podconfig.SourceError, 1)}},
		{Source: podconfig.APIServerSource},
	},
}

func TestCollect(t *testing.T) {
	t.Parallel()
	c := NewCollector(sample)
	want := `
# HELP nodewatch_pod_config_conflicting_names Names that pods of more than one source have.
# TYPE nodewatch_pod_config_conflicting_names gauge
nodewatch_pod_config_conflicting_names 1
# HELP nodewatch_pod_config_merged_versions_total Versions of pods that the consumer never saw, because a newer one came first.
# TYPE nodewatch_pod_config_merged_versions_total counter
nodewatch_pod_config_merged_versions_total 7
# HELP nodewatch_pod_config_pending_pods Pods with something that the consumer has not received.
# TYPE nodewatch_pod_config_pending_pods gauge
nodewatch_pod_config_pending_pods 3
# HELP nodewatch_pod_config_updated_pods_total Pods in the updates that the consumer has received.
# TYPE nodewatch_pod_config_updated_pods_total counter
nodewatch_pod_config_updated_pods_total{op="ADD"} 20
nodewatch_pod_config_updated_pods_total{op="REMOVE"} 4
# HELP nodewatch_pod_config_updates_total Updates that the consumer has received.
# TYPE nodewatch_pod_config_updates_total counter
nodewatch_pod_config_updates_total{op="ADD"} 2
nodewatch_pod_config_updates_total{op="REMOVE"} 1
# HELP nodewatch_pod_source_faults What is wrong with the source now: manifests that are not valid, requests that fail.
# TYPE nodewatch_pod_source_faults gauge
nodewatch_pod_source_faults{source="api"} 0
nodewatch_pod_source_faults{source="file"} 1
# HELP nodewatch_pod_source_last_change_timestamp_seconds When the source last told a change, as a Unix time; absent before the first.
# TYPE nodewatch_pod_source_last_change_timestamp_seconds gauge
nodewatch_pod_source_last_change_timestamp_seconds{source="file"} 1.70000000025e+09
# HELP nodewatch_pod_source_pods Pods that the source has.
# TYPE nodewatch_pod_source_pods gauge
nodewatch_pod_source_pods{source="api"} 0
nodewatch_pod_source_pods{source="file"} 5
# HELP nodewatch_pod_source_refused_pods Pods of the source that are not told, such as the second of one name.
# TYPE nodewatch_pod_source_refused_pods gauge
nodewatch_pod_source_refused_pods{source="api"} 0
nodewatch_pod_source_refused_pods{source="file"} 2
# HELP nodewatch_pod_source_seen 1 when the source has told its first full state.
# TYPE nodewatch_pod_source_seen gauge
nodewatch_pod_source_seen{source="api"} 0
nodewatch_pod_source_seen{source="file"} 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	if reg.Register(NewCollector(sample)) == nil {
		t.Error("a second collector is accepted")
	}
}

// TestDocumented: docs/podsources.md lists each metric.
func TestDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/podsources.md")
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(sample))
	families, err := reg.Gather()
	if err != nil || len(families) != 10 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	for _, f := range families {
		if !strings.Contains(string(page), "| `"+f.GetName()+"`") {
			t.Errorf("docs/podsources.md does not have %s", f.GetName())
		}
	}
}
