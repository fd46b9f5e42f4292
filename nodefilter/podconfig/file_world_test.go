package podconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
)

// manifestText is a small manifest.
func manifestText(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: app\n    image: %s\n", name, image)
}

// fakeWatcher tells what a test says.
type fakeWatcher struct {
	mu     sync.Mutex
	dirs   map[string]bool
	adds   int
	fails  error
	events chan fsnotify.Event
	errs   chan error
}

func (w *fakeWatcher) Add(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails != nil {
		return &os.PathError{Op: "inotify_add_watch", Path: dir, Err: w.fails}
	}
	w.dirs[dir] = true
	w.adds++
	return nil
}

func (w *fakeWatcher) Remove(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.dirs, dir)
	return nil
}

func (w *fakeWatcher) has(dir string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dirs[dir]
}

// fakeOpener counts how often a watcher was opened, the last of them.
type fakeOpener struct {
	mu     sync.Mutex
	opened int
	last   *fakeWatcher
}

// open fails, in the way of inotify, the first three times.
func (o *fakeOpener) open() (fileWatcher, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened++
	o.last = &fakeWatcher{dirs: map[string]bool{}, events: make(chan fsnotify.Event), errs: make(chan error)}
	if o.opened < 4 {
		o.last.fails = syscall.ENOSPC
	}
	return o.last, nil
}

func (o *fakeOpener) state() (int, *fakeWatcher) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opened, o.last
}

func (w *fakeWatcher) Events() <-chan fsnotify.Event { return w.events }
func (w *fakeWatcher) Errors() <-chan error          { return w.errs }
func (w *fakeWatcher) Close() error                  { return nil }

// listener collects Changes.
type listener struct {
	mu      sync.Mutex
	changes []Change
	pods    map[string]*corev1.Pod // by namespace/name, after all changes
}

func (c *listener) tell(ch Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, ch)
	if c.pods == nil || ch.Full {
		c.pods = make(map[string]*corev1.Pod)
	}
	for _, g := range ch.Gone {
		if p := c.pods[g.Namespace+"/"+g.Name]; p != nil && p.UID == g.UID {
			delete(c.pods, g.Namespace+"/"+g.Name)
		}
	}
	for _, p := range ch.Pods {
		c.pods[p.Namespace+"/"+p.Name] = p
	}
}

// images is the state in one line: name=image, sorted.
func (c *listener) images() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, p := range c.pods {
		all = append(all, p.Name+"="+p.Spec.Containers[0].Image)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// n is how many Changes there were.
// wants checks the state, and how many Changes it took to get there.
func (c *listener) wants(t *testing.T, changes int, images string) {
	t.Helper()
	if got := c.images(); got != images {
		t.Errorf("the source has %q, want %q", got, images)
	}
	if got := c.n(); got != changes {
		t.Errorf("%d changes were told, want %d", got, changes)
	}
}

func (c *listener) n() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.changes)
}

func (c *listener) last() Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes[len(c.changes)-1]
}

// fileWorld is a file source in a bubble with virtual time, on real files, with
// events as a test gives them.
type fileWorld struct {
	t     *testing.T
	dir   string
	files *Files
	watch *fakeWatcher
	listener
}

// inFileWorld runs a test with a source of one directory.
func inFileWorld(t *testing.T, c FileConfig, dir string, test func(w *fileWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fileWorld{t: t, dir: dir, watch: &fakeWatcher{dirs: map[string]bool{}, events: make(chan fsnotify.Event, 100), errs: make(chan error, 1)}}
		if c.Paths == nil {
			c.Paths = []string{dir}
		}
		if c.Node == "" {
			c.Node = "n1"
		}
		if c.watch == nil {
			c.watch = func() (fileWatcher, error) { return w.watch, nil }
		}
		var err error
		if w.files, err = NewFiles(c); err != nil {
			t.Fatal(err)
		}
		during(t, w.files, w.tell, 0, func() { test(w) })
	})
}

func (w *fileWorld) path(name string) string { return filepath.Join(w.dir, name) }

// write writes a file, without an event.
func (w *fileWorld) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// event tells of a change of a file and lets it settle.
func (w *fileWorld) event(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.watch.events <- fsnotify.Event{Name: w.path(name), Op: fsnotify.Write}
	}
	synctest.Wait()
	time.Sleep(2 * settle)
	synctest.Wait()
}

func (w *fileWorld) put(name, text string) {
	w.t.Helper()
	w.write(name, text)
	w.event(name)
}

func (w *fileWorld) remove(name string) {
	w.t.Helper()
	if err := os.Remove(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
	w.event(name)
}

func (w *fileWorld) wants(changes int, images string) {
	w.t.Helper()
	w.listener.wants(w.t, changes, images)
}

// fault is what the status has for a place, or "".
func fault(s SourceStatus, where string) string {
	for _, e := range s.Errors {
		if e.Where == where {
			return e.Message
		}
	}
	return ""
}

// wantsFault checks that a file has a fault with a text in it; "" is no fault.
func (w *fileWorld) wantsFault(name, text string) {
	w.t.Helper()
	got := fault(w.files.Status(), w.path(name))
	if text == "" && got != "" || !strings.Contains(got, text) {
		w.t.Errorf("the fault of %s is %q, want %q in it", name, got, text)
	}
}
