package podconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// These tests use the operating system's watcher: they wait for a condition, with a
// rescan so rare that only an event can bring it about; or polling, on a machine that has
// no inotify instance to spare.

// onDisk runs a file source on a directory.
func onDisk(t *testing.T, dir string) (*Files, *listener) {
	t.Helper()
	f, err := NewFiles(FileConfig{Paths: []string{dir}, Node: "n1", Rescan: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, l.tell) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run does not end with its context")
		}
	})
	eventually(t, func() error { return want(f.Status().Seen, true) })
	return f, l
}

// eventually waits for a condition.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func want[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func TestInotify(t *testing.T) {
	dir := t.TempDir()
	f, l := onDisk(t, dir)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	state := func(want string) {
		t.Helper()
		eventually(t, func() error {
			if got := l.images(); got != want {
				return fmt.Errorf("the source has %q, want %q; its status is %+v", got, want, f.Status())
			}
			return nil
		})
	}
	put("a.yaml", manifestText("a", "one:1"))
	state("a-n1=one:1")
	put("a.yaml", manifestText("a", "two:2"))
	state("a-n1=two:2")
	put(".b.tmp", manifestText("b", "one:1"))
	if err := os.Rename(filepath.Join(dir, ".b.tmp"), filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	state("a-n1=two:2 b-n1=one:1")
	put("a.yaml", "kind: Pot\n")
	broken := func() bool { return fault(f.Status(), filepath.Join(dir, "a.yaml")) != "" }
	eventually(t, func() error { return want(broken(), true) })
	state("a-n1=two:2 b-n1=one:1")
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	state("b-n1=one:1")
	eventually(t, func() error { return want(broken(), false) })

	// The directory itself is replaced: the watch is on the new one.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	state("")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put("c.yaml", manifestText("c", "one:1"))
	state("c-n1=one:1")
	put("c.yaml", manifestText("c", "two:2"))
	state("c-n1=two:2")
}

// TestInotifyOverLinks: a change of what a link leads to is heard of, and one of the link.
func TestInotifyOverLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(elsewhere, name), []byte(manifestText("a", name+":1")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		t.Helper()
		if err := os.Symlink(filepath.Join(elsewhere, to), filepath.Join(dir, ".tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, ".tmp"), filepath.Join(dir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	_, l := onDisk(t, dir)
	eventually(t, func() error { return want(l.images(), "a-n1=one:1") })
	link("two")
	eventually(t, func() error { return want(l.images(), "a-n1=two:1") })
	if err := os.WriteFile(filepath.Join(elsewhere, "two"), []byte(manifestText("a", "three:1")), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return want(l.images(), "a-n1=three:1") })
	for i, c := range l.changes[1:] {
		if len(c.Pods) != 1 || len(c.Gone) != 0 {
			t.Errorf("change %d is %+v, want one of the same pod", i+1, c)
		}
	}
}

// TestInotifyOverLinkedDirectory: a directory on the way to a manifest that is swapped by
// its link, as a ConfigMap's is, also where the manifest alone is what was configured.
func TestInotifyOverLinkedDirectory(t *testing.T) {
	base, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, name, "a.yaml"), []byte(manifestText("a", name+":1")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(base, ".tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(base, ".tmp"), filepath.Join(base, "current")); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	if err := os.Symlink(filepath.Join(base, "current", "a.yaml"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	_, byDir := onDisk(t, dir)
	_, byFile := onDisk(t, filepath.Join(base, "current", "a.yaml"))
	for _, image := range []string{"one", "two", "one"} {
		link(image)
		eventually(t, func() error { return want(byDir.images(), "a-n1="+image+":1") })
		eventually(t, func() error { return want(byFile.images(), "a-n1="+image+":1") })
	}
}
