package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
// selectors have no "or"), a union of them where there are several, and one printer.
type podWatch struct {
	options  *podsOptions
	rest     *rest.Config
	log      *slog.Logger
	out      io.Writer
	terminal *terminal

	registry   reflector.Registry
	reflectors []*podReflector
	collection reflector.Collection[*corev1.Pod] // what they have together
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
	// The printer is not in the group: a write to a pipe that nobody reads
	// cannot be ended.
	printed := make(chan error, 1)
	printing := !p.options.once
	if printing {
		events := p.subscribe(ctx)
		go func() { printed <- quiet(p.print(events)) }()
	}
	failed := make(chan error, 1)
	group.Go(func() {
		if err := p.collection.Run(running); err != nil {
			failed <- err
		}
	})
	synced := make(chan error, 1)
	group.Go(func() { synced <- p.waitForSync(ctx) })
	group.Go(func() { p.showProgress(ctx) })
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
			} else if ctx.Err() == nil && p.collection.Store().Len() == 0 {
				p.log.Warn("no pods so far; is the scope the right one? (kubectl get nodes lists the names of nodes)", p.scope()...)
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
func (p *podWatch) build() (err error) {
	switch nodes := p.options.nodes; {
	case p.options.allNodes:
		p.collection, err = p.allNodes()
	case len(nodes) == 1:
		p.collection, err = p.oneNode(nodes[0])
	default:
		p.collection, err = reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{
			Name: unionName, Member: p.oneNode, Registry: &p.registry, Logger: p.log,
		}, nodes...)
	}
	return err
}

// unionName cannot be that of a node, whose reflectors have their names.
const unionName = "union_of_nodes"

func (p *podWatch) allNodes() (*podReflector, error) {
	o := p.options
	lc := listwatch.Config{REST: p.rest, Namespace: o.namespace, LabelSelector: o.labels, FieldSelector: o.fields, Logger: p.log}
	lc.Resource = corev1.SchemeGroupVersion.WithResource("pods")
	p.adjustListWatch(&lc)
	lw, err := listwatch.New[*corev1.Pod](lc)
	if err != nil {
		return nil, connectionError(err)
	}
	rc := reflector.Config[*corev1.Pod]{Name: "all-nodes", ListerWatcher: lw, OnStop: lw.Close, Registry: &p.registry, Logger: p.log}
	g := p.adjustReflector(&rc)
	r, err := reflector.New(rc)
	if err != nil {
		return nil, err
	}
	g.reflector = r
	p.reflectors = []*podReflector{r}
	return r, nil
}

func (p *podWatch) oneNode(node string) (*podReflector, error) {
	o := p.options
	var g *guard
	r, err := nodefilter.NewPodReflector(nodefilter.Config{
		REST: p.rest, Node: node, Namespace: o.namespace, LabelSelector: o.labels, FieldSelector: o.fields,
		ListWatch: p.adjustListWatch,
		Reflector: func(rc *reflector.Config[*corev1.Pod]) { g = p.adjustReflector(rc) },
		Name:      node, Registry: &p.registry, Logger: p.log,
	})
	if err != nil {
		return nil, connectionError(bare(err))
	}
	g.reflector = r
	p.reflectors = append(p.reflectors, r)
	return r, nil
}

func (p *podWatch) adjustListWatch(c *listwatch.Config) {
	c.Encoding = p.options.encodingPolicy()
	c.Protocol = p.options.httpVersion()
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
	synced := make(chan error, 1)
	go func() { synced <- p.collection.WaitForSync(waiting) }()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-synced:
			switch {
			case err == nil || ctx.Err() != nil: // interrupted
				return nil
			default:
				return p.notSynced(timeout)
			}
		case <-look.C:
			if p.options.failsAtOnce() {
				if err := p.firstFailure(); err != nil {
					return err
				}
			}
		}
	}
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
		if len(p.reflectors) > 1 {
			return fmt.Errorf("%s: %w", s.Name, s.LastRestart.Err)
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

// subscribe hands over the events of the collection. The subscription begins
// before it returns: what happens from then on is told change by change, and is
// not found in the first snapshot, whoever is faster. The channel is closed when
// the collection has stopped and everything was handed over, or when ctx ends.
func (p *podWatch) subscribe(ctx context.Context) <-chan item {
	items := make(chan item, 256)
	begun := make(chan struct{})
	go func() {
		defer close(items)
		for ev := range p.collection.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{Name: "output", OnStart: func() { close(begun) }}) {
			it := item{
				event:   output.Event{Type: watch.EventType(ev.Type.String()), Pod: ev.Object, FinalStateUnknown: ev.FinalStateUnknown},
				initial: ev.Initial,
				synced:  ev.Type == reflector.Synced,
			}
			select {
			case items <- it:
			case <-ctx.Done():
				return
			}
		}
	}()
	select {
	case <-begun:
	case <-ctx.Done():
	}
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
		if err := p.write(batch(it, items, p.waitsForFirstLists)); err != nil {
			return err
		}
	}
	return nil
}

// waitsForFirstLists reports whether more rows of a first list may be on their
// way. While nodes are missing that all failed there are none, only changes.
func (p *podWatch) waitsForFirstLists() bool {
	missing, failed := 0, 0
	for _, r := range p.reflectors {
		if s := r.Status(); !s.Synced {
			missing++
			if s.LastError != nil {
				failed++
			}
		}
	}
	return missing == 0 || failed < missing
}

// batch returns the event of first and of those that can be had without
// waiting; those of a first snapshot are waited for a moment, if more says so.
func batch(first item, items <-chan item, more func() bool) []output.Event {
	var events []output.Event
	var delay <-chan time.Time
	for it, ok := first, true; ok; {
		if !it.synced {
			events = append(events, it.event)
		}
		switch {
		case len(events) >= maxBatch:
			return events
		case it.initial && !it.synced && delay == nil && len(events) == 1 && more():
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
