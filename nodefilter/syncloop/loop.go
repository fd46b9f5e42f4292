package syncloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// What a Loop does unless its Config says otherwise; the kubelet's figures.
const (
	DefaultSyncPeriod         = time.Second
	DefaultHousekeepingPeriod = 2 * time.Second
)

// Errors of Run.
var (
	ErrAlreadyRun    = errors.New("syncloop: Run was called before; make another one with New")
	ErrUpdatesClosed = errors.New("syncloop: the channel of updates was closed: the PodConfig has stopped")
)

// Config is the whole of a Loop. Updates, Sources and Handler are required.
type Config struct {
	// Updates are those of a PodConfig.
	Updates <-chan podconfig.PodUpdate
	// Sources are those that the PodConfig has: housekeeping waits for all of them.
	Sources []podconfig.Source
	// Handler is called for everything. One that is also a ProbeHandler is told
	// probe results.
	Handler SyncHandler

	// Lifecycle, when set, is run by Run, and its events are synced. While it is
	// not healthy, nothing is handled.
	Lifecycle LifecycleEvents
	// Liveness, Readiness and Startup are results of probes, nil for none. One
	// that is closed is taken for nil. Of the liveness only failures have a pod synced.
	Liveness, Readiness, Startup <-chan ProbeResult

	// SyncPeriod is that of the look at the WorkQueue. Default 1 s.
	SyncPeriod time.Duration
	// HousekeepingPeriod is that of HandlePodCleanups. Default 2 s.
	HousekeepingPeriod time.Duration
	// Logger is told what is dispatched (debug), and of panics and other
	// mishaps; nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.SyncPeriod == 0 {
		c.SyncPeriod = DefaultSyncPeriod
	}
	if c.HousekeepingPeriod == 0 {
		c.HousekeepingPeriod = DefaultHousekeepingPeriod
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Updates == nil:
		return errors.New("syncloop.Config.Updates is nil: give the Updates of a podconfig.PodConfig")
	case len(c.Sources) == 0:
		return errors.New("syncloop.Config.Sources is empty: name the sources of the PodConfig, or housekeeping would not know when all are seen")
	case c.Handler == nil:
		return errors.New("syncloop.Config.Handler is nil")
	case c.SyncPeriod < 0:
		return fmt.Errorf("syncloop.Config.SyncPeriod is %s, it must be positive", c.SyncPeriod)
	case c.HousekeepingPeriod < 0:
		return fmt.Errorf("syncloop.Config.HousekeepingPeriod is %s, it must be positive", c.HousekeepingPeriod)
	}
	return nil
}

// Loop is the sync loop of a node. The package comment says what it promises.
type Loop struct {
	cfg   Config
	ran   atomic.Bool
	pods  PodManager
	queue WorkQueue
	watch *monitor
}

// New returns a Loop that has not started. Errors are those of the configuration.
func New(c Config) (*Loop, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Loop{cfg: c, watch: newMonitor(c.Sources)}, nil
}

// Pods are the pods of the updates so far.
func (l *Loop) Pods() *PodManager { return &l.pods }

// Queue holds the pods to sync later. Any goroutine may add to it.
func (l *Loop) Queue() *WorkQueue { return &l.queue }

// Run handles what comes until ctx ends, and returns nil then, or
// ErrUpdatesClosed when there will be no update any more, or the error of
// Lifecycle.
func (l *Loop) Run(ctx context.Context) error {
	if l.ran.Swap(true) {
		return ErrAlreadyRun
	}
	ctx, stop := context.WithCancel(ctx)
	var (
		lifecycle sync.WaitGroup
		failure   error
		events    <-chan LifecycleEvent
	)
	if l.cfg.Lifecycle != nil {
		events = l.cfg.Lifecycle.Events()
		lifecycle.Go(func() {
			if err := l.cfg.Lifecycle.Run(ctx); err != nil && ctx.Err() == nil {
				failure = fmt.Errorf("syncloop: lifecycle events: %w", err)
				stop()
			}
		})
	}
	err := l.loop(ctx, events)
	stop()
	lifecycle.Wait()
	return cmp.Or(failure, err)
}

// loop is the one select.
func (l *Loop) loop(ctx context.Context, events <-chan LifecycleEvent) error {
	syncTick := time.NewTicker(l.cfg.SyncPeriod)
	defer syncTick.Stop()
	housekeepingTick := time.NewTicker(l.cfg.HousekeepingPeriod)
	defer housekeepingTick.Stop()
	liveness, readiness, startup := l.cfg.Liveness, l.cfg.Readiness, l.cfg.Startup
	for {
		if !l.awaitHealthy(ctx) {
			return nil
		}
		l.watch.enter()
		select {
		case <-ctx.Done():
			return nil
		case u, open := <-l.cfg.Updates:
			if ctx.Err() != nil {
				return nil
			}
			if !open {
				return ErrUpdatesClosed
			}
			l.handleUpdate(ctx, u)
		case e := <-events:
			l.handleEvent(ctx, e)
		case now := <-syncTick.C:
			l.handleSync(ctx, now)
		case r, open := <-liveness:
			liveness = l.handleProbe(ctx, Liveness, r, open, liveness)
		case r, open := <-readiness:
			readiness = l.handleProbe(ctx, Readiness, r, open, readiness)
		case r, open := <-startup:
			startup = l.handleProbe(ctx, Startup, r, open, startup)
		case <-housekeepingTick.C:
			l.handleHousekeeping(ctx)
		}
	}
}
