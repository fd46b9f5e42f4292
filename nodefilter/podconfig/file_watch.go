package podconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// fileWatcher tells of changes in directories. Its events carry the path as it was
// added, with the name of the file.
type fileWatcher interface {
	Add(dir string) error
	Remove(dir string) error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	Close() error
}

// notifier is the operating system's watcher.
type notifier struct{ *fsnotify.Watcher }

func openFSNotify() (fileWatcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return notifier{w}, nil
}

func (n notifier) Events() <-chan fsnotify.Event { return n.Watcher.Events }
func (n notifier) Errors() <-chan error          { return n.Watcher.Errors }

// watchPlace is where a fault of the watch stands in the status.
const watchPlace = "file watch"

// dirWatch keeps a set of directories watched, as far as that is possible. Where
// the system refuses (the number of inotify instances or watches is limited) there
// are no events, the caller polls, and a minute later it is tried again.
type dirWatch struct {
	open   func() (fileWatcher, error)
	ledger *ledger
	w      fileWatcher // nil while there are no events
	dirs   map[string]fs.FileInfo
	retry  time.Time // not before
}

func newDirWatch(open func() (fileWatcher, error), l *ledger) *dirWatch {
	return &dirWatch{open: open, ledger: l}
}

// healthy reports whether events can be expected.
func (d *dirWatch) healthy() bool { return d.w != nil }

// events is nil, which blocks, while there is no watch.
func (d *dirWatch) events() <-chan fsnotify.Event {
	if d.w == nil {
		return nil
	}
	return d.w.Events()
}

func (d *dirWatch) errors() <-chan error {
	if d.w == nil {
		return nil
	}
	return d.w.Errors()
}

// want makes the set of watched directories that which is given. Directories that do
// not exist, or may not be read, are left out until they do. One that was
// replaced by another under its name is watched anew.
func (d *dirWatch) want(dirs []string) {
	if d.w == nil {
		if time.Now().Before(d.retry) {
			return
		}
		w, err := d.open()
		if err != nil {
			d.fail(err)
			return
		}
		d.w, d.dirs = w, make(map[string]fs.FileInfo)
	}
	// A watch is on what was there, not on its name: a directory that was moved
	// away and made anew is told of no more.
	for _, dir := range slices.Sorted(maps.Keys(d.dirs)) {
		info, err := os.Stat(dir)
		if err == nil && slices.Contains(dirs, dir) && os.SameFile(info, d.dirs[dir]) {
			continue
		}
		// What is gone has lost its watch already, so an error here says nothing.
		_ = d.w.Remove(dir)
		delete(d.dirs, dir)
	}
	for _, dir := range dirs {
		if d.dirs[dir] != nil {
			continue
		}
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		switch err := d.w.Add(dir); {
		case err == nil:
			d.dirs[dir] = info
		// It went in between, or nobody may look: the next reading says so.
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		default:
			d.fail(err)
			return
		}
	}
	d.ledger.mend(watchPlace)
}

// misses reports whether one of dirs is there and not watched.
func (d *dirWatch) misses(dirs []string) bool {
	if d.w == nil {
		return false
	}
	for _, dir := range dirs {
		if d.dirs[dir] == nil {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				return true
			}
		}
	}
	return false
}

// fail gives up the watch for a while.
func (d *dirWatch) fail(err error) {
	d.close()
	d.retry = time.Now().Add(watchRetry)
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		hint = "; raise fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE):
		hint = "; raise fs.inotify.max_user_instances"
	}
	d.ledger.fail(watchPlace, fmt.Sprintf("%v: the files are read every %v instead%s", err, pollPeriod, hint))
}

// close ends the watch.
func (d *dirWatch) close() {
	if d.w != nil {
		// Nothing is lost with a watch that does not close.
		_ = d.w.Close()
	}
	d.w, d.dirs = nil, nil
}
