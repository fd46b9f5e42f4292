package podconfig

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestK4Typo: the pod of a manifest with a typo stays, with an error that names the
// line and the field.
func TestK4Typo(t *testing.T) {
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		for _, tc := range []struct{ from, to, want string }{
			{"image: one:1", "imagee: one:1", "line 7: spec.containers[0].image: Required value"},
			{"kind: Pod", "kind: Pot", `line 2: kind is "Pot"`},
			{"name: app", "name: App", "line 7: spec.containers[0].name: Invalid value"},
			{"spec:", " spec:", "line 4: did not find expected key"},
			{"image: one:1", "image: [one]", "line 8: spec.containers.image: a array cannot be a string"},
		} {
			w.put("a.yaml", strings.Replace(manifestText("a", "one:1"), tc.from, tc.to, 1))
			w.wants(2, "a-n1=one:1")
			w.wantsFault("a.yaml", tc.want)
		}
		w.put("a.yaml", manifestText("a", "one:1"))
		w.wants(2, "a-n1=one:1")
		w.wantsFault("a.yaml", "")
	})
}

// TestK4KubeletCompatible: there the pod is gone at the next rescan, as the kubelet does it.
func TestK4KubeletCompatible(t *testing.T) {
	inFileWorld(t, FileConfig{Behaviour: KubeletCompatible}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		w.put("a.yaml", manifestText("a", "")) // an event: the kubelet says an error and keeps the pod
		w.wants(2, "a-n1=one:1")
		time.Sleep(DefaultRescan)
		synctest.Wait()
		w.wants(3, "")
		w.wantsFault("a.yaml", "image")
	})
	// A single file that is bad is for the kubelet a path that it cannot read.
	dir := t.TempDir()
	inFileWorld(t, FileConfig{Behaviour: KubeletCompatible, Paths: []string{filepath.Join(dir, "a.yaml")}}, dir, func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		w.write("a.yaml", "")
		time.Sleep(2 * DefaultRescan)
		synctest.Wait()
		w.wants(2, "a-n1=one:1")
	})
}

// TestJ6Faults: an error per file with file and reason; the others unaffected; cleared when fixed.
func TestJ6Faults(t *testing.T) {
	inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
		faults := map[string]struct{ text, want string }{
			"no-name.yaml":   {manifestText("''", "one:1"), "line 4: metadata.name: Required value"},
			"kind.yaml":      {"apiVersion: apps/v1\nkind: Deployment\n", `kind is "Deployment"`},
			"syntax.yaml":    {"apiVersion: v1\nkind: [\n", "line"},
			"two.yaml":       {manifestText("x", "one:1") + "---\n" + manifestText("y", "one:1"), "line 9: a second document begins"},
			"list.yaml":      {"apiVersion: v1\nkind: PodList\nitems: []\n", `kind is "PodList"`},
			"empty.yaml":     {"", "empty"},
			"secret.yaml":    {strings.Replace(manifestText("s", "one:1"), "spec:\n", "spec:\n  imagePullSecrets: [{name: a}]\n", 1), "line 6: spec.imagePullSecrets[0]: Forbidden: static pods may not reference secrets"},
			"too-large.yaml": {manifestText("l", "one:1") + "#" + strings.Repeat("x", MaxManifestBytes), "larger than 10485760 bytes"},
			"scalar.yaml":    {"hello", "not an object"},
		}
		for name, f := range faults {
			w.write(name, f.text)
		}
		if err := os.Mkdir(w.path("x.yaml"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(w.path("pipe.yaml"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(w.path("loop.yaml"), w.path("loop.yaml")); err != nil {
			t.Fatal(err)
		}
		w.put("good.yaml", manifestText("good", "one:1"))
		w.wants(2, "good-n1=one:1")
		for name, f := range faults {
			w.wantsFault(name, f.want)
		}
		w.wantsFault("x.yaml", "it is a directory")
		w.wantsFault("pipe.yaml", "not a regular file")
		w.wantsFault("loop.yaml", "too many levels of symbolic links")
		if got, want := len(w.files.Status().Errors), len(faults)+3; got != want {
			t.Errorf("%d faults, want %d: %v", got, want, w.files.Status().Errors)
		}
		for name := range faults {
			w.write(name, manifestText(strings.TrimSuffix(name, ".yaml"), "fixed:1"))
		}
		for _, name := range []string{"x.yaml", "pipe.yaml", "loop.yaml"} {
			if err := os.Remove(w.path(name)); err != nil {
				t.Fatal(err)
			}
		}
		w.event("good.yaml")
		if got := w.files.Status(); len(got.Errors) != 0 || got.Pods != len(faults)+1 {
			t.Errorf("after all is fixed: %+v", got)
		}
	})
}

// TestJ6FaultIsSaidOnce: the count goes up, the log does not.
func TestJ6FaultIsSaidOnce(t *testing.T) {
	log := new(logLines)
	inFileWorld(t, FileConfig{Logger: log.logger()}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", "kind: Pot\n")
		time.Sleep(10 * DefaultRescan)
		synctest.Wait()
		e := w.files.Status().Errors
		if len(e) != 1 || e[0].Count < 10 || !e[0].Since.Before(time.Now().Add(-9*DefaultRescan)) {
			t.Errorf("the faults are %+v, want one that was seen at least ten times", e)
		}
		if got := log.count("pod source has a fault\""); got != 1 {
			t.Errorf("the log has the fault %d times, want once:\n%s", got, log)
		}
		w.remove("a.yaml")
		if got := log.count("no longer"); got != 1 {
			t.Errorf("the log has the end of the fault %d times, want once:\n%s", got, log)
		}
	})
}

// TestUnreadableRoot: what cannot be listed keeps what it had, and holds up the first change.
func TestUnreadableRoot(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "m")
	if err := os.Symlink(filepath.Join(dir, "v1"), root); err != nil {
		t.Fatal(err)
	}
	inFileWorld(t, FileConfig{Paths: []string{root}}, root, func(w *fileWorld) {
		if w.n() != 0 || w.files.Status().Seen {
			t.Errorf("a link to nowhere was told as nothing")
		}
		if err := os.Mkdir(filepath.Join(dir, "v1"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.write("a.yaml", manifestText("a", "one:1"))
		w.watch.events <- fsnotify.Event{Name: filepath.Join(dir, "v1"), Op: fsnotify.Create}
		time.Sleep(2 * settle)
		synctest.Wait()
		w.wants(1, "a-n1=one:1")
		// The link is swapped by way of nothing.
		if err := os.RemoveAll(filepath.Join(dir, "v1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultRescan)
		synctest.Wait()
		w.wants(1, "a-n1=one:1")
		if got := fault(w.files.Status(), root); !strings.Contains(got, "is kept") {
			t.Errorf("the fault is %q", got)
		}
	})
}

// TestJ7InotifyFails: polling, said once, inotify tried again later.
func TestJ7InotifyFails(t *testing.T) {
	log := new(logLines)
	var o fakeOpener
	c := FileConfig{Logger: log.logger(), Rescan: time.Hour, watch: o.open}
	inFileWorld(t, c, t.TempDir(), func(f *fileWorld) {
		f.write("a.yaml", manifestText("a", "one:1"))
		time.Sleep(pollPeriod + time.Second)
		synctest.Wait()
		f.wants(2, "a-n1=one:1")
		if got := fault(f.files.Status(), watchPlace); !strings.Contains(got, "no space left on device") || !strings.Contains(got, "max_user_watches") {
			t.Errorf("the fault is %q", got)
		}
		if opened, _ := o.state(); opened != 1 {
			t.Errorf("the watch was opened %d times within seconds", opened)
		}
		time.Sleep(3 * (watchRetry + pollPeriod))
		synctest.Wait()
		opened, w := o.state()
		if opened != 4 || !w.has(f.dir) {
			t.Errorf("the watch was opened %d times in three minutes, want 4, and with the directory", opened)
		}
		if got := fault(f.files.Status(), watchPlace); got != "" {
			t.Errorf("the fault stays: %q", got)
		}
		if got := log.count("pod source has a fault\""); got != 1 {
			t.Errorf("the log has the fault %d times, want once:\n%s", got, log)
		}
		// It works again: events, and no polling.
		f.write("a.yaml", manifestText("a", "two:2"))
		time.Sleep(2 * pollPeriod)
		synctest.Wait()
		f.wants(2, "a-n1=one:1")
		w.events <- fsnotify.Event{Name: f.path("a.yaml"), Op: fsnotify.Write}
		time.Sleep(2 * settle)
		synctest.Wait()
		f.wants(3, "a-n1=two:2")
		// It ends by itself.
		close(w.events)
		f.write("a.yaml", manifestText("a", "three:3"))
		time.Sleep(2 * pollPeriod)
		synctest.Wait()
		f.wants(4, "a-n1=three:3")
	})
}
