package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// TestSourcesUsage: what is wrong with the flags, said with what to do; status 2.
func TestSourcesUsage(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, c := range []struct{ args, want string }{
		{"", "which node? Pass --node NAME, or set $NODE_NAME"},
		{"--node=", "--node"},
		{"--node a/b", "--node: "},
		{"--node a --standalone", "--standalone leaves no source: give --pod-manifest-path or --manifest-url"},
		{"--node a --standalone --manifest-url http://x/ --server https://y", "--standalone means no API server: leave out --server"},
		{"--demo --server https://y", "--demo brings its own server: leave out --server"},
		{"--demo --standalone", "--demo brings its own sources"},
		{"--demo --pod-manifest-path x", "--demo brings its own sources"},
		{"--node a --pod-manifest-path=", "--pod-manifest-path is empty"},
		{"--node a --manifest-url=", "--manifest-url is empty"},
		{"--node a --manifest-url ftp://x/", `--manifest-url: URL has the scheme "ftp"`},
		{"--node a --manifest-url-header A:b", "--manifest-url-header is for --manifest-url"},
		{"--node a --manifest-url http://x/ --manifest-url-header secret", "--manifest-url-header: header 1 has no colon"},
		{"--node a -o yaml", "must be one of: table, json"},
		{"--node a --metrics-addr 9102", "is not HOST:PORT"},
		{"--node a extra", "unexpected word"},
	} {
		status, stdout, stderr := call(t.Context(), append([]string{"sources"}, strings.Fields(c.args)...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want %q", c.args, status, stdout, stderr, c.want)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("%q: a header is shown: %s", c.args, stderr)
		}
	}
}

// TestSourcesFails: what no flag can tell is a failure.
func TestSourcesFails(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	status, _, stderr := call(t.Context(), "sources", "--node", "a")
	if want := "cannot tell which API server to ask"; status != exitFailed || !strings.Contains(stderr, want) {
		t.Errorf("status %d, stderr %q, want %q", status, stderr, want)
	}
}

// TestSourcesFiles: manifests alone, as JSON, until the context ends.
func TestSourcesFiles(t *testing.T) {
	folder := t.TempDir()
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u}\nspec: {containers: [{name: c, image: i}]}\n"
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := &firstLine{then: cancel}
	var stderr bytes.Buffer
	status := run(ctx, []string{"nodewatch", "sources", "--node", "N1", "--standalone", "--pod-manifest-path", folder, "-o", "json"},
		&streams{out: out, err: &terminal{w: &stderr}})
	if status != exitUsage || !strings.Contains(stderr.String(), "lower case") {
		t.Errorf("a node with a capital: status %d, %s", status, stderr.String())
	}
	status = run(ctx, []string{"nodewatch", "sources", "--node", "n1", "--standalone", "--pod-manifest-path", folder, "-o", "json"},
		&streams{out: out, err: &terminal{w: &stderr}})
	var line struct {
		Op, Source string
		Initial    bool
		Pod        corev1.Pod
	}
	if err := json.Unmarshal(out.b.Bytes(), &line); err != nil {
		t.Fatalf("%v: %q, stderr %s", err, out.b.String(), stderr.String())
	}
	if status != exitOK || line.Op != "ADD" || line.Source != "file" || !line.Initial || line.Pod.Name != "a-n1" || line.Pod.UID != "u" {
		t.Errorf("status %d, %+v", status, line)
	}
}

// firstLine is a standard output that calls then with its first write.
type firstLine struct {
	b    bytes.Buffer
	then func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.b.Write(p)
	f.then()
	return len(p), nil
}

func samplePod(edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}, {Name: "side", Image: "side:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: "Ready", Status: "False"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web"}}},
	}
	for _, e := range edits {
		e(p)
	}
	return p
}

// TestPodChanges: fields are named as the API merges lists, what says most comes
// first, and what says little only alone.
func TestPodChanges(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	grace := int64(30)
	for _, c := range []struct {
		name string
		edit func(*corev1.Pod)
		want []string
	}{
		{"nothing", func(*corev1.Pod) {}, nil},
		{"image", func(p *corev1.Pod) { p.Spec.Containers[1].Image = "side:2" }, []string{"spec.containers[side].image: side:1 -> side:2"}},
		{"order", func(p *corev1.Pod) { slices.Reverse(p.Spec.Containers) }, nil},
		{"a container more", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x"}) },
			[]string{`spec.containers[x]: (none) -> {"name":"x","resources":{}}`}},
		{"label", func(p *corev1.Pod) { p.Labels = map[string]string{"app.kubernetes.io/name": "w"} },
			[]string{"metadata.labels.app: web -> (none)", "metadata.labels[app.kubernetes.io/name]: (none) -> w"}},
		{"delete", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.ResourceVersion = &at, &grace, "7"
		}, []string{"metadata.deletionGracePeriodSeconds: (none) -> 30", "metadata.deletionTimestamp: (none) -> 2026-01-02T03:04:05Z"}},
		{"status", func(p *corev1.Pod) {
			p.Status.Phase = "Running"
			p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = "True", at
			p.Status.ContainerStatuses[0].Ready = true
			p.Status.ContainerStatuses[0].ContainerID = "x"
		}, []string{"status.phase: Pending -> Running", `status.containerStatuses[web].containerID: (none) -> x`,
			"status.containerStatuses[web].ready: false -> true", "status.conditions[Ready].status: False -> True"}},
		{"only the resourceVersion", func(p *corev1.Pod) { p.ResourceVersion = "8" }, []string{"metadata.resourceVersion: (none) -> 8"}},
		{"long", func(p *corev1.Pod) { p.Status.Message = strings.Repeat("a", 100) }, []string{"status.message: (none) -> " + strings.Repeat("a", 37) + "..."}},
	} {
		var got []string
		for _, ch := range podChanges(samplePod(), samplePod(c.edit)) {
			got = append(got, ch.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSourcePrinter: one line for each pod, aligned; text from a server cannot
// talk to the terminal.
func TestSourcePrinter(t *testing.T) {
	t.Parallel()
	running := samplePod(func(p *corev1.Pod) {
		p.Status.Phase = "Running"
		p.Status.Reason = "\x1b[2J"
		p.Status.ContainerStatuses[0].ImageID = "i"
	})
	explained := running.DeepCopy()
	explained.Status.Message = "m"
	updated := explained.DeepCopy()
	updated.Spec.Containers[0].Image = "web:2"
	ending, grace := updated.DeepCopy(), int64(30)
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, &grace
	ending.Status.Reason = ""
	restarted := samplePod(func(p *corev1.Pod) {
		p.Status.Phase = "Running"
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "web", Ready: true, RestartCount: 3, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	})
	mirror := samplePod(func(p *corev1.Pod) {
		p.Name, p.UID, p.Annotations = "s-n", "2", map[string]string{corev1.MirrorPodAnnotationKey: "h"}
		p.DeletionTimestamp = &metav1.Time{}
	})
	updates := []podconfig.PodUpdate{
		{Op: podconfig.Add, Source: podconfig.FileSource, Initial: true},
		{Op: podconfig.Add, Source: podconfig.APIServerSource, Initial: true, Pods: []*corev1.Pod{samplePod(), mirror}},
		{Op: podconfig.Reconcile, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{running}},
		{Op: podconfig.Reconcile, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{explained}},
		{Op: podconfig.Update, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{updated}},
		{Op: podconfig.Delete, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{ending}},
		{Op: podconfig.Remove, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{ending}},
		// The same name at once, and another source in between.
		{Op: podconfig.Add, Source: podconfig.FileSource, Pods: []*corev1.Pod{mirror}},
		{Op: podconfig.Add, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{restarted}},
		{Op: podconfig.Remove, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{restarted}},
		{Op: podconfig.Remove, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{mirror}},
		{Op: podconfig.Add, Source: podconfig.APIServerSource, Pods: []*corev1.Pod{restarted}},
	}
	var table, lines bytes.Buffer
	asTable, asJSON := newSourcePrinter("table"), newSourcePrinter("json")
	for _, u := range updates {
		if err := asTable.print(&table, u); err != nil {
			t.Fatal(err)
		}
		if err := asJSON.print(&lines, u); err != nil {
			t.Fatal(err)
		}
	}
	want := `OP          SOURCE   NAMESPACE     NAME                             CHANGE
ADD         file     -             -                                no pods, initial
ADD         api      default       web                              0/2 Pending, initial
ADD         api      default       s-n                              0/2 Terminating, initial, mirror
RECONCILE   api      default       web                              0/2 Pending -> 0/2 ^[[2J
RECONCILE   api      default       web                              status.message: (none) -> m
UPDATE      api      default       web                              spec.containers[web].image: web:1 -> web:2
DELETE      api      default       web                              0/2 Terminating, grace 30 s
REMOVE      api      default       web                              0/2 Terminating
ADD         file     default       s-n                              0/2 Terminating
ADD         api      default       web                              1/2 Running, restarts 3, spec.containers[web].image: web:2 -> web:1
REMOVE      api      default       web                              1/2 Running, restarts 3
REMOVE      api      default       s-n                              0/2 Terminating, mirror
ADD         api      default       web                              1/2 Running, restarts 3
`
	if table.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", table.String(), want)
	}
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != 13 || got[0] != `{"op":"ADD","source":"file","initial":true}` ||
		!strings.HasPrefix(got[3], `{"op":"RECONCILE","source":"api","changed":[{"path":"status.phase","old":"Pending","new":"Running"},`) ||
		!strings.Contains(got[7], `{"op":"REMOVE","source":"api","pod":{`) ||
		!strings.HasPrefix(got[9], `{"op":"ADD","source":"api","replaces":"1","changed":[{"path":"spec.containers[web].image","old":"web:2","new":"web:1"}],"pod":{`) {
		t.Errorf("json:\n%s", lines.String())
	}
}

// twoOfOneName is a source whose first pod has a UID that talks to terminals.
type twoOfOneName struct{}

func (twoOfOneName) Source() podconfig.Source       { return podconfig.HTTPSource }
func (twoOfOneName) Status() podconfig.SourceStatus { return podconfig.SourceStatus{} }
func (twoOfOneName) Run(ctx context.Context, tell func(podconfig.Change)) error {
	hostile := samplePod(func(p *corev1.Pod) { p.UID = "\x1b[31m1\n" })
	tell(podconfig.Change{Full: true, Initial: true, Pods: []*corev1.Pod{hostile, samplePod()}})
	<-ctx.Done()
	return nil
}

// TestSourcesState: the state names what is refused and why; text from a source cannot talk to the terminal.
func TestSourcesState(t *testing.T) {
	config, err := podconfig.New(podconfig.Config{Sources: []podconfig.Producer{twoOfOneName{}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- config.Run(ctx) }()
	<-config.Updates()
	var out bytes.Buffer
	w := &sourcesWatch{options: &sourcesOptions{node: "n1"}, terminal: &terminal{w: &out}, config: config}
	w.printState()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := out.String(); !strings.Contains(got, "refused: default/web: the source has another pod of this name") || strings.ContainsRune(got, '\x1b') {
		t.Errorf("the state is %q", got)
	}
}
