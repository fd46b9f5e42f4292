package podconfig

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// kubeletCases are the manifests of testdata/static.txtar with what the kubelet's own
// package makes of each: the pod as JSON, or why it is refused.
type kubeletCase struct {
	name     string
	manifest []byte
	pod      []byte
	refused  string
	urlUID   string // where it came from kubeletURL
}

// kubeletURL is where the manifests were as well.
const kubeletURL = "http://config.example/pods"

func kubeletCases(t testing.TB) (cases []kubeletCase) {
	t.Helper()
	read := func(name string) []txtar.File {
		a, err := txtar.ParseFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return a.Files
	}
	answers, uids := make(map[string]txtar.File), make(map[string]string)
	for _, f := range read("static-kubelet.txtar") {
		name, _, _ := strings.Cut(f.Name, ".")
		answers[name] = f
		if f.Name == "uids-from-url" {
			for line := range strings.Lines(string(f.Data)) {
				name, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
				uids[name] = uid
			}
		}
	}
	for _, f := range read("static.txtar") {
		name, _, _ := strings.Cut(f.Name, ".")
		c := kubeletCase{name: name, manifest: f.Data, urlUID: uids[name]}
		switch a := answers[name]; {
		case strings.HasSuffix(a.Name, ".json"):
			c.pod = a.Data
		case strings.HasSuffix(a.Name, ".refused"):
			c.refused = string(a.Data)
		default:
			t.Fatalf("static-kubelet.txtar has no answer to %s: write it anew", name)
		}
		cases = append(cases, c)
	}
	return cases
}

// kubeletNode is the node for which static-kubelet.txtar was written.
const kubeletNode = "node-a"

// TestStaticPodsAsTheKubelet: what is made of each manifest, its defaults,
// its place on the node and, in KubeletCompatible, its UID, is what the kubelet's own
// package makes of it; and what the kubelet refuses is refused.
func TestStaticPodsAsTheKubelet(t *testing.T) {
	for _, c := range kubeletCases(t) {
		t.Run(c.name, func(t *testing.T) {
			s := staticPods{source: FileSource, node: kubeletNode, behaviour: KubeletCompatible}
			m, err := manifestParser{KubeletCompatible}.pod(c.manifest)
			if err == nil {
				var pod any
				if pod, err = s.make("manifests/"+c.name+".yaml", m, nil, time.Now()); err == nil && c.pod != nil {
					delete(m.pod.Annotations, firstSeenAnnotation)
					if diff := cmp.Diff(plainJSON(t, c.pod), plainJSON(t, asJSON(t, pod))); diff != "" {
						t.Errorf("not as the kubelet's (-kubelet +ours):\n%s", diff)
					}
				}
			}
			switch {
			case err != nil && c.pod != nil:
				t.Errorf("refused: %v, but the kubelet takes it", err)
			case err == nil && c.pod == nil:
				t.Errorf("taken, but the kubelet says: %s", c.refused)
			}
		})
	}
}

// TestURLUIDsAsTheKubelet: in KubeletCompatible the UID of a pod of a URL is the kubelet's, too.
func TestURLUIDsAsTheKubelet(t *testing.T) {
	n := 0
	for _, c := range kubeletCases(t) {
		if c.pod == nil {
			continue
		}
		n++
		m, err := manifestParser{KubeletCompatible}.pod(c.manifest)
		if err != nil {
			t.Fatal(err)
		}
		pod, err := staticPods{source: HTTPSource, node: kubeletNode, behaviour: KubeletCompatible}.make(kubeletURL, m, nil, time.Now())
		if err != nil || string(pod.UID) != c.urlUID {
			t.Errorf("%s: %v, the kubelet has UID %s", c.name, err, c.urlUID)
		}
	}
	if n < 50 {
		t.Errorf("%d manifests were compared, want 50 at least", n)
	}
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// plainJSON is the value without what is empty, since Go types say that in several ways.
func plainJSON(t testing.TB, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
