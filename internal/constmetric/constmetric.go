// Package constmetric sends to Prometheus what a collector reads from a Status when it is scraped.
package constmetric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauge sends v.
func Gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Counter sends v.
func Counter(out chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

// Time sends t as a Unix time in seconds; a time that is zero is no series.
func Time(out chan<- prometheus.Metric, d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		Gauge(out, d, float64(t.UnixMilli())/1000, labels...)
	}
}

// Bool sends 1 for true and 0 for false.
func Bool(out chan<- prometheus.Metric, d *prometheus.Desc, b bool, labels ...string) {
	v := 0.0
	if b {
		v = 1
	}
	Gauge(out, d, v, labels...)
}
