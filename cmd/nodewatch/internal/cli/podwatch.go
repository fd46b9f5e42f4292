package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/debugserver"
	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

type podReflector = reflector.Reflector[*corev1.Pod]

// podWatch is one run of the command pods: a reflector for each node (field
// selectors have no "or"), and one printer for all their events.
type podWatch struct {
	options  *podsOptions
	rest     *rest.Config
	log      *slog.Logger
	out      io.Writer
	terminal *terminal

	registry   reflector.Registry
	reflectors []*podReflector
	// disconnected receives the first end of a watch, with --exit-on-disconnect.
	disconnected chan error
}

// stopGrace bounds how long run waits for its parts when it ends; they
// promise to need a tenth of it.
const stopGrace = time.Second

// printGrace is how long an interrupted run goes on with what it was writing.
const printGrace = 300 * time.Millisecond

// run returns nil when it is done or interrupted.
func (p *podWatch) run(ctx context.Context) error {
	p.disconnected = make(chan error, 1)
	if err := p.build(); err != nil {
		return err
	}
	if p.options.metricsAddr != "" {
		pages, err := debugserver.Start(debugserver.Config{
			Addr: p.options.metricsAddr, Registry: &p.registry, Expected: len(p.reflectors),
			MaxAge: p.maxAge(), Logger: p.log,
		})
		if err != nil {
			return err
		}
		defer pages.Close()
		p.log.Info("serving metrics and health", "url", "http://"+pages.Addr().String()+"/")
	}

	// The reflectors can be stopped alone, so that what they brought can still be printed.
	ctx, cancel := context.WithCancel(ctx)
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer func() {
		stop()
		cancel()
		waitAtMost(&group, stopGrace)
		p.terminal.Progress("")
	}()
	failed := make(chan error, len(p.reflectors))
	for _, r := range p.reflectors {
		group.Go(func() {
			if !p.options.once {
				awaitSubscriber(running, r)
			}
			if err := r.Run(running); err != nil && running.Err() == nil {
				failed <- err
			}
		})
	}
	synced := make(chan error, 1)
	group.Go(func() { synced <- p.waitForSync(ctx) })
	group.Go(func() { p.showProgress(ctx) })

	// The printer is not in the group: a write to a pipe that nobody reads
	// cannot be ended.
	printed := make(chan error, 1)
	printing := !p.options.once
	if printing {
		events := p.subscribe(ctx)
		go func() { printed <- quiet(p.print(events)) }()
	}
	for {
		select {
		case <-ctx.Done():
			if printing {
				// A reader that reads gets whole lines.
				select {
				case <-printed:
				case <-time.After(printGrace):
				}
			}
			return nil
		case err := <-failed:
			return err
		case err := <-printed:
			return err
		case err := <-synced:
			if err != nil {
				return err
			}
			synced = nil
			if p.options.once {
				printing = true
				go func() { printed <- quiet(p.printList()) }()
			}
		case err := <-p.disconnected:
			stop()
			select {
			case err := <-printed: // all there was
				if err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
			return err
		}
	}
}

// waitAtMost waits for the group, but not for ever.
func waitAtMost(group *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// quiet is nil for a reader that went away: that is not a failure.
func quiet(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// maxAge is how old what a ready process knows may be: a little more than the
// longest silence that is taken for a healthy connection.
func (p *podWatch) maxAge() time.Duration {
	return cmp.Or(p.options.idleTimeout, reflector.DefaultIdleTimeout) + time.Minute
}

// build makes the reflectors. It sends nothing.
func (p *podWatch) build() error {
	o := p.options
	if o.allNodes {
		lc := listwatch.Config{REST: p.rest, Namespace: o.namespace, LabelSelector: o.labels, FieldSelector: o.fields, Logger: p.log}
		lc.Resource = corev1.SchemeGroupVersion.WithResource("pods")
		p.adjustListWatch(&lc)
		lw, err := listwatch.New[*corev1.Pod](lc)
		if err != nil {
			return connectionError(err)
		}
		rc := reflector.Config[*corev1.Pod]{Name: "all-nodes", ListerWatcher: lw, OnStop: lw.Close, Registry: &p.registry, Logger: p.log}
		g := p.adjustReflector(&rc)
		r, err := reflector.New(rc)
		if err != nil {
			return err
		}
		g.reflector = r
		p.reflectors = []*podReflector{r}
		return nil
	}
	for _, node := range o.nodes {
		var g *guard
		r, err := nodefilter.NewPodReflector(nodefilter.Config{
			REST: p.rest, Node: node, Namespace: o.namespace, LabelSelector: o.labels, FieldSelector: o.fields,
			ListWatch: p.adjustListWatch,
			Reflector: func(rc *reflector.Config[*corev1.Pod]) { g = p.adjustReflector(rc) },
			Name:      node, Registry: &p.registry, Logger: p.log,
		})
		if err != nil {
			return connectionError(bare(err))
		}
		g.reflector = r
		p.reflectors = append(p.reflectors, r)
	}
	return nil
}

func (p *podWatch) adjustListWatch(c *listwatch.Config) {
	c.Encoding = p.options.encodingPolicy()
	c.RequestTimeout = p.options.requestTimeout
}

func (p *podWatch) adjustReflector(c *reflector.Config[*corev1.Pod]) *guard {
	o := p.options
	g := &guard{podListerWatcher: c.ListerWatcher.(podListerWatcher), listOnly: o.once}
	if o.exitOnDisconnect {
		g.ended = func(err error) {
			select {
			case p.disconnected <- err:
			default: // another node's watch ended before
			}
		}
	}
	c.ListerWatcher = g
	c.InitialSync = o.initialSync()
	c.PageSize = o.pageSize
	c.WatchTimeout = o.watchTimeout
	c.IdleTimeout = o.idleTimeout
	c.Backoff = reflector.Backoff{Min: o.backoffMin, Max: o.backoffMax}
	return g
}

// waitForSync returns when every reflector has a complete snapshot, or with the
// reason why one has none: after --sync-timeout, or with --once after the first
// attempt that failed.
func (p *podWatch) waitForSync(ctx context.Context) error {
	timeout := p.options.syncTimeout
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if timeout > 0 {
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	errs := make(chan error, len(p.reflectors))
	for _, r := range p.reflectors {
		go func() { errs <- r.WaitForSync(waiting) }()
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for missing := len(p.reflectors); missing > 0; {
		select {
		case err := <-errs:
			if err != nil {
				if ctx.Err() != nil {
					return nil // interrupted
				}
				return p.notSynced(timeout)
			}
			missing--
		case <-look.C:
			if p.options.once && timeout == 0 {
				if err := p.firstFailure(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// notSynced says which nodes are missing and why.
func (p *podWatch) notSynced(timeout time.Duration) error {
	var why []string
	for _, r := range p.reflectors {
		s := r.Status()
		if s.Synced {
			continue
		}
		text := "no complete answer yet"
		switch {
		case s.LastError != nil:
			text = s.LastError.Error()
		case s.ListedItems > 0:
			text = fmt.Sprintf("the list is not complete, %d pods so far", s.ListedItems)
		case p.rest.ExecProvider != nil:
			text += fmt.Sprintf("; the credential plugin %s may be waiting for something", p.rest.ExecProvider.Command)
		}
		if len(p.reflectors) > 1 {
			text = s.Name + ": " + text
		}
		why = append(why, text)
	}
	return fmt.Errorf("no complete list within %s: %s", timeout, strings.Join(why, "; "))
}

// firstFailure returns the end of an attempt that a caller who asks once takes
// for the answer. What the reflector answers with another kind of request is
// none; with --initial watchlist it has no other kind than that.
func (p *podWatch) firstFailure() error {
	for _, r := range p.reflectors {
		s := r.Status()
		if s.Synced || s.LastRestart == nil || s.LastRestart.Err == nil {
			continue
		}
		switch s.LastRestart.Reason {
		case reason.WatchListUnsupported, reason.WatchListIncomplete:
			if p.options.initialSync() != reflector.InitialWatchList {
				continue
			}
		case reason.Expired, reason.RVTooLarge, reason.RVRegressed, reason.Replay:
			continue
		}
		return s.LastRestart.Err
	}
	return nil
}

// item is what a subscription hands to the printer.
type item struct {
	event   output.Event
	initial bool // part of the first snapshot
	synced  bool // no event: that snapshot is complete
}

// awaitSubscriber returns when the printer has subscribed, which it does within
// microseconds. One that came later would find what had happened by then merged
// into its snapshot, and what is printed would depend on who was faster.
func awaitSubscriber(ctx context.Context, r *podReflector) {
	for r.Stats().Subscribers == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
}

// subscribe merges the events of all reflectors, through a union where there is
// more than one. The channel is closed when they have stopped and everything
// was handed over, or when ctx ends.
func (p *podWatch) subscribe(ctx context.Context) <-chan item {
	items := make(chan item, 256)
	send := func(it item) bool {
		select {
		case items <- it:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var mu sync.Mutex // what union says goes out in the order in which it says it
	var merge *union
	if len(p.reflectors) > 1 {
		merge = newUnion(len(p.reflectors))
	}
	var group sync.WaitGroup
	for source, r := range p.reflectors {
		group.Go(func() {
			for ev := range r.Events(ctx) {
				it := item{
					event:   output.Event{Type: watch.EventType(ev.Type.String()), Pod: ev.Object, FinalStateUnknown: ev.FinalStateUnknown},
					initial: ev.Initial,
					synced:  ev.Type == reflector.Synced,
				}
				if merge == nil {
					if !send(it) {
						return
					}
					continue
				}
				mu.Lock()
				ok := true
				for _, it := range merge.apply(source, it) {
					ok = ok && send(it)
				}
				mu.Unlock()
				if !ok {
					return
				}
			}
		})
	}
	go func() {
		group.Wait()
		close(items)
	}()
	return items
}

const (
	// maxBatch bounds what is rendered into memory before it is written.
	maxBatch = 512
	// alignDelay is how long the first rows of the first snapshot wait for the
	// others, so that one header fits all.
	alignDelay = 100 * time.Millisecond
)

// print writes the items as they come, until there are no more.
func (p *podWatch) print(items <-chan item) error {
	for it := range items {
		if err := p.write(batch(it, items)); err != nil {
			return err
		}
	}
	return nil
}

// batch returns the event of first and of those that can be had without
// waiting; those of a first snapshot are waited for a moment.
func batch(first item, items <-chan item) []output.Event {
	var events []output.Event
	var delay <-chan time.Time
	for it, ok := first, true; ok; {
		if !it.synced {
			events = append(events, it.event)
		}
		switch {
		case len(events) >= maxBatch:
			return events
		case it.initial && !it.synced && delay == nil:
			delay = time.After(alignDelay)
		case it.synced:
			delay = nil
		}
		if delay != nil {
			select {
			case it, ok = <-items:
			case <-delay:
				return events
			}
			continue
		}
		select {
		case it, ok = <-items:
		default:
			return events
		}
	}
	return events
}
