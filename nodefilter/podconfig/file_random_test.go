package podconfig

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// fileModel says what a source of one directory has to have: for each file what it said
// last that made sense.
type fileModel struct {
	files map[string]string // contents by file
	good  map[string]string // name=image by file
	// uids has the UID by file: that of the content with which the file got its pod's name.
	uids map[string]types.UID
}

// read is what a content means, or "".
func (m *fileModel) read(text string) string {
	_, rest, ok := strings.Cut(text, "name: ")
	name, rest, _ := strings.Cut(rest, "\n")
	_, image, whole := strings.Cut(rest, "image: ")
	if image = strings.TrimSpace(image); !ok || !whole || image == "" {
		return ""
	}
	return name + "-n1=" + image
}

// observe is what a source sees that looks now: it knows nothing of what came and went.
func (m *fileModel) observe(uid func(file, text string) types.UID) {
	for file := range m.good {
		if _, there := m.files[file]; !there {
			delete(m.good, file)
		}
	}
	for file, text := range m.files {
		if pod := m.read(text); pod != "" {
			name, _, _ := strings.Cut(pod, "=")
			if before, _, _ := strings.Cut(m.good[file], "="); before != name {
				m.uids[file] = uid(file, text)
			}
			m.good[file] = pod
		}
	}
}

// images is the state: of files that have one pod's name, the first.
func (m *fileModel) images() string {
	var all, names []string
	for _, file := range slices.Sorted(maps.Keys(m.good)) {
		name, _, _ := strings.Cut(m.good[file], "=")
		if !slices.Contains(names, name) {
			names = append(names, name)
			all = append(all, m.good[file])
		}
	}
	return strings.Join(sorted(all), " ")
}

// TestRandomFiles: whatever happens to the files of a directory, the changes of the
// source add up to what the model has; nothing is told where nothing is different, no pod
// is told to be gone that was not told to be there, every bad file has a fault, and a pod
// keeps its UID as long as its file says its name.
func TestRandomFiles(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inFileWorld(t, FileConfig{}, t.TempDir(), func(w *fileWorld) {
				t := w.t
				r := rand.New(rand.NewPCG(seed, 1))
				m := &fileModel{files: map[string]string{}, good: map[string]string{}, uids: map[string]types.UID{}}
				names := []string{"a.yaml", "a.yaml.bak", "b.json", "c", "d.yaml"}
				for range 80 {
					var did []string
					for range 1 + r.IntN(3) {
						file := names[r.IntN(len(names))]
						did = append(did, randomStep(t, r, w, m, file, names))
					}
					before := w.n()
					w.event(names[0])
					m.observe(func(file, text string) types.UID { return uidOf(t, FileSource, w.path(file), text) })
					want := m.images()
					if got := w.images(); got != want {
						t.Fatalf("after %v the source has %q, want %q; the files are %q", did, got, want, m.files)
					}
					if w.n() > before+1 {
						t.Fatalf("after %v there were %d changes", did, w.n()-before)
					}
					checkFaults(t, w, m)
					m.wantsUIDs(t, w)
				}
				checkDeltas(t, w)
			})
		})
	}
}

// randomStep does one thing to the files, and to the model.
func randomStep(t *testing.T, r *rand.Rand, w *fileWorld, m *fileModel, file string, names []string) string {
	t.Helper()
	text := manifestText([]string{"p", "q", "r"}[r.IntN(3)], fmt.Sprintf("img%d", r.IntN(4)))
	switch op := r.IntN(10); {
	case op < 5:
	case op < 7: // half of it
		text = text[:r.IntN(len(text)-1)]
	case op < 8 && m.files[file] != "":
		if err := os.Remove(w.path(file)); err != nil {
			t.Fatal(err)
		}
		delete(m.files, file)
		return "remove " + file
	case op < 9 && m.files[file] != "":
		to := names[r.IntN(len(names))]
		if to == file {
			return "nothing"
		}
		if err := os.Rename(w.path(file), w.path(to)); err != nil {
			t.Fatal(err)
		}
		m.files[to] = m.files[file]
		delete(m.files, file)
		return "rename " + file + " to " + to
	}
	w.write(file, text)
	m.files[file] = text
	return fmt.Sprintf("write %s %q", file, text)
}

// checkFaults: a file has a fault when it is bad, or its pod is in a file before it.
func checkFaults(t *testing.T, w *fileWorld, m *fileModel) {
	t.Helper()
	s := w.files.Status()
	used := make(map[string]bool)
	for _, file := range slices.Sorted(maps.Keys(m.files)) {
		name, _, _ := strings.Cut(m.good[file], "=")
		bad := m.read(m.files[file]) == "" || used[name]
		used[name] = true
		if got := fault(s, w.path(file)); (got != "") != bad {
			t.Fatalf("the fault of %s with %q is %q, want one: %v", file, m.files[file], got, bad)
		}
	}
	if s.Pods != len(strings.Fields(m.images())) {
		t.Fatalf("the status has %d pods, want %q", s.Pods, m.images())
	}
}

// wantsUIDs checks the UIDs of the pods that a listener has against the model's.
func (m *fileModel) wantsUIDs(t *testing.T, w *fileWorld) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(m.good)) {
		name, image, _ := strings.Cut(m.good[file], "=")
		if seen[name] {
			continue
		}
		seen[name] = true
		hash := uidOf(t, FileSource, w.path(file), manifestText(strings.TrimSuffix(name, "-n1"), image))
		p := w.pods["default/"+name]
		if p.UID != m.uids[file] || p.Annotations[hashAnnotation] != string(hash) {
			t.Fatalf("the pod %s of %s has UID %s and hash %s, want %s and %s", name, file, p.UID, p.Annotations[hashAnnotation], m.uids[file], hash)
		}
	}
}

// checkDeltas replays all changes by UID.
func checkDeltas(t *testing.T, w *fileWorld) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	have := make(map[string]string) // name by UID
	for i, c := range w.changes {
		if c.Full != (i == 0) || c.Initial != (i == 0) || i > 0 && len(c.Pods)+len(c.Gone) == 0 {
			t.Errorf("change %d is %+v", i, c)
		}
		for _, g := range c.Gone {
			if have[string(g.UID)] != g.Name {
				t.Errorf("change %d: %s is gone and was not there", i, g.Name)
			}
			delete(have, string(g.UID))
		}
		for _, p := range c.Pods {
			have[string(p.UID)] = p.Name
		}
	}
	if len(have) != len(w.pods) {
		t.Errorf("replayed by UID there are %d pods, by name %d", len(have), len(w.pods))
	}
}
