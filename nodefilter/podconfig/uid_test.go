package podconfig

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// goldenUIDs are the UIDs of scheme 1. A change of them restarts every static pod of
// every node at the upgrade: they may only change with the name of the scheme.
var goldenUIDs = []struct {
	source   Source
	node     string
	where    string
	manifest string
	want     types.UID
}{
	{FileSource, "n1", "/etc/kubernetes/manifests/a.yaml", manifestText("a", "one:1"), "77f718b32f0cb4d4865244e7ffca81da"},
	{FileSource, "n1", "/etc/kubernetes/manifests/b.yaml", manifestText("a", "one:1"), "e6073a76ad48a7db97dfc25dd49b67fa"},
	{FileSource, "n2", "/etc/kubernetes/manifests/a.yaml", manifestText("a", "one:1"), "57c0b7750ba327987cc0040117a224e8"},
	{HTTPSource, "n1", "/etc/kubernetes/manifests/a.yaml", manifestText("a", "one:1"), "75845ea67d4b1a9dbe1d7835ddc76a16"},
	{FileSource, "n1", "/etc/kubernetes/manifests/a.yaml", manifestText("a", "two:2"), "3a6af02a04e464836443b6c776642725"},
	{FileSource, "n1", "/etc/kubernetes/manifests/a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  priority: 2000001000\n  hostNetwork: true\n  containers: [{name: é, image: \"<b>\", resources: {limits: {cpu: 0.5, memory: 100Mi}}}]\n", "270fd13914ffb00d36fb8f5b41ed84e6"},
}

// TestJ4GoldenUIDs: UIDs depend on source, node, path and content (that with which the pod was
// first seen), and stay as they are.
func TestJ4GoldenUIDs(t *testing.T) {
	seen := make(map[types.UID]int)
	for i, g := range goldenUIDs {
		m, err := manifestParser{}.pod([]byte(g.manifest))
		if err != nil {
			t.Fatal(err)
		}
		got := manifestUID(m.tree, g.source, g.node, g.where)
		if got != g.want {
			t.Errorf("the UID of %d is %s, want %s", i, got, g.want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%d and %d have one UID", other, i)
		}
		seen[got] = i
	}
}

// TestUIDIsOfTheMeaning: comments, the order of fields, YAML or JSON, nulls make no difference.
func TestUIDIsOfTheMeaning(t *testing.T) {
	uid := func(text string) types.UID {
		t.Helper()
		m, err := manifestParser{}.pod([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return manifestUID(m.tree, FileSource, "n", "p")
	}
	want := uid(manifestText("a", "one:1"))
	for _, same := range []string{
		"# comment\n---\n" + manifestText("a", "one:1") + "---\n",
		"spec: {containers: [{image: 'one:1', name: app}]}\nkind: Pod\nmetadata: {name: a, labels: null}\napiVersion: v1\n",
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"app","image":"one:1","ports":null}]},"metadata":{"name":"a"}}`,
	} {
		if got := uid(same); got != want {
			t.Errorf("%q has another UID", same)
		}
	}
	// Parts are not joined without their lengths.
	m, err := manifestParser{}.pod([]byte(manifestText("a", "one:1")))
	if err != nil {
		t.Fatal(err)
	}
	if manifestUID(m.tree, FileSource, "n1", "p") == manifestUID(m.tree, FileSource, "n", "1p") {
		t.Error("node and path run into each other")
	}
}

// TestUIDIsNotOfTheDefaults: what is made of a manifest has the UID of what was
// written, and its hash annotation.
func TestUIDIsNotOfTheDefaults(t *testing.T) {
	m, err := manifestParser{}.pod([]byte(manifestText("a", "one:1")))
	if err != nil {
		t.Fatal(err)
	}
	want := manifestUID(m.tree, FileSource, "n1", "p")
	now := time.Date(2026, 11, 30, 12, 0, 0, 5, time.UTC)
	pod, err := staticPods{source: FileSource, node: "n1", behaviour: Improved}.make("p", m, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if pod.UID != want || pod.Annotations[hashAnnotation] != string(want) || len(want) != 32 {
		t.Errorf("the pod has UID %s and hash %s, want %s", pod.UID, pod.Annotations[hashAnnotation], want)
	}
	if pod.Annotations[firstSeenAnnotation] != "2026-11-30T12:00:00.000000005Z" || pod.Annotations[sourceAnnotation] != "file" {
		t.Errorf("the annotations are %v", pod.Annotations)
	}
}
