package podsources

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// TestScripts are histories that have to be right whatever the random ones come to.
func TestScripts(t *testing.T) {
	scripts := map[string]history{
		"an item of a list says its kind, which is in the kubelet's UIDs, or does not": {
			after: []step{{"http", "list", 2, 1}, {"http", "list", 2, 2}, {"http", "list", 3, 1}}},
		"the answer before an empty one is no news": {
			after: []step{{"http", "list", 3, 1}, {"http", "nothing", 0, 0}, {"http", "same", 0, 0}, {"http", "pod", 1, 1}}},
		"the same where answers have tags": {
			after: []step{{"http", "list", 3, 2}, {"http", "nothing", 0, 0}, {"http", "same", 0, 0}, {"http", "pod", 1, 2}}},
		"the answer before one that was refused is news": {
			after: []step{{"http", "list", 3, 1}, {"http", "nothing", 0, 0}, {"http", "refused", 0, 0}, {"http", "same", 0, 0}}},
		"a refused answer removes nothing": {
			before: []step{{"http", "list", 3, 4}},
			after:  []step{{"http", "invalid", 1, 2}, {"http", "garbage", 1, 1}, {"http", "gone", 0, 0}, {"http", "none", 0, 0}}},
		"two pods of one name in a list": {
			after: []step{{"http", "dup", 1, 4}, {"http", "dup", 1, 0}}},
		"a manifest that becomes invalid removes its pod, and a good one brings it back": {
			before: []step{{"file", "write", 0, 1}, {"file", "write", 1, 5}},
			after:  []step{{"file", "invalid", 0, 1}, {"file", "half", 1, 0}, {"file", "write", 1, 4}, {"file", "write", 0, 1}}},
		"an edit of a manifest that names its UID is an update": {
			before: []step{{"file", "write", 0, 4}},
			after:  []step{{"file", "write", 0, 5}, {"file", "save", 0, 4}, {"file", "again", 0, 0}, {"file", "touch", 0, 0}}},
		"a pod of the API server comes, changes, ends and comes again": {
			after: []step{{"api", "add", 1, 1}, {"api", "status", 1, 1}, {"api", "status", 1, 1}, {"api", "label", 1, 1}, {"api", "annotate", 1, 1},
				{"api", "spec", 1, 2}, {"api", "meta", 1, 1}, {"api", "local", 1, 2}, {"api", "local", 1, 0}, {"api", "terminate", 1, 1},
				{"api", "recreate", 1, 1}, {"api", "delete", 1, 0}}},
		"an outage": {
			before: []step{{"api", "add", 0, 1}, {"api", "add", 1, 1}, {"api", "add", 2, 1}},
			after:  []step{{"api", "relist", 0, 0}, {"api", "relist", 1, 1}, {"api", "relist", 2, 2}, {"api", "relist", 3, 5}}},
	}
	p := newPlace(t)
	for name, h := range scripts {
		if _, err := run(p, h, patience); err != nil {
			t.Errorf("%s: %v\n%v", name, err, h)
		}
	}
}

// TestWithoutPods: a source whose place is empty, or does not exist, is seen with one ADD without pods.
func TestWithoutPods(t *testing.T) {
	empty := t.TempDir()
	for _, dir := range []string{empty, filepath.Join(empty, "missing")} {
		ctx := klog.NewContext(t.Context(), logr.Discard())
		kubelet := newPodConfig(ctx)
		// The hour keeps it from reading again: it has no end.
		config.NewSourceFile(logr.Discard(), dir, node, 1<<40, kubelet.Channel(ctx, kubetypes.FileSource))
		files, err := podconfig.NewFiles(podconfig.FileConfig{Behaviour: podconfig.KubeletCompatible, Paths: []string{dir}, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		ours, stop := runSources(t, files)
		theirs, mine := newReader(), newReader()
		u, o := <-kubelet.Updates(), <-ours.Updates()
		theirs.read(u.Source, opName(u.Op), u.Pods)
		mine.read(string(o.Source), o.Op.String(), o.Pods)
		if _, ok := same(kubetypes.FileSource, step{}, "", theirs.since, mine.since); !ok || len(mine.since) != 1 || !o.Initial {
			t.Errorf("%s: the kubelet said %v, podconfig %v", filepath.Base(dir), theirs.since, mine.since)
		}
		stop()
	}
	// It ends the kubelet's polling for the directory that was missing.
	if err := os.Mkdir(filepath.Join(empty, "missing"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// runSources runs a compatible merge of some sources until stop.
func runSources(t *testing.T, sources ...podconfig.Producer) (merge *podconfig.PodConfig, stop func()) {
	t.Helper()
	merge, err := podconfig.New(podconfig.Config{Behaviour: podconfig.KubeletCompatible, Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- merge.Run(ctx) }()
	return merge, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestRules: the comparison accepts what its rules say, and nothing else.
func TestRules(t *testing.T) {
	file := func(op string, pods ...string) told { return told{"file", op, pods} }
	api := func(op string, pods ...string) told { return told{"api", op, pods} }
	fileStep, apiStep, relist := step{source: "file", op: "write"}, step{source: "api", op: "add"}, step{source: "api", op: "relist"}
	for _, tc := range []struct {
		source       string
		step         step
		theirs, mine []told
		rule         string
		ok           bool
	}{
		{"file", fileStep, []told{file("REMOVE", "a"), file("ADD", "a")}, nil, rulePassing, true},
		{"file", fileStep, []told{file("ADD", "b"), file("REMOVE", "a")}, []told{file("REMOVE", "a"), file("ADD", "b")}, ruleParts, true},
		{"file", fileStep, []told{file("REMOVE", "a"), file("ADD", "b")}, []told{file("ADD", "b"), file("REMOVE", "a")}, "", false}, // our order
		{"file", fileStep, nil, []told{file("REMOVE", "a"), file("ADD", "a")}, "", false},                                           // ours passes
		{"file", fileStep, []told{file("REMOVE", "a"), file("ADD", "a"), file("ADD", "b")}, nil, rulePassing, false},
		{"file", apiStep, []told{file("REMOVE", "a"), file("ADD", "a")}, nil, rulePassing, true}, // late
		{"file", apiStep, []told{file("REMOVE", "a"), file("ADD", "b")}, nil, rulePassing, false},
		{"file", apiStep, nil, []told{file("REMOVE", "a"), file("ADD", "a")}, "", false}, // out of the blue
		{"file", fileStep, []told{file("UPDATE", "a")}, []told{file("RECONCILE", "a")}, ruleParts, false},
		{"api", relist, []told{api("ADD", "a", "b")}, []told{api("ADD", "b"), api("ADD", "a")}, ruleGrouping, true},
		{"api", relist, []told{api("ADD", "a", "b")}, []told{api("ADD", "b")}, ruleGrouping, false},
		{"api", apiStep, []told{api("ADD", "a", "b")}, []told{api("ADD", "b"), api("ADD", "a")}, "", false},
	} {
		rule, ok := same(tc.source, tc.step, "write", tc.theirs, tc.mine)
		if rule != tc.rule || ok != tc.ok {
			t.Errorf("%v after %v: the kubelet %v, podconfig %v: the same %t by %q, want %t by %q", tc.source, tc.step, tc.theirs, tc.mine, ok, rule, tc.ok, tc.rule)
		}
	}
	a, b := newReader(), newReader()
	pod := &v1.Pod{}
	pod.UID, pod.Name = "1", "p"
	other := pod.DeepCopy()
	other.Status.Message = "other"
	a.read("api", "ADD", []*v1.Pod{pod})
	b.read("api", "ADD", []*v1.Pod{other})
	if d := differences(a, b); len(d) != 1 {
		t.Errorf("two pods that differ in their status: %q", d)
	}
	if b.read("api", "ADD", []*v1.Pod{pod}); b.wrong == nil {
		t.Error("a second ADD is no error")
	}
}
