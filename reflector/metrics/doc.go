// Package metrics shows reflectors to Prometheus.
//
// Register hangs a collector on a Prometheus registerer. The collector reads
// the Status and Stats of every running reflector of a reflector.Registry when
// Prometheus scrapes, and only then.
//
// # Guarantees
//
//   - The path of an event has no metric code: a scrape costs a copy of the
//     counts of each reflector, and no scrape costs nothing.
//   - A stopped reflector leaves no series behind, since it has left the
//     registry. Starting and stopping reflectors does not grow the number of series.
//   - Labels are the resource, the reflector's name, and words of closed sets
//     (reasons, event types, states). How many series there are depends on the
//     names that the program gives its reflectors, not on what a server sends.
//   - Every word of a closed set is exported from the start with 0, so that
//     rate and increase see the first count of a reason.
//   - Nothing that came from a server or from credentials is in a label.
//
// # Several reflectors with the same labels
//
// Running reflectors that share resource and name are shown as one: counters,
// histograms and counts of things are summed, for ages, delays and depths the worst
// (largest) is shown, for resourceVersion and synced the smallest. When one of them
// stops, the sums fall, which Prometheus takes for a restart of the counter;
// programs that stop single reflectors should give them names of their own.
//
// docs/metrics.md lists each metric, with alerts.
package metrics
