package metrics

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// family is one metric name: its description, and how the samples that share
// labels become metrics.
type family struct {
	name    string // for docs and tests; desc hides it
	desc    *prometheus.Desc
	collect func(ch chan<- prometheus.Metric, l labels, samples []sample)
}

// ofUnions are the metrics that a union has of its own. What its members count would be counted twice.
var ofUnions = []string{
	"nodewatch_synced", "nodewatch_freshness_age_seconds", "nodewatch_quarantined_objects", "nodewatch_panics_total",
	"nodewatch_subscribers", "nodewatch_mailbox_depth", "nodewatch_mailbox_age_seconds", "nodewatch_pending_events",
	"nodewatch_coalesced_events_total", "nodewatch_resyncs_total", "nodewatch_retained_objects",
	"nodewatch_handler_duration_seconds",
}

// of returns the samples of those that have the metric.
func (f family) of(samples []sample) []sample {
	if slices.Contains(ofUnions, f.name) {
		return samples
	}
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.status.Members != nil })
}

func newFamily(name, help string, extra ...string) family {
	return family{name: name, desc: prometheus.NewDesc(name, help, append([]string{"resource", "reflector"}, extra...), nil)}
}

// merge makes one value of those of several reflectors.
type merge func(a, b float64) float64

func sum(a, b float64) float64 { return a + b }

// value is a metric with one number a reflector. A number that is not known
// (NaN) is left out: no series says more than a made-up zero.
func value(kind prometheus.ValueType, name, help string, m merge, of func(sample) float64) family {
	f := newFamily(name, help)
	f.collect = func(ch chan<- prometheus.Metric, l labels, samples []sample) {
		known, merged := false, 0.0
		for _, s := range samples {
			v := of(s)
			switch {
			case math.IsNaN(v):
			case !known:
				known, merged = true, v
			default:
				merged = m(merged, v)
			}
		}
		if known {
			ch <- prometheus.MustNewConstMetric(f.desc, kind, merged, l.resource, l.reflector)
		}
	}
	return f
}

func counter(name, help string, of func(reflector.Stats) float64) family {
	return value(prometheus.CounterValue, name, help, sum, func(s sample) float64 { return of(s.stats) })
}

func gauge(name, help string, m merge, of func(sample) float64) family {
	return value(prometheus.GaugeValue, name, help, m, of)
}

// set is a metric with one number for each word of a closed set. The words are
// exported from the start, with 0.
func set[K ~string](kind prometheus.ValueType, name, help, label string, words []K, of func(sample) map[K]uint64) family {
	f := newFamily(name, help, label)
	f.collect = func(ch chan<- prometheus.Metric, l labels, samples []sample) {
		total := make(map[K]uint64, len(words))
		for _, w := range words {
			total[w] = 0
		}
		for _, s := range samples {
			for w, n := range of(s) {
				total[w] += n
			}
		}
		for w, n := range total {
			ch <- prometheus.MustNewConstMetric(f.desc, kind, float64(n), l.resource, l.reflector, string(w))
		}
	}
	return f
}

// histogram is a distribution of durations, in seconds. All reflectors have
// the same bounds, so those that share labels add up.
func histogram(name, help string, of func(reflector.Stats) reflector.Histogram) family {
	f := newFamily(name, help)
	f.collect = func(ch chan<- prometheus.Metric, l labels, samples []sample) {
		var count uint64
		var total time.Duration
		buckets := make(map[float64]uint64)
		for _, s := range samples {
			h := of(s.stats)
			count += h.Count
			total += h.Sum
			for _, b := range h.Buckets {
				buckets[b.UpperBound.Seconds()] += b.Count
			}
		}
		ch <- prometheus.MustNewConstHistogram(f.desc, count, total.Seconds(), buckets, l.resource, l.reflector)
	}
	return f
}

// age is how long before the scrape t was, in seconds: not known where t is
// zero, and 0 where the clock went back since.
func age(now, t time.Time) float64 {
	if t.IsZero() {
		return math.NaN()
	}
	return max(0, now.Sub(t).Seconds())
}

// number reads a resourceVersion, which current servers make of digits
// (KEP-5504). Above 2^53 a float64 is not exact; it still shows progress.
func number(rv string) float64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return math.NaN()
	}
	return float64(n)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// pending adds up what is pending by policy.
func pending(s sample) map[string]uint64 {
	by := make(map[string]uint64)
	for _, m := range s.stats.Mailboxes {
		by[m.Policy.String()] += uint64(m.Depth)
	}
	return by
}

// blocked is how long the reflector has been waiting for room.
func blocked(s sample) float64 {
	if s.stats.BlockedSince.IsZero() {
		return 0
	}
	return age(s.now, s.stats.BlockedSince)
}

// one is a set with one member.
func one[K comparable](k K) map[K]uint64 { return map[K]uint64{k: 1} }

// states is a closed set. A stopped reflector is not in a registry.
var states = []reflector.State{reflector.StateListing, reflector.StateWatchListing, reflector.StateWatching, reflector.StateBackingOff}

// families are all metrics, in the order of docs/metrics.md.
var families = []family{
	set(prometheus.GaugeValue, "nodewatch_reflectors", "Running reflectors, by state.",
		"state", states, func(s sample) map[reflector.State]uint64 { return one(s.status.State) }),
	gauge("nodewatch_synced", "Whether the first complete snapshot is in the store (1) or not (0).",
		math.Min, func(s sample) float64 { return truth(s.status.Synced) }),
	gauge("nodewatch_freshness_age_seconds", "Seconds since the moment up to which the store is known to be current. Absent before the first sync.",
		math.Max, func(s sample) float64 { return age(s.now, s.status.FreshAsOf) }),
	gauge("nodewatch_last_byte_age_seconds", "Seconds since the last byte of a response body came. Absent before the first.",
		math.Max, func(s sample) float64 { return age(s.now, s.stats.LastByte) }),
	gauge("nodewatch_last_bookmark_age_seconds", "Seconds since the last bookmark came. Absent before the first.",
		math.Max, func(s sample) float64 { return age(s.now, s.stats.LastBookmark) }),
	gauge("nodewatch_last_resource_version", "The resourceVersion up to which the store is known. Absent while there is none, or none that is a number.",
		math.Min, func(s sample) float64 { return number(s.status.ResourceVersion) }),
	gauge("nodewatch_store_objects", "Objects in the store.",
		sum, func(s sample) float64 { return float64(s.status.Objects) }),
	gauge("nodewatch_retained_objects", "Deleted objects that are kept for look-ups (Config.Retain).",
		sum, func(s sample) float64 { return float64(s.stats.Retained) }),
	gauge("nodewatch_quarantined_objects", "Objects whose newest version does not decode or was failed by the transform. An older version that is in the store stays there.",
		sum, func(s sample) float64 { return float64(len(s.status.Quarantined)) }),

	set(prometheus.CounterValue, "nodewatch_lists_total", "LIST requests that ended, by outcome. A paged list counts once a page.",
		"outcome", reflector.Outcomes(), func(s sample) map[string]uint64 { return s.stats.Lists }),
	set(prometheus.CounterValue, "nodewatch_watchlists_total", "Watch-lists (sendInitialEvents) that ended their initial events or failed, by outcome.",
		"outcome", reflector.Outcomes(), func(s sample) map[string]uint64 { return s.stats.WatchLists }),
	histogram("nodewatch_list_duration_seconds", "Time from the request of a list or watch-list until the store equals it, deletes included.",
		func(s reflector.Stats) reflector.Histogram { return s.ListDuration }),
	counter("nodewatch_list_items_total", "Items that lists and watch-lists brought.",
		func(s reflector.Stats) float64 { return float64(s.ListItems) }),
	counter("nodewatch_list_skipped_items_total", "Items of lists that were in the store already, same UID and resourceVersion, and were not decoded again.",
		func(s reflector.Stats) float64 { return float64(s.ListSkips) }),
	counter("nodewatch_watches_total", "WATCH requests, watch-lists included, that were answered with a stream.",
		func(s reflector.Stats) float64 { return float64(s.Watches) }),
	histogram("nodewatch_watch_duration_seconds", "Time from the request of a watch, a watch-list included, to its end.",
		func(s reflector.Stats) reflector.Histogram { return s.WatchDuration }),
	set(prometheus.CounterValue, "nodewatch_events_total", "Watch events that came, by type; types that are not known count as UNKNOWN.",
		"type", reflector.EventTypes(), func(s sample) map[string]uint64 { return s.stats.Events }),
	set(prometheus.CounterValue, "nodewatch_ignored_events_total", "Watch events and list items that were not applied, by cause.",
		"cause", reflector.Causes(), func(s sample) map[string]uint64 { return s.stats.Ignored }),

	set(prometheus.CounterValue, "nodewatch_restarts_total", "Attempts (one request each) that ended, by reason.",
		"reason", reason.All(), func(s sample) map[reason.Reason]uint64 { return s.stats.Restarts }),
	counter("nodewatch_backoff_seconds_total", "Seconds spent waiting between attempts.",
		func(s reflector.Stats) float64 { return s.BackoffTotal.Seconds() }),
	gauge("nodewatch_backoff_delay_seconds", "Length of the wait under way; 0 when not backing off.",
		math.Max, func(s sample) float64 { return s.stats.BackoffDelay.Seconds() }),
	counter("nodewatch_regressions_total", "Times that the server went back in time: a list older than what is known, or with objects in versions from before those that are.",
		func(s reflector.Stats) float64 { return float64(s.Regressions) }),
	counter("nodewatch_decode_errors_total", "Objects that did not decode, or that the transform failed.",
		func(s reflector.Stats) float64 { return float64(s.DecodeErrors) }),
	counter("nodewatch_panics_total", "Panics of transforms, handlers and predicates that were caught.",
		func(s reflector.Stats) float64 { return float64(s.Panics) }),

	counter("nodewatch_wire_bytes_total", "Bytes of response bodies as they came, before decompression.",
		func(s reflector.Stats) float64 { return float64(s.WireBytes) }),
	counter("nodewatch_decoded_bytes_total", "Bytes of response bodies after decompression.",
		func(s reflector.Stats) float64 { return float64(s.DecodedBytes) }),

	gauge("nodewatch_subscribers", "Subscribers of the reflector's events.",
		sum, func(s sample) float64 { return float64(s.stats.Subscribers) }),
	gauge("nodewatch_mailbox_depth", "Events that the slowest subscriber has not taken yet.",
		math.Max, func(s sample) float64 { return float64(s.stats.MailboxDepth) }),
	gauge("nodewatch_mailbox_age_seconds", "Seconds that the oldest event which a subscriber has not taken has been waiting; 0 without one.",
		math.Max, func(s sample) float64 { return s.stats.MailboxAge.Seconds() }),
	set(prometheus.GaugeValue, "nodewatch_pending_events", "Events that subscribers have not taken yet, in all, by their policy.",
		"policy", reflector.Policies(), pending),
	counter("nodewatch_coalesced_events_total", "Events that were merged into a later one because a subscriber was behind.",
		func(s reflector.Stats) float64 { return float64(s.Coalesced) }),
	counter("nodewatch_resyncs_total", "Times that what a subscriber had not taken was dropped, and the difference was told instead.",
		func(s reflector.Stats) float64 { return float64(s.Resyncs) }),
	counter("nodewatch_blocked_seconds_total", "Seconds that the reflector waited for subscribers of policy block.",
		func(s reflector.Stats) float64 { return s.BlockedTotal.Seconds() }),
	gauge("nodewatch_blocked_age_seconds", "Seconds since the reflector began to wait for a subscriber of policy block; 0 when it does not wait.",
		math.Max, blocked),
	histogram("nodewatch_handler_duration_seconds", "Time that a subscriber took for one event.",
		func(s reflector.Stats) reflector.Histogram { return s.HandlerDuration }),
}
