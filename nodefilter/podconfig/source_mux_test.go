package podconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// merged runs a file source in a bubble behind the merge, and returns what the
// consumer was told, one line an update: the operation and the pods.
func merged(t *testing.T, dir string, b Behaviour, do func(change func())) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWatcher{dirs: map[string]bool{}, events: make(chan fsnotify.Event, 10), errs: make(chan error)}
		f, err := NewFiles(FileConfig{Paths: []string{dir}, Node: "n1", Behaviour: b, watch: func() (fileWatcher, error) { return w, nil }})
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(Config{Sources: []Producer{f}, Behaviour: b})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		read := make(chan struct{})
		go func() {
			defer close(read)
			for u := range p.Updates() {
				line := u.Op.String()
				for _, pod := range u.Pods {
					line += fmt.Sprintf(" %s=%s", pod.Name, pod.Spec.Containers[0].Image)
				}
				lines = append(lines, line)
			}
		}()
		synctest.Wait()
		do(func() {
			w.events <- fsnotify.Event{Name: filepath.Join(dir, "..data"), Op: fsnotify.Create}
			time.Sleep(2 * settle)
			synctest.Wait()
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-read
	})
	return lines
}

// TestJ1J2J3OneUpdate: what the consumer sees of a swap, an editor and a pause in writing
// is one UPDATE for each content that made sense, also where no UID is named. With
// the kubelet's behaviour that is another pod: one REMOVE and one ADD.
func TestJ1J2J3OneUpdate(t *testing.T) {
	for _, tc := range []struct {
		behaviour Behaviour
		uid, want string
	}{
		{Improved, "", "ADD a-n1=one:1|UPDATE a-n1=two:2|UPDATE a-n1=three:3"},
		{Improved, "  uid: given\n", "ADD a-n1=one:1|UPDATE a-n1=two:2|UPDATE a-n1=three:3"},
		{KubeletCompatible, "", "ADD a-n1=one:1|REMOVE a-n1=one:1|ADD a-n1=two:2|REMOVE a-n1=two:2|ADD a-n1=three:3"},
		{KubeletCompatible, "  uid: given\n", "ADD a-n1=one:1|UPDATE a-n1=two:2|UPDATE a-n1=three:3"},
	} {
		dir := t.TempDir()
		text := func(image string) string {
			return strings.Replace(manifestText("a", image), "metadata:\n", "metadata:\n"+tc.uid, 1)
		}
		put := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		swap := func(version string) {
			t.Helper()
			if err := os.Symlink(version, filepath.Join(dir, "..tmp")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
				t.Fatal(err)
			}
		}
		for _, version := range []string{"..v1", "..v2"} {
			if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		put("..v1/a.yaml", text("one:1"))
		put("..v2/a.yaml", text("two:2"))
		swap("..v1")
		if err := os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		lines := merged(t, dir, tc.behaviour, func(change func()) {
			swap("..v2")
			change()
			for _, half := range []string{"", text("three:3")[:40], text("two:2"), "# comment\n" + text("two:2"), text("three:3")[:70], text("three:3")} {
				put("..v2/a.yaml", half)
				change()
			}
		})
		if got := strings.Join(lines, "|"); got != tc.want {
			t.Errorf("%s, with uid %q: the consumer was told\n%s, want\n%s", tc.behaviour, tc.uid, got, tc.want)
		}
	}
}
