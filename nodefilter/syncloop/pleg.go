package syncloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What a PLEG does unless its Config says otherwise; the kubelet's figures.
const (
	DefaultRelistPeriod     = time.Second
	DefaultRelistThreshold  = 3 * time.Minute
	DefaultLifecycleBacklog = 1000
)

// PLEGConfig is the whole of a PLEG.
type PLEGConfig struct {
	// Runtime is listed. Required.
	Runtime Runtime
	// Period is the time from the end of one relist to the next. Default 1 s.
	Period time.Duration
	// Threshold is how old the last relist that succeeded may be before the PLEG
	// is not healthy; it counts from that relist's start. Default 3 min, and more
	// than Period.
	Threshold time.Duration
	// Backlog is how many events wait for the loop at most. Default 1000.
	Backlog int
	// Logger is told of relists that fail; nil discards.
	Logger *slog.Logger
}

func (c PLEGConfig) withDefaults() PLEGConfig {
	c.Period = cmp.Or(c.Period, DefaultRelistPeriod)
	c.Threshold = cmp.Or(c.Threshold, DefaultRelistThreshold)
	c.Backlog = cmp.Or(c.Backlog, DefaultLifecycleBacklog)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c PLEGConfig) validate() error {
	switch {
	case c.Runtime == nil:
		return errors.New("syncloop.PLEGConfig.Runtime is nil: give what lists the pods of the container runtime")
	case c.Period < 0:
		return fmt.Errorf("syncloop.PLEGConfig.Period is %s, it must be positive", c.Period)
	case c.Threshold <= c.Period:
		return fmt.Errorf("syncloop.PLEGConfig.Threshold is %s, it must be more than the Period of %s and the time that a relist takes", c.Threshold, c.Period)
	case c.Backlog < 0:
		return fmt.Errorf("syncloop.PLEGConfig.Backlog is %d, it must be positive", c.Backlog)
	}
	return nil
}

// PLEG is a pod lifecycle event generator that lists: it asks the runtime for all
// pods each second and makes events of what is different. Make it with NewPLEG.
type PLEG struct {
	cfg    PLEGConfig
	events chan LifecycleEvent
	// known is what the events so far say. Only Run's goroutine has it.
	known map[containerKey]*containerRecord

	mu     sync.Mutex
	status PLEGStatus
	ran    bool
}

// PLEGStatus is a PLEG at one moment.
type PLEGStatus struct {
	// LastRelist is when the last relist that succeeded began; zero before the first.
	LastRelist time.Time `json:"lastRelist,omitzero"`
	// Took is how long it took, and Total how long all that succeeded took.
	Took  time.Duration `json:"tookNanoseconds"`
	Total time.Duration `json:"totalNanoseconds"`
	// Relists counts those that succeeded, Failed the others.
	Relists uint64 `json:"relists"`
	Failed  uint64 `json:"failed"`
	// Error is why the last relist failed; empty when it did not.
	Error string `json:"error,omitempty"`
	// Events counts what was put into the channel, NoRoom what did not fit and is
	// made again by the next relist.
	Events uint64 `json:"events"`
	NoRoom uint64 `json:"noRoom"`
	// Waiting is what is in the channel now.
	Waiting int `json:"waiting"`
	// Containers is the number of containers and sandboxes of the last relist.
	Containers int `json:"containers"`
}

type containerKey struct {
	pod types.UID
	id  string
}

type containerRecord struct {
	name            string
	namespace, podN string
	state           knownState
	seen            uint64 // the relist that it was last in
}

// knownState is the state that was told.
type knownState uint8

const (
	notThere knownState = iota
	running
	exited
	unclear
)

// NewPLEG returns a PLEG that has not started. Errors are those of the configuration.
func NewPLEG(c PLEGConfig) (*PLEG, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &PLEG{cfg: c, events: make(chan LifecycleEvent, c.Backlog), known: map[containerKey]*containerRecord{}}, nil
}

// Events is the channel of events, in the order in which they were seen; there
// is no order between containers that changed within one relist but that of the
// runtime's answer. It is not closed.
func (p *PLEG) Events() <-chan LifecycleEvent { return p.events }

// Run lists at once and then a Period after each relist, until ctx ends, and
// returns nil then. A relist that fails, or panics, is logged, counted and
// repeated after the Period; nothing is taken for removed because of it.
func (p *PLEG) Run(ctx context.Context) error {
	p.mu.Lock()
	again := p.ran
	p.ran = true
	p.mu.Unlock()
	if again {
		return ErrAlreadyRun
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		p.relist(ctx)
		timer.Reset(p.cfg.Period)
	}
}

// Healthy says that the last relist that succeeded is older than the Threshold,
// or that there was none.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.status.LastRelist
	if last.IsZero() {
		if p.status.Error != "" {
			return fmt.Errorf("the container runtime was not listed yet: %s", p.status.Error)
		}
		return errors.New("the container runtime was not listed yet")
	}
	age := time.Since(last)
	switch {
	case age <= p.cfg.Threshold:
		return nil
	case p.status.Error != "":
		return fmt.Errorf("the container runtime was last listed %s ago, the threshold is %s: %s", age.Round(time.Second), p.cfg.Threshold, p.status.Error)
	}
	return fmt.Errorf("the container runtime was last listed %s ago, the threshold is %s: it does not answer", age.Round(time.Second), p.cfg.Threshold)
}

// Status can be called at any time, from any goroutine.
func (p *PLEG) Status() PLEGStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.status
	st.Waiting = len(p.events)
	return st
}

func (p *PLEG) relist(ctx context.Context) {
	start := time.Now()
	pods, stack, err := p.list(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		said := p.status.Error == err.Error()
		p.status.Failed++
		p.status.Error = err.Error()
		p.mu.Unlock()
		if said {
			return
		}
		log := p.cfg.Logger
		if stack != "" {
			log = log.With("stack", stack)
		}
		log.ErrorContext(ctx, "cannot list the pods of the container runtime", "err", err)
		return
	}
	p.mu.Lock()
	p.status.Relists++
	round := p.status.Relists
	p.mu.Unlock()

	var told, noRoom uint64
	tell := func(t EventType, k containerKey, r *containerRecord) bool {
		select {
		case p.events <- LifecycleEvent{Type: t, Pod: k.pod, Namespace: r.namespace, Name: r.podN, ContainerID: k.id, ContainerName: r.name}:
			told++
			return true
		default:
			noRoom++
			return false
		}
	}
	containers := p.compare(pods, round, tell)

	p.mu.Lock()
	s := &p.status
	s.LastRelist, s.Took, s.Error, s.Containers = start, time.Since(start), "", containers
	s.Total += s.Took
	s.Events += told
	s.NoRoom += noRoom
	p.mu.Unlock()
	if noRoom > 0 {
		p.cfg.Logger.WarnContext(ctx, "the sync loop is behind: events of containers wait for the next relist", "events", noRoom)
	}
}

// list asks the runtime, and makes an error of its panic, with the stack of that.
func (p *PLEG) list(ctx context.Context) (pods []RuntimePod, stack string, err error) {
	defer func() {
		if v := recover(); v != nil {
			stack, err = string(debug.Stack()), fmt.Errorf("its list panicked: %v", v)
		}
	}()
	pods, err = p.cfg.Runtime.Pods(ctx)
	return pods, "", err
}

// compare makes events of the difference between pods and what is known, and
// returns the number of containers. What could not be told stays as it was, so
// that the next relist finds it again.
func (p *PLEG) compare(pods []RuntimePod, round uint64, tell func(EventType, containerKey, *containerRecord) bool) (containers int) {
	for i := range pods {
		pod := &pods[i]
		for j := range pod.Containers {
			c := &pod.Containers[j]
			k := containerKey{pod.UID, c.ID}
			r := p.known[k]
			if r == nil {
				r = &containerRecord{name: c.Name, namespace: pod.Namespace, podN: pod.Name}
				p.known[k] = r
			}
			if r.seen == round {
				continue // a runtime that says a container twice
			}
			r.seen = round
			containers++
			state, event := unclear, ContainerChanged
			switch c.State {
			case ContainerRunning:
				state, event = running, ContainerStarted
			case ContainerExited:
				state, event = exited, ContainerDied
			case ContainerUnknown:
			}
			if state != r.state && tell(event, k, r) {
				r.state = state
			}
		}
	}
	var gone []containerKey
	for k, r := range p.known {
		if r.seen != round {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, func(a, b containerKey) int { return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.id, b.id)) })
	for _, k := range gone {
		r := p.known[k]
		if (r.state == running || r.state == unclear) && tell(ContainerDied, k, r) {
			r.state = exited
		}
		// One of which nothing was told has nothing to take back.
		if r.state == notThere || r.state == exited && tell(ContainerRemoved, k, r) {
			delete(p.known, k)
		}
	}
	return containers
}

var _ LifecycleEvents = (*PLEG)(nil)
