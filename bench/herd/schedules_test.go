package herd

import (
	"math"
	"testing"
	"time"
)

// outages are those after which the server is healthy as soon as somebody listens.
func outages() (all []schedule) {
	for _, down := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute} {
		all = append(all, schedule{down: down}, schedule{down: down, forgets: true})
	}
	return all
}

// early are those of a real API server, which serves before /readyz says so.
func early() []schedule {
	return []schedule{
		{down: 2 * time.Second, ill: 2 * time.Second, forgets: true},
		{down: 8 * time.Second, ill: 2 * time.Second, forgets: true},
		reference,
	}
}

// reference is the outage behind the figures of TestReference. They were
// measured from readiness; how long the server served before that was not. A
// kube-apiserver 1.37 on an idle machine serves 2.2 s before; with 300 clients
// in front of it, this fits.
var reference = schedule{down: 5 * time.Second, ill: 4200 * time.Millisecond, forgets: true}

// sick are those after which the server is sick for a while.
func sick() (all []schedule) {
	for _, is := range []condition{busy, busyHint, failing, failingHint} {
		for _, ill := range []time.Duration{5 * time.Second, 20 * time.Second} {
			all = append(all, schedule{down: 10 * time.Second, then: is, ill: ill, forgets: true})
		}
	}
	return append(all, schedule{down: 10 * time.Second, then: hanging, ill: 40 * time.Second, forgets: true})
}

// perClient is the least number of requests that make a client fresh: a watch,
// and where that is told 410 one that reads the collection.
func (s schedule) perClient() int {
	if s.forgets {
		return 2
	}
	return 1
}

// least is the smallest peak, in requests a second, that any policy can have
// with which 99 of 100 clients are fresh within freshGoal of readiness. Their
// requests all fall between the moment from which the server serves and that
// goal, and one of these seconds has at least the mean of them.
func (s schedule) least(clients int) float64 {
	window := freshGoal
	if s.then == healthy {
		window += s.ill
	}
	return 0.99 * float64(clients*s.perClient()) / math.Ceil(window.Seconds())
}

// outcome is what one schedule did with both.
type outcome struct {
	schedule     schedule
	ours, theirs *tally
}

// measured are all outcomes of this run, for the results.
var measured []outcome

func measure(t *testing.T, sc schedule) outcome {
	t.Helper()
	o := outcome{sc, run(t, nodewatchClient, sc, herd()), run(t, clientGoClient, sc, herd())}
	measured = append(measured, o)
	return o
}

// alone measures ours only, where that is all that is checked and no results are written.
func alone(t *testing.T, sc schedule) outcome {
	t.Helper()
	if *results != "" {
		return measure(t, sc)
	}
	return outcome{schedule: sc, ours: run(t, nodewatchClient, sc, herd())}
}

// cost is the peak, in requests a second, times the seconds from when the
// server could be asked until 99 of 100 clients were fresh. No policy can have
// it below 0.99 of all requests.
func (o outcome) cost(t *tally) float64 {
	return float64(t.peak(time.Second, requests...)) * (t.freshAfter(0.99) + o.schedule.ill).Seconds()
}
