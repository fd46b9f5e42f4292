package syncloop

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// Handling names a method of the handler in logs and in Status.
type Handling string

// The methods.
const (
	Additions  Handling = "HandlePodAdditions"
	Updates    Handling = "HandlePodUpdates"
	Removes    Handling = "HandlePodRemoves"
	Reconciles Handling = "HandlePodReconcile"
	Syncs      Handling = "HandlePodSyncs"
	Cleanups   Handling = "HandlePodCleanups"
	Probes     Handling = "HandleProbeResult"
)

// Handlings are all methods, in this order.
func Handlings() []Handling {
	return []Handling{Additions, Updates, Removes, Reconciles, Syncs, Cleanups, Probes}
}

// Status is a Loop at one moment.
type Status struct {
	// Ready says that the first full state of every configured source was handled.
	Ready bool `json:"ready"`
	// Entered is when the loop began to wait for what comes next, the last time;
	// zero before Run.
	Entered time.Time `json:"entered,omitzero"`
	// Paused is why nothing is handled now, and PausedSince since when; empty
	// while the runtime is healthy.
	Paused      string    `json:"paused,omitempty"`
	PausedSince time.Time `json:"pausedSince,omitzero"`
	// In is the method that is running now, with the number of its pods, since
	// InSince; empty when none is.
	In      Handling  `json:"in,omitempty"`
	InPods  int       `json:"inPods,omitempty"`
	InSince time.Time `json:"inSince,omitzero"`
	// Handled counts the calls of each method that was called.
	Handled map[Handling]Calls `json:"handled"`
	// CleanupErrors counts the errors of HandlePodCleanups, and
	// HousekeepingSkipped the ticks at which not every source was ready.
	CleanupErrors       uint64 `json:"cleanupErrors"`
	HousekeepingSkipped uint64 `json:"housekeepingSkipped"`
	// Unknown counts events, probe results and delayed syncs of pods that are not
	// there any more, or not yet.
	Unknown uint64 `json:"unknown"`
	// Queued is the number of pods that wait for a delayed sync.
	Queued int `json:"queued"`
	// Pods and MirrorPods are what the PodManager has.
	Pods       int `json:"pods"`
	MirrorPods int `json:"mirrorPods"`
}

// Calls are those of one method.
type Calls struct {
	Calls  uint64 `json:"calls"`
	Pods   uint64 `json:"pods"` // of all calls together
	Panics uint64 `json:"panics"`
	// Total, Longest and Last are times; a call that is running is not in them.
	Total   time.Duration `json:"totalNanoseconds"`
	Longest time.Duration `json:"longestNanoseconds"`
	Last    time.Duration `json:"lastNanoseconds"`
}

// healthyFor is how long the loop may be in one iteration, as in the kubelet's
// health check of its sync loop.
const healthyFor = 5 * time.Minute

// Healthy says why the loop does not get on: one call of the handler has been
// running for more than 5 minutes, or the runtime has not been healthy for as long. It is
// nil before Run.
func (l *Loop) Healthy() error {
	st := l.watch.status()
	switch {
	case st.In != "" && time.Since(st.InSince) > healthyFor:
		return fmt.Errorf("syncloop: %s of %d pods has been running for %s", st.In, st.InPods, time.Since(st.InSince).Round(time.Second))
	case st.Paused != "" && time.Since(st.PausedSince) > healthyFor:
		return fmt.Errorf("syncloop: nothing has been handled for %s: %s", time.Since(st.PausedSince).Round(time.Second), st.Paused)
	}
	return nil
}

// Status can be called at any time, from any goroutine, also while a handler runs.
func (l *Loop) Status() Status {
	st := l.watch.status()
	st.Queued = l.queue.Len()
	st.Pods, st.MirrorPods = len(l.pods.Pods()), len(l.pods.MirrorPods())
	return st
}

// monitor is what Status has of the loop itself.
type monitor struct {
	mu sync.Mutex
	// open are the sources whose first full state was not handled.
	open map[podconfig.Source]bool
	st   Status
}

func newMonitor(sources []podconfig.Source) *monitor {
	m := &monitor{open: map[podconfig.Source]bool{}, st: Status{Handled: map[Handling]Calls{}}}
	for _, s := range sources {
		m.open[s] = true
	}
	return m
}

func (m *monitor) status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.st
	st.Ready = len(m.open) == 0
	st.Handled = maps.Clone(st.Handled)
	return st
}

func (m *monitor) change(f func(*Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.st)
}

func (m *monitor) enter()   { m.change(func(st *Status) { st.Entered = time.Now() }) }
func (m *monitor) unknown() { m.change(func(st *Status) { st.Unknown++ }) }
func (m *monitor) skipped() { m.change(func(st *Status) { st.HousekeepingSkipped++ }) }
func (m *monitor) failed()  { m.change(func(st *Status) { st.CleanupErrors++ }) }

// handled: the first full state of the source was.
func (m *monitor) handled(s podconfig.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, s)
}

func (m *monitor) ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open) == 0
}

// pause notes why nothing is handled, nil for nothing; it reports whether that
// begins or ends with it.
func (m *monitor) pause(err error) (news bool) {
	m.change(func(st *Status) {
		news = (err != nil) != (st.Paused != "")
		switch {
		case err == nil:
			st.Paused, st.PausedSince = "", time.Time{}
		case news:
			st.Paused, st.PausedSince = err.Error(), time.Now()
		default:
			st.Paused = err.Error()
		}
	})
	return news
}

func (m *monitor) begin(name Handling, pods int) (now time.Time) {
	m.change(func(st *Status) {
		now = time.Now()
		st.In, st.InPods, st.InSince = name, pods, now
		c := st.Handled[name]
		c.Calls++
		c.Pods += uint64(pods)
		st.Handled[name] = c
	})
	return now
}

func (m *monitor) end(name Handling, begin time.Time, panicked bool) (took time.Duration) {
	m.change(func(st *Status) {
		took = time.Since(begin)
		c := st.Handled[name]
		c.Total += took
		c.Longest = max(c.Longest, took)
		c.Last = took
		if panicked {
			c.Panics++
		}
		st.Handled[name] = c
		st.In, st.InPods, st.InSince = "", 0, time.Time{}
	})
	return took
}
