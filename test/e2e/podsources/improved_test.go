package podsources

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	// url are the last good contents by name. withheld says that the kubelet may have
	// something else: a whole answer refused, or everything removed. repeated is the answer that
	// "same" gives again, if there was one.
	url      map[string]content
	where    string // the URL
	withheld bool
	repeated *step
}

// content is what a manifest says, a pod's name and which content it has, and what is made of it.
type content struct {
	pod       string
	value     int
	uid, hash string
}

// version is a content where before was, if anything was: a pod that is edited keeps its UID unless
// the manifest names one, and its hash is always that of the manifest.
func version(source, where, pod string, value int, before content) content {
	c := content{pod: pod, value: value, hash: uidScheme1(source, where, pod, value)}
	switch {
	case value >= 4:
		c.uid = "given-" + pod
	case before.pod == pod:
		c.uid = before.uid
	default:
		c.uid = c.hash
	}
	return c
}

// uidScheme1 is the hash of a manifest as docs/podsources.md describes it.
func uidScheme1(source, where, pod string, value int) string {
	meta := map[string]string{"name": pod}
	if value >= 4 {
		meta["uid"] = "given-" + pod
	}
	text, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{
		"containers": []any{map[string]string{"name": "main", "image": fmt.Sprintf("image:%d", value)}}}})
	must(err)
	h := sha256.New()
	for _, part := range []string{"nodewatch static pod 1", source, node, where, string(text)} {
		must(binary.Write(h, binary.BigEndian, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// begin looks at what is there when the sources start.
func (m *model) begin(p *place) {
	m.files = nil
	m.look(p)
	// Of the answers before the start only the last one is known, and it was said again.
	m.url, m.where = map[string]content{}, p.url()
	if p.answer.body != "" && m.repeated != nil {
		m.say(*m.repeated)
	}
	m.withheld = true
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
	type saying struct {
		pod   string
		value int
	}
	known := map[string]saying{}
	for pod := range 4 {
		for value := range 6 {
			name := string(rune('a' + pod))
			known[manifest(name, value)] = saying{name, value}
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
		c, kept := m.files[e.Name()]
		if says, good := known[string(text)]; good {
			c = version(kubetypes.FileSource, filepath.Join(p.dir, e.Name()), says.pod, says.value, c)
		} else if m.spoilt = true; !kept {
			continue
		}
		files[e.Name()] = c
		m.spoilt = m.spoilt || names[c.pod]
		names[c.pod] = true
	}
	m.files = files
}

// answer follows what the URL is asked to say.
func (m *model) answer(s step) {
	switch s.op {
	case "same":
		if m.repeated != nil {
			m.say(*m.repeated)
		}
		m.withheld = true // it may be news here, where the kubelet has seen it
	case "nothing":
		m.withheld = true // and nothing changes
	case "refused", "gone": // nothing changes
	default:
		m.repeated = &s
		m.say(s)
	}
}

// say follows an answer that is not empty.
func (m *model) say(s step) {
	good := map[string]content{}
	add := func(i int) {
		name := fmt.Sprintf("web-%d", i)
		good[name] = version(kubetypes.HTTPSource, m.where, name, s.value, m.url[name])
	}
	withheld := false
	switch s.op {
	case "pod", "dup": // of two the first counts
		add(s.slot)
	case "list":
		for i := range s.slot {
			add((i + s.value) % 4)
		}
	case "none":
	case "invalid": // the second of the list keeps what it had
		withheld = true
		add(s.slot)
		if before, there := m.url[fmt.Sprintf("web-%d", s.slot+1)]; there {
			good[before.pod] = before
		}
	default: // garbage: nothing changes
		return
	}
	m.url, m.withheld = good, withheld
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
		case source == kubetypes.HTTPSource:
			want = m.url
		default:
			continue
		}
		got := map[string]content{}
		for _, pod := range mine.state[source] {
			if name := strings.TrimSuffix(pod.Name, "-"+node); !isBarrier(pod) {
				c := content{pod: name, uid: string(pod.UID), hash: pod.Annotations["kubernetes.io/config.hash"]}
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
// of static pods, which the model has, the annotations of a pod's way, and metadata that the kubelet does not renew.
func comparableNames(r *reader, source string) map[string]string {
	pods := map[string]string{}
	for uid, pod := range r.state[source] {
		p := v1.Pod{Spec: pod.Spec, Status: pod.Status}
		p.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Annotations: maps.Clone(pod.Annotations),
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds}
		if len(pod.Labels) > 0 {
			p.Labels = pod.Labels
		}
		if source == kubetypes.ApiserverSource {
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
