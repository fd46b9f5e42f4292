package podconfig

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSplitDocuments(t *testing.T) {
	for _, tc := range []struct {
		text string
		want string // the documents, cut at |
	}{
		{"", ""},
		{"a: 1", "a: 1"},
		{"a: 1\n---\nb: 2\n", "a: 1\n|---\nb: 2\n"},
		{"---\na: 1\n---\n---\n", "---\na: 1\n"},
		{"# c\n---\n# c\n---\na: 1\n", "---\na: 1\n"},
		{"%YAML 1.1\n---\na: 1\n", "---\na: 1\n"},
		{"a: 1\n...\nb: 2\n", "a: 1\n|...\nb: 2\n"},
		{"a: 1\n--- {b: 2}\n", "a: 1\n|--- {b: 2}\n"},
		{"a: 1\r\n---\r\nb: 2\r\n", "a: 1\r\n|---\r\nb: 2\r\n"},
		{"a: |\n  text\n  ---\n  more\n", "a: |\n  text\n  ---\n  more\n"},
		{"a: 1\n---- b\n", "a: 1\n---- b\n"},
		{"\uFEFF\n# nothing\n", ""},
		{`{"a":"---"}`, `{"a":"---"}`},
	} {
		var got []string
		for _, d := range splitDocuments([]byte(tc.text)) {
			got = append(got, tc.text[d.start:d.end])
		}
		if got := strings.Join(got, "|"); got != tc.want {
			t.Errorf("%q has the documents %q, want %q", tc.text, got, tc.want)
		}
	}
}

func TestPathSteps(t *testing.T) {
	for path, want := range map[string]string{
		"":                              "",
		"spec":                          "spec",
		"spec.containers[0].image":      "spec|containers|0|image",
		"metadata.labels[a.example/b]":  "metadata|labels|a.example/b",
		"items[3].spec.volumes[1].name": "items|3|spec|volumes|1|name",
		"a[b":                           "a|b",
	} {
		if got := strings.Join(pathSteps(path), "|"); got != want {
			t.Errorf("%q has the steps %q, want %q", path, got, want)
		}
	}
}

// TestLines: the line is that of the field in the file, also with comments before it,
// in a list, behind an alias, in JSON; and where the field is missing, that of what
// should have it.
func TestLines(t *testing.T) {
	text := `# comment
---
apiVersion: v1
kind: Pod
metadata:
  labels:
    a.example/b: c
spec:
  containers:
  - &c
    name: a
    image: b
  - *c
`
	for path, want := range map[string]int{
		"metadata": 5, "metadata.name": 5, "metadata.labels[a.example/b]": 7, "spec.containers": 9, "spec.containers[0].image": 12,
		"spec.containers[1].name": 11, "spec.containers[0].ports[0].name": 10, "spec.containers[5]": 9, "nothing": 0, "": 0,
	} {
		if got := (lineFinder{text: []byte(text)}).line(path); got != want {
			t.Errorf("%s is in line %d, want %d", path, got, want)
		}
	}
	json := "{\"spec\":\n {\"containers\":\n  [{\"name\":\n \"a\"}]}}"
	if got := (lineFinder{text: []byte(json)}).line("spec.containers[0].name"); got != 3 {
		t.Errorf("in JSON the line is %d, want 3", got)
	}
	if got := (lineFinder{text: []byte("a: [")}).line("a"); got != 0 {
		t.Errorf("in what is no YAML the line is %d", got)
	}
	if got := (lineFinder{text: []byte("a: &a [*a]")}).line("a.b"); got != 1 {
		t.Errorf("in what is in itself the line is %d, want 1", got)
	}
	err := lineFinder{text: []byte(text)}.below("spec.containers[0]").explain(field.Required(field.NewPath("image"), "why"))
	if got := err.Error(); got != "line 12: image: Required value: why" {
		t.Errorf("the error is %q", got)
	}
}

// TestManifestDoubts: what has no effect is told and no error, as the kubelet takes it.
func TestManifestDoubts(t *testing.T) {
	m, err := manifestParser{}.pod([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\nspec: {containerz: [], containers: [{name: a, Image: b}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(m.doubts, "\n")
	for _, want := range []string{`key "name" already set in map`, `unknown field "spec.containerz"`, `unknown field "spec.containers[0].Image"`} {
		if !strings.Contains(all, want) {
			t.Errorf("the doubts are %q, want %q among them", all, want)
		}
	}
	if m.pod.Name != "b" || m.pod.Spec.Containers[0].Image != "" {
		t.Errorf("the pod is %+v: the last key counts, and case matters", m.pod)
	}
}

// TestFaultsAreStable: the same bad manifest has the same text, so that it is said once.
func TestFaultsAreStable(t *testing.T) {
	text := strings.Replace(manifestText("a", "one:1"), "image: one:1\n", "image: one:1\n    resources: {limits: {a: -1, b: -1, c: -1, d: -1}}\n", 1)
	var first string
	for range 50 {
		m, err := manifestParser{}.pod([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = staticPods{source: FileSource, node: "n1"}.make("p", m, nil, time.Time{})
		if err == nil {
			t.Fatal("the manifest was taken")
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Fatalf("one manifest has the faults %q and %q", first, err)
		}
	}
	if !strings.Contains(first, "limits[a]") || !strings.Contains(first, "more)") {
		t.Errorf("the fault is %q, want the first of several", first)
	}
}

// TestSecondDocument: an error with its line; the kubelet takes the first.
func TestSecondDocument(t *testing.T) {
	text := []byte(manifestText("a", "one:1") + "---\n" + manifestText("b", "two:2"))
	if _, err := (manifestParser{}).pod(text); err == nil || !strings.Contains(err.Error(), "line 9: a second document") {
		t.Errorf("the error is %v", err)
	}
	m, err := manifestParser{KubeletCompatible}.pod(text)
	if err != nil || m.pod.Name != "a" {
		t.Errorf("the kubelet's behaviour: %+v, %v", m, err)
	}
}

func TestReadManifestLimit(t *testing.T) {
	for _, tc := range []struct {
		size int64
		ok   bool
	}{{MaxManifestBytes, true}, {MaxManifestBytes + 1, false}} {
		data, err := readManifest(io.LimitReader(zeros{}, tc.size))
		if ok := err == nil && int64(len(data)) == tc.size; ok != tc.ok {
			t.Errorf("%d bytes: %d read, error %v", tc.size, len(data), err)
		}
	}
}

// FuzzManifest: whatever comes, one pod or an error comes out, a list no less; what was
// taken has a name, a UID and a node, and has the same UID when it is read again.
func FuzzManifest(f *testing.F) {
	for _, c := range kubeletCases(f) {
		f.Add(c.manifest)
	}
	f.Add([]byte(podList("a", "one:1", "b", "")))
	f.Add([]byte(manifestText("a", "one:1") + "---\n" + manifestText("b", "one:1")))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := staticPods{source: FileSource, node: "n1"}
		m, err := manifestParser{}.pod(data)
		if err == nil {
			uid := manifestUID(m.tree, FileSource, "n1", "x")
			pod, err := s.make("x", m, nil, time.Time{})
			if err == nil {
				if pod.Name == "" || pod.UID == "" || pod.Namespace == "" || pod.Spec.NodeName != "n1" || len(pod.Spec.Containers) == 0 {
					t.Errorf("taken: %+v", pod)
				}
				again, err := manifestParser{}.pod(data)
				if err != nil || manifestUID(again.tree, FileSource, "n1", "x") != uid {
					t.Errorf("the second reading differs: %v", err)
				}
			} else if err.Error() == "" {
				t.Error("an error without a text")
			}
		}
		items, err := manifestParser{}.pods(data)
		if err != nil {
			return
		}
		for _, item := range items {
			if item.err == nil && item.manifest == nil {
				t.Errorf("item %d has neither a pod nor an error", item.index)
			}
		}
	})
}

// TestNestedAliases: a text that is short and means much is refused, and soon.
func TestNestedAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  x0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "  x%d: &x%d [*x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	if _, err := (manifestParser{}).pod([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "aliasing") {
		t.Errorf("the error is %v", err)
	}
}
