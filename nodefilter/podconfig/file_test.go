package podconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestFilesFirstChange(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(manifestText("a", "one:1")), 0o644); err != nil {
		t.Fatal(err)
	}
	inFileWorld(t, FileConfig{}, dir, func(w *fileWorld) {
		w.wants(1, "a-n1=one:1")
		first := w.last()
		if !first.Full || !first.Initial || len(first.Pods) != 1 {
			t.Errorf("the first change is %+v, want a full and initial one with the pod", first)
		}
		s := w.files.Status()
		if !s.Seen || s.Pods != 1 || len(s.Errors) != 0 || s.LastChange.IsZero() {
			t.Errorf("the status is %+v", s)
		}
		// Nothing happens: nothing is told.
		time.Sleep(time.Hour)
		w.wants(1, "a-n1=one:1")
	})
}

func TestFilesEmptyAndMissing(t *testing.T) {
	dir := t.TempDir()
	inFileWorld(t, FileConfig{Paths: []string{filepath.Join(dir, "none"), dir}}, dir, func(w *fileWorld) {
		w.wants(1, "")
		if c := w.last(); !c.Full || !c.Initial {
			t.Errorf("the first change of nothing is %+v, want a full and initial one", c)
		}
		w.wantsFault("none", "does not exist")
		// It comes later: its parent is watched.
		if !w.watch.has(dir) {
			t.Errorf("%s is not watched", dir)
		}
		if err := os.Mkdir(w.path("none"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.write("none/a.yaml", manifestText("a", "one:1"))
		w.event("none")
		w.wants(2, "a-n1=one:1")
		// A directory in a directory of manifests is none itself, but this one is a root.
		if got := fault(w.files.Status(), w.path("none")); !strings.Contains(got, "directory") {
			t.Errorf("the fault is %q", got)
		}
		// And it goes: with it go its pods, as with the kubelet.
		if err := os.RemoveAll(w.path("none")); err != nil {
			t.Fatal(err)
		}
		w.event("none")
		w.wants(3, "")
	})
}

// TestJ1ConfigMapSwap: a ConfigMap-style ..data swap is one Change, in which the pods have
// the UIDs that they had; ..data is never read as a manifest.
func TestJ1ConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	version := func(n int, image string) {
		t.Helper()
		d := filepath.Join(dir, fmt.Sprintf("..v%d", n))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(d, name+".yaml"), []byte(manifestText(name, image)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tmp := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(filepath.Base(d), tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version(1, "one:1")
	for _, name := range []string{"a.yaml", "b.yaml"} {
		if err := os.Symlink("..data/"+name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	inFileWorld(t, FileConfig{}, dir, func(w *fileWorld) {
		w.wants(1, "a-n1=one:1 b-n1=one:1")
		first := w.last().Pods
		version(2, "two:2")
		// What inotify tells of such a swap has only names with dots.
		w.event("..v2", "..data_tmp", "..data")
		w.wants(2, "a-n1=two:2 b-n1=two:2")
		if c := w.last(); c.Full || len(c.Pods) != 2 || len(c.Gone) != 0 || c.Pods[0].UID != first[0].UID || c.Pods[1].UID != first[1].UID {
			t.Errorf("the swap is %+v, want one change of the two pods", c)
		}
		if s := w.files.Status(); len(s.Errors) != 0 {
			t.Errorf("faults: %v", s.Errors)
		}
	})
}

// TestJ1SymlinkWhoseTargetComesLater: it is a fault until it does, and the target's
// directory is watched. A target that goes is no reason to stop a pod.
func TestJ1SymlinkWhoseTargetComesLater(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "real.yaml")
	if err := os.Symlink(target, filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	inFileWorld(t, FileConfig{}, dir, func(w *fileWorld) {
		w.wants(1, "")
		w.wantsFault("a.yaml", "symbolic link")
		if !w.watch.has(elsewhere) {
			t.Fatalf("the directory of the target is not watched")
		}
		if err := os.WriteFile(target, []byte(manifestText("a", "one:1")), 0o644); err != nil {
			t.Fatal(err)
		}
		w.watch.events <- fsnotify.Event{Name: target, Op: fsnotify.Create}
		time.Sleep(2 * settle)
		synctest.Wait()
		w.wants(2, "a-n1=one:1")
		w.wantsFault("a.yaml", "")

		if err := os.Remove(target); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultRescan)
		synctest.Wait()
		w.wants(2, "a-n1=one:1")
		w.wantsFault("a.yaml", "the pod default/a-n1 stays")
		w.remove("a.yaml")
		w.wants(3, "")
		w.wantsFault("a.yaml", "")
	})
}

// TestJ2SaveDance: no event if the content ends the same, one update if not.
func TestJ2SaveDance(t *testing.T) {
	dir := t.TempDir()
	inFileWorld(t, FileConfig{}, dir, func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		w.wants(2, "a-n1=one:1")
		dance := func(text string) {
			t.Helper()
			// As vi does it, with 50 ms between the steps.
			for _, step := range []func() error{
				func() error { return os.WriteFile(w.path("4913"), nil, 0o644) },
				func() error { return os.Remove(w.path("4913")) },
				func() error { return os.WriteFile(w.path(".a.yaml.swp"), []byte("x"), 0o644) },
				func() error { return os.Rename(w.path("a.yaml"), w.path("a.yaml~")) },
				func() error { return os.WriteFile(w.path("a.yaml"), []byte(text[:20]), 0o644) },
				func() error { return os.WriteFile(w.path("a.yaml"), []byte(text), 0o644) },
				func() error { return os.Remove(w.path("a.yaml~")) },
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
				w.watch.events <- fsnotify.Event{Name: w.path("a.yaml"), Op: fsnotify.Create}
				time.Sleep(settle / 2)
			}
			time.Sleep(settle)
			synctest.Wait()
		}
		dance(manifestText("a", "one:1"))
		dance("# a comment changes nothing\n" + manifestText("a", "one:1"))
		w.wants(2, "a-n1=one:1")
		first := w.last().Pods[0]
		dance(manifestText("a", "two:2"))
		w.wants(3, "a-n1=two:2")
		if c := w.last(); len(c.Pods) != 1 || len(c.Gone) != 0 || c.Pods[0].UID != first.UID {
			t.Errorf("the update is %+v, want one of the same pod", c)
		}
	})
}

// TestEventsWithoutEnd: a directory that is never quiet is read all the same.
func TestEventsWithoutEnd(t *testing.T) {
	inFileWorld(t, FileConfig{Rescan: time.Hour}, t.TempDir(), func(w *fileWorld) {
		w.write("a.yaml", manifestText("a", "one:1"))
		for range 3 * int(settleLimit/settle) {
			w.watch.events <- fsnotify.Event{Name: w.path("b.log"), Op: fsnotify.Write}
			time.Sleep(settle / 2)
			synctest.Wait()
		}
		w.wants(2, "a-n1=one:1")
	})
}

// TestJ3HalfWritten: truncated, half written, pause, completed; an empty file: the
// last good pod stays until a good one comes, and that is one update.
func TestJ3HalfWritten(t *testing.T) {
	whole := manifestText("a", "two:2")
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		w.wants(2, "a-n1=one:1")
		for _, text := range []string{"", "\n# nothing\n", whole[:30], whole[:60], whole[:len(whole)-20]} {
			w.put("a.yaml", text)
			time.Sleep(2 * DefaultRescan) // a pause
			synctest.Wait()
			w.wants(2, "a-n1=one:1")
			w.wantsFault("a.yaml", "stays as it was")
		}
		w.put("a.yaml", whole)
		w.wants(3, "a-n1=two:2")
		w.wantsFault("a.yaml", "")
	})
}

// TestJ3ReadWhileWritten: a periodic reading that meets a file half written, where
// the half makes sense, leaves the pod as it was; but not for ever.
func TestJ3ReadWhileWritten(t *testing.T) {
	half := manifestText("a", "two:2")
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		// touch writes without an event, as of now in the time of the test.
		touch := func(text string) {
			t.Helper()
			w.write("a.yaml", text)
			if err := os.Chtimes(w.path("a.yaml"), time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		toRescan := func() time.Duration {
			return DefaultRescan - (time.Since(start)+2*settle)%DefaultRescan
		}
		time.Sleep(toRescan() - settle/2)
		touch(half)
		time.Sleep(settle) // the rescan is in between
		synctest.Wait()
		w.wants(2, "a-n1=one:1")
		touch(half + "  - name: more\n    image: more:1\n")
		time.Sleep(2 * settle)
		synctest.Wait()
		w.wants(3, "a-n1=two:2")
		if got := len(w.last().Pods[0].Spec.Containers); got != 2 {
			t.Errorf("the pod has %d containers, want the 2 of the whole file", got)
		}
		// One that is written all the time is read in the end.
		time.Sleep(toRescan() - settle/2)
		for i := range 2 * int(settleLimit/settle) {
			touch(manifestText("a", fmt.Sprint("three:", i)))
			time.Sleep(settle)
			synctest.Wait()
		}
		if w.n() == 3 {
			t.Errorf("a file that is written all the time is never read")
		}
	})
}

// TestJ4SameContentTwice: two files with one content but for the name are two pods, and
// the same content at two paths has two UIDs.
func TestJ4SameContentTwice(t *testing.T) {
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		before := w.last().Pods[0]
		w.put("b.yaml", manifestText("b", "one:1"))
		w.wants(3, "a-n1=one:1 b-n1=one:1")
		// The same pod from another file is another pod.
		if err := os.Rename(w.path("a.yaml"), w.path("c.yaml")); err != nil {
			t.Fatal(err)
		}
		w.event("a.yaml", "c.yaml")
		c := w.last()
		if len(c.Pods) != 1 || len(c.Gone) != 1 || c.Pods[0].UID == before.UID || c.Gone[0].UID != before.UID {
			t.Errorf("after the move: %+v, want another UID than %s", c, before.UID)
		}
	})
}

// TestJ5BackupWithTheSameName: the first by name wins, a warning names both.
func TestJ5BackupWithTheSameName(t *testing.T) {
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		w.write("a.yaml", manifestText("a", "new:2"))
		w.write("a.yaml.bak", manifestText("a", "old:1"))
		w.event("a.yaml")
		w.wants(2, "a-n1=new:2")
		w.wantsFault("a.yaml", "")
		w.wantsFault("a.yaml.bak", "pod default/a-n1 is in "+w.path("a.yaml"))
		// The fault goes with its reason.
		w.remove("a.yaml")
		w.wants(3, "a-n1=old:1")
		w.wantsFault("a.yaml.bak", "")
	})
	inFileWorld(t, FileConfig{Behaviour: KubeletCompatible}, t.TempDir(), func(w *fileWorld) {
		w.write("a.yaml", manifestText("a", "new:2"))
		w.write("a.yaml.bak", manifestText("a", "old:1"))
		w.write("b.yaml~", manifestText("b", "new:2"))
		w.event("a.yaml")
		w.wants(2, "a-n1=old:1 b-n1=new:2")
	})
}

// TestWatchOfAReplacedDirectory: another directory under a watched name is watched anew,
// one that stays is not, and one that is not wanted any more is left.
func TestWatchOfAReplacedDirectory(t *testing.T) {
	w := &fakeWatcher{dirs: map[string]bool{}}
	d := newDirWatch(func() (fileWatcher, error) { return w, nil }, newLedger(nil, FileSource))
	base := t.TempDir()
	dir, none := filepath.Join(base, "m"), filepath.Join(base, "none")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.want([]string{dir, none})
	}
	if w.adds != 1 || !w.has(dir) || w.has(none) || d.misses([]string{dir, none}) {
		t.Errorf("%d directories were added, of %v", w.adds, w.dirs)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.want([]string{dir})
	if w.adds != 2 || !w.has(dir) {
		t.Errorf("the new directory is not watched: %d added, of %v", w.adds, w.dirs)
	}
	if !d.misses([]string{dir, base}) {
		t.Error("a directory that is not watched is not missed")
	}
	d.want([]string{base})
	if w.has(dir) || !w.has(base) {
		t.Errorf("watched are %v, want the other directory", w.dirs)
	}
}

// TestOverflow: events that the system lost are made good by reading.
func TestOverflow(t *testing.T) {
	inFileWorld(t, FileConfig{Rescan: time.Hour}, t.TempDir(), func(w *fileWorld) {
		w.write("a.yaml", manifestText("a", "one:1"))
		w.watch.errs <- fsnotify.ErrEventOverflow
		time.Sleep(2 * settle)
		synctest.Wait()
		w.wants(2, "a-n1=one:1")
		if s := w.files.Status(); len(s.Errors) != 0 {
			t.Errorf("faults: %v", s.Errors)
		}
	})
}

// TestGivenUIDStays: a manifest that names its UID is the same pod after a change.
func TestGivenUIDStays(t *testing.T) {
	with := func(image string) string {
		return strings.Replace(manifestText("a", image), "metadata:\n", "metadata:\n  uid: given\n", 1)
	}
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", with("one:1"))
		seen := w.last().Pods[0].Annotations[firstSeenAnnotation]
		time.Sleep(time.Minute)
		w.put("a.yaml", with("two:2"))
		w.wants(3, "a-n1=two:2")
		c := w.last()
		if len(c.Pods) != 1 || len(c.Gone) != 0 || c.Pods[0].UID != "given" || c.Pods[0].Annotations[firstSeenAnnotation] != seen {
			t.Errorf("the change is %+v, want the same pod", c)
		}
		// Another pod under this UID is not taken.
		w.put("b.yaml", strings.Replace(with("one:1"), "name: a", "name: b", 1))
		w.wants(3, "a-n1=two:2")
		w.wantsFault("b.yaml", "uid given is in "+w.path("a.yaml"))
	})
}

func TestFileConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		c    FileConfig
		want string
	}{
		{FileConfig{Node: "n"}, "Paths is empty"},
		{FileConfig{Node: "n", Paths: []string{""}}, "Paths[0] is empty"},
		{FileConfig{Paths: []string{"a"}}, "Node: nodefilter: the node name is empty"},
		{FileConfig{Paths: []string{"a"}, Node: "N"}, `"N" is not a node name`},
		{FileConfig{Paths: []string{"a"}, Node: "n", Rescan: -1}, "Rescan is -1ns"},
		{FileConfig{Paths: []string{"a"}, Node: "n", Behaviour: "x"}, `Behaviour is "x": use "improved" or "kubelet"`},
	} {
		if _, err := NewFiles(tc.c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want %q", tc.c, err, tc.want)
		}
	}
	f, err := NewFiles(FileConfig{Paths: []string{t.TempDir()}, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx, func(Change) {}); err != nil {
		t.Error(err)
	}
	if err := f.Run(ctx, func(Change) {}); !errors.Is(err, ErrAlreadyRun) {
		t.Errorf("the second Run: %v", err)
	}
}
