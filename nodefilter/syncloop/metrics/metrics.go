// Package metrics shows a syncloop.Loop and a syncloop.PLEG to Prometheus. It
// reads their Status when it is scraped; the loop has no metric code.
// docs/podsources.md lists the metrics.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodewatch-go/nodewatch/internal/constmetric"
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
	constmetric.Bool(out, ready, st.Ready)
	constmetric.Bool(out, paused, st.Paused != "")
	constmetric.Time(out, entered, st.Entered)
	running := 0.0
	if st.In != "" {
		running = time.Since(st.InSince).Seconds()
	}
	constmetric.Gauge(out, runningFor, running)
	for _, h := range syncloop.Handlings() {
		calls := st.Handled[h]
		out <- prometheus.MustNewConstSummary(took, calls.Calls, calls.Total.Seconds(), nil, string(h))
		constmetric.Counter(out, handled, calls.Pods, string(h))
		constmetric.Counter(out, panics, calls.Panics, string(h))
	}
	constmetric.Gauge(out, queued, float64(st.Queued))
	constmetric.Gauge(out, pods, float64(st.Pods))
	constmetric.Gauge(out, mirrors, float64(st.MirrorPods))
	constmetric.Counter(out, unknown, st.Unknown)
	constmetric.Counter(out, skipped, st.HousekeepingSkipped)
	constmetric.Counter(out, cleanup, st.CleanupErrors)
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
	constmetric.Bool(out, healthy, c.pleg.Healthy() == nil)
	constmetric.Time(out, lastRelist, st.LastRelist)
	out <- prometheus.MustNewConstSummary(relists, st.Relists, st.Total.Seconds(), nil)
	constmetric.Counter(out, failed, st.Failed)
	constmetric.Gauge(out, containers, float64(st.Containers))
	constmetric.Gauge(out, waiting, float64(st.Waiting))
	constmetric.Counter(out, events, st.Events)
	constmetric.Counter(out, noRoom, st.NoRoom)
}

var (
	_ prometheus.Collector = (*LoopCollector)(nil)
	_ prometheus.Collector = (*PLEGCollector)(nil)
	_ Loop                 = (*syncloop.Loop)(nil)
	_ PLEG                 = (*syncloop.PLEG)(nil)
)
