package podconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/nodewatch-go/nodewatch/nodefilter"
)

// Times of the file source.
const (
	// DefaultRescan is how often files are read without an event, as the
	// kubelet's fileCheckFrequency is.
	DefaultRescan = 20 * time.Second
	// settle is how long a directory has to be quiet after an event before it
	// is read, so that the steps with which editors save a file, or a kubelet
	// swaps a ConfigMap, are seen as one; settleLimit is the longest wait where it is never quiet.
	settle      = 100 * time.Millisecond
	settleLimit = time.Second
	// pollPeriod is how often files are read where events cannot be had, and
	// watchRetry how long until they are tried again.
	pollPeriod = 5 * time.Second
	watchRetry = time.Minute
)

// FileConfig describes the source of manifest files (--pod-manifest-path).
type FileConfig struct {
	// Paths are directories of manifests, or single manifests; at least one.
	// They need not exist yet. Where two files have one pod name, the first
	// wins: in the order of Paths, then of names.
	Paths []string
	// Node is the node's name. Required.
	Node string
	// Rescan is how often everything is read even if nothing was heard of a
	// change. Default 20 s.
	Rescan time.Duration
	// Behaviour is Improved unless set.
	Behaviour Behaviour
	// Logger is told what is wrong with a file, once, and when it is fixed; nil discards.
	Logger *slog.Logger

	// watch opens what tells of changes; tests have their own.
	watch func() (fileWatcher, error)
}

func (c FileConfig) withDefaults() FileConfig {
	if c.Rescan == 0 {
		c.Rescan = DefaultRescan
	}
	if c.Behaviour == "" {
		c.Behaviour = Improved
	}
	if c.watch == nil {
		c.watch = openFSNotify
	}
	return c
}

func (c FileConfig) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("podconfig.FileConfig."+format, args...))
	}
	if len(c.Paths) == 0 {
		bad("Paths is empty: give at least one directory or file of manifests")
	}
	for i, p := range c.Paths {
		if p == "" {
			bad("Paths[%d] is empty: give a directory or a file, or leave it out", i)
		}
	}
	if err := nodefilter.ValidateNodeName(c.Node); err != nil {
		bad("Node: %w", err)
	}
	if c.Rescan < 0 {
		bad("Rescan is %v: use a positive time, or 0 for %v", c.Rescan, DefaultRescan)
	}
	if err := c.Behaviour.validate(); err != nil {
		bad("Behaviour %w", err)
	}
	return errors.Join(errs...)
}

// Files is the source of manifest files: static pods.
//
// A pod is what its file said last that made sense. A file that is invalid,
// empty, too large or unreadable keeps its last good pod and shows in
// Status().Errors, with the line where one is known, until it is fixed or
// removed. Only the removal of a file, or of its directory, removes a pod.
//
// What changes within 100 ms is seen as one change, and a change that leaves
// the meaning of a manifest as it was (comments, order, an editor's way of
// saving) is none. Files whose names begin with a dot are not read; neither are
// backups and lock files of editors (a.yaml~, #a.yaml#).
//
// A manifest that is edited is the same pod, with the UID that it had, as long as its
// file stays (a save that replaces it, and a swap of links, leave it there) and says the
// same name and namespace; the annotation kubernetes.io/config.hash has the hash of what
// it says now. A manifest that names a UID has that. Under another path or name it is
// another pod, and so it is, whatever the UID, when its file was gone for longer than a
// save takes. The UID itself is made of what the manifest said when it was first seen, and
// nothing is kept beyond the process: see docs/podsources.md for a restart.
// Under KubeletCompatible each edit makes another pod, unless a UID is named.
//
// Run waits with its first Change until each path could be listed, or is known
// not to exist.
type Files struct {
	cfg FileConfig
	*ledger
	ran atomic.Bool
	// Only Run's goroutine touches these.
	set   *fileSet
	watch *dirWatch
	diff  differ
}

// NewFiles returns a file source that has not started. Errors are those of the
// configuration; nothing is read yet.
func NewFiles(c FileConfig) (*Files, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	f := &Files{cfg: c, ledger: newLedger(c.Logger, FileSource)}
	roots := make([]string, len(c.Paths))
	for i, p := range c.Paths {
		roots[i] = filepath.Clean(p)
	}
	f.set = newFileSet(roots, c.Behaviour, staticPods{source: FileSource, node: c.Node, behaviour: c.Behaviour}, f.ledger)
	f.watch = newDirWatch(c.watch, f.ledger)
	return f, nil
}

// Source is FileSource.
func (f *Files) Source() Source { return FileSource }

// Status is what the source knows of itself. The place of an error is the path
// of a file or directory, or "file watch" where files are polled for want of events.
func (f *Files) Status() SourceStatus { return f.snapshot() }

// Run reads the files and tells their pods until ctx ends.
func (f *Files) Run(ctx context.Context, tell func(Change)) error {
	if f.ran.Swap(true) {
		return ErrAlreadyRun
	}
	defer f.watch.close()
	rescan := time.NewTicker(f.cfg.Rescan)
	defer rescan.Stop()
	poll := time.NewTicker(min(pollPeriod, f.cfg.Rescan))
	defer poll.Stop()

	var quiet <-chan time.Time // set while something waits for the end of a commotion
	var deadline time.Time
	f.read(rescanned, tell)
	for {
		if quiet == nil && f.set.unsettled {
			quiet, deadline = time.After(settle), time.Now().Add(settleLimit)
		}
		polling := poll.C
		if f.watch.healthy() {
			polling = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rescan.C:
			f.read(rescanned, tell)
		case <-polling:
			f.read(polled, tell)
		case <-quiet:
			quiet = nil
			f.read(settled, tell)
		case ev, ok := <-f.watch.events():
			if !ok {
				f.watch.fail(errors.New("the watch has ended"))
				continue
			}
			if !f.set.concerns(ev.Name) {
				continue
			}
			now := time.Now()
			if quiet == nil {
				deadline = now.Add(settleLimit)
			}
			quiet = time.After(min(settle, deadline.Sub(now)))
		case err, ok := <-f.watch.errors():
			// An overflow lost events, and so may anything else have.
			if !ok {
				f.watch.fail(errors.New("the watch has ended"))
			} else if !errors.Is(err, fsnotify.ErrEventOverflow) {
				f.watch.fail(err)
			}
			quiet = time.After(settle)
			deadline = time.Now().Add(settleLimit)
		}
	}
}

// occasion is why files are read.
type occasion int

const (
	settled   occasion = iota // an event, and then quiet: what is there is meant so
	polled                    // there are no events; it may be in the middle of a change
	rescanned                 // the same, and the kubelet forgets then what has become invalid
)

// read looks at all files and tells what is different.
func (f *Files) read(why occasion, tell func(Change)) {
	// A directory that comes into view by reading may change before it is watched: read again.
	for range 3 {
		f.watch.want(f.set.watched())
		f.set.scan(why)
		if !f.watch.misses(f.set.watched()) {
			break
		}
	}
	if !f.set.listed() && !f.diff.begun || f.set.missing {
		return
	}
	f.diff.tell(f.set.pods(), f.ledger, tell)
}

var _ Producer = (*Files)(nil)
