package podsources

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// model is what the improved mode makes of the files and of the URL, as docs/podsources.md has it.
// Where none of the improvements has a say it has to be what the kubelet has.
type model struct {
	// files are the last good contents by path, and spoilt says that one of them is not
	// what the file says now, that two have a pod of one name, or that there is a backup.
	files  map[string]content
	spoilt bool
	// url are the last good contents by name, nil when they are not known. withheld says that
	// the kubelet may have something else: a whole answer refused, or everything removed.
	url      map[string]content
	withheld bool
}

// content is what a manifest says: a pod's name and which content it has.
type content struct {
	pod   string
	value int
}

// begin looks at what is there when the sources start.
func (m *model) begin(p *place) {
	m.files = nil
	m.look(p)
	// Of the answers before the start only the last one is known.
	m.url, m.withheld = nil, true
}

// after follows a step.
func (m *model) after(p *place, s step) {
	if s.source == kubetypes.FileSource {
		m.look(p)
	}
	if s.source == kubetypes.HTTPSource {
		m.answer(s)
	}
}

// look reads the directory. A file that says nothing that it could mean leaves what it said before.
func (m *model) look(p *place) {
	known := map[string]content{}
	for pod := range 4 {
		for value := range 6 {
			name := string(rune('a' + pod))
			known[manifest(name, value)] = content{name, value}
		}
	}
	files, names := map[string]content{}, map[string]bool{}
	m.spoilt = false
	entries, err := os.ReadDir(p.dir)
	must(err)
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."), strings.HasPrefix(e.Name(), barrierName):
			continue
		case strings.HasSuffix(e.Name(), "~"):
			m.spoilt = true
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		must(err)
		c, good := known[string(text)]
		if !good {
			m.spoilt = true
			if c, good = m.files[e.Name()]; !good {
				continue
			}
		}
		files[e.Name()] = c
		m.spoilt = m.spoilt || names[c.pod]
		names[c.pod] = true
	}
	m.files = files
}

// answer follows what the URL says.
func (m *model) answer(s step) {
	web := func(i int) content { return content{fmt.Sprintf("web-%d", i), s.value} }
	good := map[string]content{}
	switch s.op {
	case "pod", "dup": // of two the first counts
		good[web(s.slot).pod] = web(s.slot)
	case "list":
		for i := range s.slot {
			c := web((i + s.value) % 4)
			good[c.pod] = c
		}
	case "none":
	case "invalid": // the second of the list keeps what it had
		m.withheld = true
		if m.url == nil {
			return
		}
		good[web(s.slot).pod] = web(s.slot)
		if before, there := m.url[web(s.slot+1).pod]; there {
			good[before.pod] = before
		}
		m.url = good
		return
	case "nothing":
		m.withheld = true // and nothing changes
		return
	case "same":
		m.withheld = true // it may be news here, where the kubelet has seen it
		m.url = nil
		return
	default: // garbage, refused, gone: nothing changes
		return
	}
	m.url, m.withheld = good, false
}

// differences compares what the readers have: the API server's pods always with the kubelet's, the
// others with the model, and with the kubelet's unless an improvement has a say.
func (m *model) differences(theirs, mine *reader) (lines []string) {
	for _, source := range sources {
		a, b := comparableNames(theirs, source), comparableNames(mine, source)
		if (theirs.state[source] == nil) != (mine.state[source] == nil) && source != kubetypes.HTTPSource {
			lines = append(lines, fmt.Sprintf("source %s was seen by one alone", source))
		}
		if source == kubetypes.FileSource && m.spoilt || source == kubetypes.HTTPSource && m.withheld {
			a = nil
		}
		if a != nil && !maps.Equal(a, b) {
			lines = append(lines, fmt.Sprintf("source %s: the kubelet's reader has %v\n\t\tpodconfig's %v", source, a, b))
		}
		var want map[string]content
		switch {
		case source == kubetypes.FileSource:
			want = map[string]content{}
			for _, path := range slices.Backward(slices.Sorted(maps.Keys(m.files))) {
				want[m.files[path].pod] = m.files[path] // the first by path counts
			}
		case source == kubetypes.HTTPSource && m.url != nil:
			want = m.url
		default:
			continue
		}
		got := map[string]content{}
		for _, pod := range mine.state[source] {
			if name := strings.TrimSuffix(pod.Name, "-"+node); !isBarrier(pod) {
				c := content{pod: name}
				if _, err := fmt.Sscanf(pod.Spec.Containers[0].Image, "image:%d", &c.value); err != nil {
					lines = append(lines, err.Error())
				}
				got[name] = c
			}
		}
		if !maps.Equal(got, want) {
			lines = append(lines, fmt.Sprintf("source %s: podconfig's reader has %v, want %v", source, got, want))
		}
	}
	return lines
}

// comparableNames is what a reader has of a source, by name, without what the improvements change: the UIDs
// of static pods, the annotations of a pod's way, and metadata that the kubelet does not renew.
func comparableNames(r *reader, source string) map[string]string {
	pods := map[string]string{}
	for uid, pod := range r.state[source] {
		p := v1.Pod{Spec: pod.Spec, Status: pod.Status}
		p.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Annotations: maps.Clone(pod.Annotations),
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds}
		if len(pod.Labels) > 0 {
			p.Labels = pod.Labels
		}
		if source == kubetypes.ApiserverSource || strings.HasPrefix(string(uid), "given-") {
			p.UID = uid
		}
		maps.DeleteFunc(p.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, "kubernetes.io/config.") })
		text, err := json.Marshal(p)
		must(err)
		pods[pod.Namespace+"/"+pod.Name] = string(text)
	}
	return pods
}

// compareImproved: of the API server's pods both say the same, in any grouping after a relist or
// where the reader was slow; a slow one may have missed what came in between.
func (w *world) compareImproved(s step) error {
	if s.op == "burst" {
		return nil
	}
	theirs, mine := w.theirs.of(kubetypes.ApiserverSource), w.mine.of(kubetypes.ApiserverSource)
	if a, b := single(theirs), single(mine); !slices.Equal(a, b) {
		return fmt.Errorf("source api: the updates are different\n%s", w.transcript())
	}
	for _, source := range sources {
		if us := w.mine.of(source); s.op != "start" && !once(us) {
			return fmt.Errorf("source %s: a pod is told twice of one change\n%s", source, w.transcript())
		}
	}
	return nil
}

// improvedHistories is how many random histories the improved mode has to pass.
const improvedHistories = 60

// TestImproved: over random histories the improved mode is what docs/podsources.md says, and where
// none of the improvements has a say its reader has what the kubelet's has.
func TestImproved(t *testing.T) {
	var running sync.WaitGroup
	numbers := make(chan uint64)
	var mu sync.Mutex
	var failed bool
	for range places {
		running.Go(func() {
			p := newPlace(t)
			for number := range numbers {
				h := newHistory(number)
				_, err := runWith(p, h, patience, &model{})
				if err == nil {
					continue
				}
				mu.Lock()
				first := !failed
				failed = true
				mu.Unlock()
				t.Errorf("history %d: %v", number, err)
				if first {
					t.Errorf("history %d, the fewest steps that fail:\n%v", number, minimal(h, func(h history) bool {
						_, e := runWith(p, h, hurry, &model{})
						return e != nil
					}))
				}
			}
		})
	}
	for number := range uint64(improvedHistories) {
		numbers <- 1000 + number
	}
	close(numbers)
	running.Wait()
}
