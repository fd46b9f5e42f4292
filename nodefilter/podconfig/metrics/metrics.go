// Package metrics shows a podconfig.PodConfig to Prometheus. It reads Status when
// it is scraped; the path of an event has no metric code. docs/podsources.md lists
// the metrics.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodewatch-go/nodewatch/internal/constmetric"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// Statuser is what is shown: a *podconfig.PodConfig.
type Statuser interface{ Status() podconfig.Status }

// Collector implements prometheus.Collector for one PodConfig. A process has one;
// a second in the same registry is refused by it.
type Collector struct{ config Statuser }

// NewCollector returns a collector to register. It may be registered before Run.
func NewCollector(config Statuser) *Collector { return &Collector{config} }

func perSource(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("nodewatch_pod_source_"+name, help, []string{"source"}, nil)
}

func ofConfig(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("nodewatch_pod_config_"+name, help, labels, nil)
}

var (
	seen       = perSource("seen", "1 when the source has told its first full state.")
	pods       = perSource("pods", "Pods that the source has.")
	faults     = perSource("faults", "What is wrong with the source now: manifests that are not valid, requests that fail.")
	refused    = perSource("refused_pods", "Pods of the source that are not told, such as the second of one name.")
	lastChange = perSource("last_change_timestamp_seconds", "When the source last told a change, as a Unix time; absent before the first.")

	pending   = ofConfig("pending_pods", "Pods with something that the consumer has not received.")
	conflicts = ofConfig("conflicting_names", "Names that pods of more than one source have.")
	merged    = ofConfig("merged_versions_total", "Versions of pods that the consumer never saw, because a newer one came first.")
	updates   = ofConfig("updates_total", "Updates that the consumer has received.", "op")
	told      = ofConfig("updated_pods_total", "Pods in the updates that the consumer has received.", "op")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{seen, pods, faults, refused, lastChange, pending, conflicts, merged, updates, told} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	st := c.config.Status()
	for _, s := range st.Sources {
		source := string(s.Source)
		constmetric.Bool(out, seen, s.Own.Seen, source)
		constmetric.Gauge(out, pods, float64(s.Own.Pods), source)
		constmetric.Gauge(out, faults, float64(len(s.Own.Errors)), source)
		constmetric.Gauge(out, refused, float64(len(s.Refused)), source)
		constmetric.Time(out, lastChange, s.Own.LastChange, source)
	}
	constmetric.Gauge(out, pending, float64(st.Pending))
	constmetric.Gauge(out, conflicts, float64(len(st.Conflicts)))
	constmetric.Counter(out, merged, st.Merged)
	for op, n := range st.Updates {
		constmetric.Counter(out, updates, n, op.String())
	}
	for op, n := range st.Pods {
		constmetric.Counter(out, told, n, op.String())
	}
}

var _ prometheus.Collector = (*Collector)(nil)
