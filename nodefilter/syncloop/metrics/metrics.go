// Package metrics shows a syncloop.Loop and a syncloop.PLEG to Prometheus. It
// reads their Status when it is scraped; the loop has no metric code.
// docs/podsources.md lists the metrics.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodewatch-go/nodewatch/nodefilter/syncloop"
)

// Loop is what LoopCollector shows: a *syncloop.Loop.
type Loop interface{ Status() syncloop.Status }

// PLEG is what PLEGCollector shows: a *syncloop.PLEG.
type PLEG interface {
	Status() syncloop.PLEGStatus
	Healthy() error
}

// LoopCollector implements prometheus.Collector for one Loop. A process has one; a
// second in the same registry is refused by it.
type LoopCollector struct{ loop Loop }

// NewLoopCollector returns a collector to register. It may be registered before Run.
func NewLoopCollector(loop Loop) *LoopCollector { return &LoopCollector{loop} }

// PLEGCollector implements prometheus.Collector for one PLEG, as LoopCollector does.
type PLEGCollector struct{ pleg PLEG }

// NewPLEGCollector returns a collector to register. It may be registered before Run.
func NewPLEGCollector(pleg PLEG) *PLEGCollector { return &PLEGCollector{pleg} }

func ofLoop(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("nodewatch_sync_loop_"+name, help, labels, nil)
}

func ofPLEG(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("nodewatch_pleg_"+name, help, labels, nil)
}

var (
	ready      = ofLoop("ready", "1 when the first full state of every source was handled.")
	paused     = ofLoop("paused", "1 while nothing is handled because the runtime is not healthy.")
	entered    = ofLoop("entered_timestamp_seconds", "When the loop last began to wait for what comes next, as a Unix time; absent before it runs.")
	runningFor = ofLoop("handler_running_seconds", "How long the call of the handler that is under way has been running; 0 for none.")
	took       = ofLoop("handler_duration_seconds", "Calls of the handler that have ended, and the time that they took together.", "handler")
	handled    = ofLoop("handled_pods_total", "Pods in the calls of the handler.", "handler")
	panics     = ofLoop("handler_panics_total", "Calls of the handler that panicked.", "handler")
	queued     = ofLoop("queued_pods", "Pods that wait for a delayed sync.")
	pods       = ofLoop("pods", "Pods that the loop knows, without mirror pods.")
	mirrors    = ofLoop("mirror_pods", "Mirror pods that the loop knows.")
	unknown    = ofLoop("unknown_pods_total", "Events, probe results and delayed syncs of pods that the loop does not know.")
	skipped    = ofLoop("housekeeping_skipped_total", "Times that housekeeping was due and not every source was ready.")
	cleanup    = ofLoop("cleanup_errors_total", "Errors of HandlePodCleanups.")
)

// Describe implements prometheus.Collector.
func (c *LoopCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ready, paused, entered, runningFor, took, handled, panics, queued, pods, mirrors, unknown, skipped, cleanup} {
		out <- d
	}
}

// Collect implements prometheus.Collector. Every method of the handler has its
// series from the start, so that the first call is an increase.
func (c *LoopCollector) Collect(out chan<- prometheus.Metric) {
	st := c.loop.Status()
	gauge(out, ready, one(st.Ready))
	gauge(out, paused, one(st.Paused != ""))
	if !st.Entered.IsZero() {
		gauge(out, entered, unix(st.Entered))
	}
	running := 0.0
	if st.In != "" {
		running = time.Since(st.InSince).Seconds()
	}
	gauge(out, runningFor, running)
	for _, h := range syncloop.Handlings() {
		calls := st.Handled[h]
		out <- prometheus.MustNewConstSummary(took, calls.Calls, calls.Total.Seconds(), nil, string(h))
		counter(out, handled, calls.Pods, string(h))
		counter(out, panics, calls.Panics, string(h))
	}
	gauge(out, queued, float64(st.Queued))
	gauge(out, pods, float64(st.Pods))
	gauge(out, mirrors, float64(st.MirrorPods))
	counter(out, unknown, st.Unknown)
	counter(out, skipped, st.HousekeepingSkipped)
	counter(out, cleanup, st.CleanupErrors)
}

var (
	healthy    = ofPLEG("healthy", "1 while the last relist that succeeded is not older than the threshold.")
	lastRelist = ofPLEG("last_relist_timestamp_seconds", "When the last relist that succeeded began, as a Unix time; absent before the first.")
	relists    = ofPLEG("relist_duration_seconds", "Relists that succeeded, and the time that they took together.")
	failed     = ofPLEG("relists_failed_total", "Relists that failed.")
	containers = ofPLEG("containers", "Containers and sandboxes of the last relist that succeeded.")
	waiting    = ofPLEG("waiting_events", "Events that the loop has not taken.")
	events     = ofPLEG("events_total", "Events that were put into the channel.")
	noRoom     = ofPLEG("deferred_events_total", "Events that did not fit into the channel, and are made again by the next relist.")
)

// Describe implements prometheus.Collector.
func (c *PLEGCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{healthy, lastRelist, relists, failed, containers, waiting, events, noRoom} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *PLEGCollector) Collect(out chan<- prometheus.Metric) {
	st := c.pleg.Status()
	gauge(out, healthy, one(c.pleg.Healthy() == nil))
	if !st.LastRelist.IsZero() {
		gauge(out, lastRelist, unix(st.LastRelist))
	}
	out <- prometheus.MustNewConstSummary(relists, st.Relists, st.Total.Seconds(), nil)
	counter(out, failed, st.Failed)
	gauge(out, containers, float64(st.Containers))
	gauge(out, waiting, float64(st.Waiting))
	counter(out, events, st.Events)
	counter(out, noRoom, st.NoRoom)
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

var (
	_ prometheus.Collector = (*LoopCollector)(nil)
	_ prometheus.Collector = (*PLEGCollector)(nil)
	_ Loop                 = (*syncloop.Loop)(nil)
	_ PLEG                 = (*syncloop.PLEG)(nil)
)
