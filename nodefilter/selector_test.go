package nodefilter

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

func parse(t *testing.T, s string) fields.Selector {
	t.Helper()
	sel, err := fields.ParseSelector(s)
	if err != nil {
		t.Fatalf("test selector %q: %v", s, err)
	}
	return sel
}

func TestOnNodeComposes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		node   string
		others []fields.Selector
		want   string
	}{
		{"alone", "node-a", nil, "spec.nodeName=node-a"},
		{"nil and empty selectors", "node-a", []fields.Selector{nil, fields.Everything()}, "spec.nodeName=node-a"},
		{"another field", "node-a", []fields.Selector{parse(t, "status.phase!=Succeeded")}, "spec.nodeName=node-a,status.phase!=Succeeded"},
		{
			"several", "node-a",
			[]fields.Selector{parse(t, "status.phase!=Failed,status.phase!=Succeeded"), parse(t, "metadata.name=web-0")},
			"spec.nodeName=node-a,status.phase!=Failed,status.phase!=Succeeded,metadata.name=web-0",
		},
		{"the same node again", "node-a", []fields.Selector{parse(t, "spec.nodeName=node-a,metadata.name=web-0")}, "spec.nodeName=node-a,metadata.name=web-0"},
		{"the same node with ==", "node-a", []fields.Selector{parse(t, "spec.nodeName==node-a")}, "spec.nodeName=node-a"},
		{"another node excluded", "node-a", []fields.Selector{parse(t, "spec.nodeName!=node-b")}, "spec.nodeName=node-a"},
		{"a value that needs escapes", "node-a", []fields.Selector{fields.OneTermEqualSelector("metadata.name", `a,b=c\`)}, `spec.nodeName=node-a,metadata.name=a\,b\=c\\`},
		{"dots and digits", "ip-10-0-0-1.eu-1.example.com", nil, "spec.nodeName=ip-10-0-0-1.eu-1.example.com"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := OnNode(tc.node, tc.others...)
			if err != nil {
				t.Fatalf("OnNode: %v", err)
			}
			if got.String() != tc.want {
				t.Errorf("selector %q, want %q", got, tc.want)
			}
			// The server parses the text: it must mean the same there, and have
			// the form that the node authorizer asks for.
			if node, ok := parse(t, got.String()).RequiresExactMatch(NodeNameField); !ok || node != tc.node {
				t.Errorf("parsed again it requires node %q (%v), want %q", node, ok, tc.node)
			}
		})
	}
}

// TestOnNodeRefuses quotes the package's guarantee: a scope is never wider
// than its node: an empty or invalid node name is an error and not a selector
// for everything, and a selector that contradicts the scope is an error and not
// an empty collection.
func TestOnNodeRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		node   string
		others []fields.Selector
		want   string // part of the error: what to do
	}{
		{"empty name", "", nil, "set it, such as Config.Node"},
		{"empty name, how in a pod", "", nil, "downward API"},
		{"blank name", " ", nil, "not a node name"},
		{"upper case", "Node-A", nil, "not a node name"},
		{"a selector for a name", "node-a,metadata.name=x", nil, "not a node name"},
		{"several names", "node-a node-b", nil, "not a node name"},
		{"newline", "node-a\n", nil, "not a node name"},
		{"254 letters", strings.Repeat("a", 254), nil, "not a node name"},
		{"an unexpanded variable", "$(NODE_NAME)", nil, "kubectl get nodes"},
		{"another node", "node-a", []fields.Selector{parse(t, "spec.nodeName=node-b")}, "contradicts"},
		{"no node", "node-a", []fields.Selector{fields.OneTermEqualSelector(NodeNameField, "")}, "contradicts"},
		{"the node excluded", "node-a", []fields.Selector{parse(t, "spec.nodeName!=node-a")}, "contradicts"},
		{"hidden behind another term", "node-a", []fields.Selector{parse(t, "metadata.name=x,spec.nodeName=node-b")}, "contradicts"},
		{"nothing", "node-a", []fields.Selector{fields.Nothing()}, "matches nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := OnNode(tc.node, tc.others...)
			if err == nil {
				t.Fatalf("OnNode returned %q, want an error", got)
			}
			if got != nil {
				t.Errorf("a selector %q came with the error", got)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestOnNodes(t *testing.T) {
	t.Parallel()
	running := parse(t, "status.phase=Running")
	got, err := OnNodes([]string{"node-b", "node-a", "node-b", "node-a"}, running)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, s := range got {
		texts = append(texts, s.String())
	}
	want := "spec.nodeName=node-b,status.phase=Running spec.nodeName=node-a,status.phase=Running"
	if strings.Join(texts, " ") != want {
		t.Errorf("selectors %q, want %q", texts, want)
	}
	for _, names := range [][]string{nil, {}, {"node-a", ""}, {"node-a", "B"}} {
		if got, err := OnNodes(names); err == nil || got != nil {
			t.Errorf("OnNodes(%q) = %v, %v, want an error and nothing else", names, got, err)
		}
	}
	if _, err := OnNodes([]string{"node-a", "node-b"}, parse(t, "spec.nodeName=node-a")); err == nil {
		t.Error("a selector for one node was accepted for two")
	}
}

// FuzzOnNode looks for a name or a selector that widens the scope.
func FuzzOnNode(f *testing.F) {
	f.Add("node-a", "status.phase=Running", "node-b")
	f.Add("node-a", "spec.nodeName!=node-b", "node-b")
	f.Add("a.b", `metadata.name=x\,spec.nodeName\=b`, "b")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, node, other, elsewhere string) {
		sel, err := fields.ParseSelector(other)
		if err != nil {
			return
		}
		got, err := OnNode(node, sel)
		if err != nil {
			return
		}
		again, err := fields.ParseSelector(got.String())
		if err != nil {
			t.Fatalf("a server cannot parse %q: %v", got, err)
		}
		if v, ok := again.RequiresExactMatch(NodeNameField); !ok || v != node {
			t.Fatalf("%q does not require node %q", got, node)
		}
		// On the node the composition selects what other selects; elsewhere nothing.
		for _, n := range []string{node, elsewhere} {
			set := fields.Set{NodeNameField: n, "status.phase": "Running", "metadata.name": "x"}
			if want := n == node && sel.Matches(set); again.Matches(set) != want {
				t.Fatalf("%q matches %v: %v, want %v (narrowed by %q)", again, set, !want, want, other)
			}
		}
	})
}

func TestPodOnNode(t *testing.T) {
	t.Parallel()
	on := func(node string) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }
	for _, tc := range []struct {
		guard string
		pod   *corev1.Pod
		want  bool
	}{
		{"node-a", on("node-a"), true},
		{"node-a", on("node-b"), false},
		{"node-a", on("node-a.example.com"), false},
		{"node-a", on(""), false},
		{"node-a", nil, false},
		{"", on(""), false},
	} {
		if got := PodOnNode(tc.guard)(tc.pod); got != tc.want {
			t.Errorf("PodOnNode(%q)(%+v) = %v, want %v", tc.guard, tc.pod, got, tc.want)
		}
	}
}

func TestByNode(t *testing.T) {
	t.Parallel()
	ix := ByNode()
	if ix.Name != NodeIndex {
		t.Errorf("index %q, want %q", ix.Name, NodeIndex)
	}
	for _, node := range []string{"node-a", ""} {
		got := ix.Values(&corev1.Pod{Spec: corev1.PodSpec{NodeName: node}})
		if len(got) != 1 || got[0] != node {
			t.Errorf("values %q of a pod on %q", got, node)
		}
	}
}
