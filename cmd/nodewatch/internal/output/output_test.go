package output

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// newPod returns a pod as a list has it: without kind and apiVersion.
func newPod(namespace, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "7", UID: "u-1",
			Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(now.Add(-90 * time.Minute))},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "nginx <&>"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func events() []Event {
	return []Event{
		{Type: watch.Added, Pod: newPod("default", "a")},
		{Type: watch.Added, Pod: newPod("kube-system", "coredns-76f75df574-x2x9k", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending; p.Status.ContainerStatuses = nil })},
		{Type: watch.Modified, Pod: newPod("default", "a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })},
		{Type: watch.Deleted, Pod: newPod("default", "a")},
		{Type: watch.Deleted, Pod: newPod("default", "lost"), FinalStateUnknown: true},
	}
}

func printer(t *testing.T, o Options) Printer {
	t.Helper()
	o.Now = func() time.Time { return now }
	p, err := New(o)
	if err != nil {
		t.Fatalf("New(%+v): %v", o, err)
	}
	return p
}

func TestGolden(t *testing.T) {
	for name, o := range map[string]Options{
		"table":                 {Format: "table", EventColumn: true, NamespaceColumn: true},
		"table-one-namespace":   {Format: "table", EventColumn: true},
		"table-once":            {Format: "table", NamespaceColumn: true},
		"wide":                  {Format: "wide", EventColumn: true, NamespaceColumn: true},
		"json":                  {Format: "json"},
		"json-events":           {Format: "json", WatchEvents: true},
		"yaml":                  {Format: "yaml"},
		"yaml-events":           {Format: "yaml", WatchEvents: true},
		"name":                  {Format: "name"},
		"name-events":           {Format: "name", WatchEvents: true},
		"jsonpath":              {Format: `jsonpath={.kind} {.metadata.name} {.status.podIPs[*].ip}{"\n"}`},
		"jsonpath-events":       {Format: `jsonpath={.type} {.object.metadata.name} {.finalStateUnknown}{"\n"}`, WatchEvents: true},
		"go-template":           {Format: `go-template={{.metadata.name}} {{.spec.nodeName}}{{"\n"}}`},
		"custom-columns":        {Format: "custom-columns=NAME:.metadata.name,APP:metadata.labels.app,IPS:{.status.podIPs[*].ip},NONE:.spec.hostname"},
		"custom-columns-events": {Format: "custom-columns=WHAT:.type,NAME:.object.metadata.name", WatchEvents: true},
	} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := printer(t, o).Print(&buf, events()); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "golden", name+".txt")
			if *update {
				if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := buf.String(); got != string(want) {
				t.Errorf("output differs from %s (-update writes it anew)\n got:\n%s\nwant:\n%s", file, got, want)
			}
		})
	}
}

// TestOneByOne holds for formats without columns: batches are not to be seen.
func TestOneByOne(t *testing.T) {
	for _, o := range []Options{{Format: "json", WatchEvents: true}, {Format: "yaml"}, {Format: "name"}, {Format: "jsonpath={.metadata.name}"}} {
		var together, apart bytes.Buffer
		if err := printer(t, o).Print(&together, events()); err != nil {
			t.Fatal(err)
		}
		p := printer(t, o)
		for _, ev := range events() {
			if err := p.Print(&apart, []Event{ev}); err != nil {
				t.Fatal(err)
			}
		}
		if together.String() != apart.String() {
			t.Errorf("%s: one by one:\n%s\ntogether:\n%s", o.Format, apart.String(), together.String())
		}
	}
}

// TestColumnsStayAligned quotes the guarantee "Columns of a table only grow: a
// row is aligned with every row after the last one that was wider. The header is
// written once."
func TestColumnsStayAligned(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		return strings.Repeat(string([]rune("aé世")[random.IntN(3)]), 1+random.IntN(n))
	}
	for round := range 200 {
		g := grid{headers: []string{"A", "LONGER", "C"}}
		var starts [][]int // of the columns in each line
		var all bytes.Buffer
		for range 1 + random.IntN(20) {
			rows := make([][]string, random.IntN(4))
			for i := range rows {
				rows[i] = []string{word(12), word(12), word(12)}
			}
			var buf bytes.Buffer
			g.write(&buf, rows)
			all.Write(buf.Bytes())
			for _, line := range strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n") {
				if line != "" {
					starts = append(starts, columnStarts(line))
				}
			}
		}
		for i := 1; i < len(starts); i++ {
			for c := range starts[i] {
				if len(starts[i]) != 3 || starts[i][c] < starts[i-1][c] {
					t.Fatalf("round %d: line %d has its columns at %v, after a line with %v\n%s", round, i, starts[i], starts[i-1], all.String())
				}
			}
		}
		if n := strings.Count(all.String(), "LONGER"); len(starts) > 0 && n != 1 {
			t.Fatalf("round %d: %d headers\n%s", round, n, all.String())
		}
		// Once nothing longer comes, nothing moves.
		var buf bytes.Buffer
		g.write(&buf, [][]string{{"x", "y", "z"}, {strings.Repeat("x", g.width(0)), "y", "z"}})
		lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
		last := lines[len(lines)-2:]
		if a, b := columnStarts(last[0]), columnStarts(last[1]); a[1] != b[1] || a[2] != b[2] {
			t.Fatalf("round %d: rows that fit are not aligned: %v and %v", round, a, b)
		}
	}
}

// TestLongCell: "A cell of more than a hundred characters widens nothing", and is
// printed whole all the same.
func TestLongCell(t *testing.T) {
	g := grid{headers: []string{"A", "B"}}
	long := strings.Repeat("é", maxWidth+1)
	var buf bytes.Buffer
	g.write(&buf, [][]string{{"a", "b"}, {long, "b"}})
	g.write(&buf, [][]string{{strings.Repeat("x", maxWidth), "b"}})
	g.write(&buf, [][]string{{"a", "b"}})
	wide := strings.Repeat(" ", maxWidth-1)
	want := "A   B\na   b\n" + long + "   b\n" + strings.Repeat("x", maxWidth) + "   b\na" + wide + "   b\n"
	if got := buf.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func (g *grid) width(i int) int {
	if g.widths == nil {
		return 1
	}
	return g.widths[i]
}

// columnStarts returns where each cell begins, counted in characters; cells have no spaces.
func columnStarts(line string) []int {
	var starts []int
	inCell, at := false, 0
	for _, r := range line {
		if r != ' ' && !inCell {
			starts = append(starts, at)
		}
		inCell = r != ' '
		at++
	}
	return starts
}

// TestControlCharacters quotes "No control character of an object reaches a
// table: a name or a message cannot move the cursor, forge a row or break one."
func TestControlCharacters(t *testing.T) {
	evil := "a\nDELETED   default   b\r\t\x1b[2J\x00\u009b1m\u2028\xff"
	pod := newPod("de\x1bfault", evil, func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: evil}}}
	})
	for _, format := range []string{"table", "wide", "custom-columns=A:.metadata.name,B:.metadata.namespace"} {
		var buf bytes.Buffer
		if err := printer(t, Options{Format: format, EventColumn: true, NamespaceColumn: true}).Print(&buf, []Event{{Type: watch.Added, Pod: pod}}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(buf.String(), "\n"); n != 2 {
			t.Errorf("%s: %d lines instead of a header and a row: %q", format, n, buf.String())
		}
		for _, r := range buf.String() {
			if r != '\n' && r != utf8.RuneError && (r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028) {
				t.Errorf("%s: the character %U is in %q", format, r, buf.String())
			}
		}
	}
}

// TestSharedObjects: the pod of an event is only read.
func TestSharedObjects(t *testing.T) {
	for _, format := range []string{"table", "json", "yaml", "name", "jsonpath={.kind}", "custom-columns=K:.kind"} {
		pod := newPod("default", "a")
		before, _ := json.Marshal(pod)
		var buf bytes.Buffer
		if err := printer(t, Options{Format: format, WatchEvents: format == "json"}).Print(&buf, []Event{{Type: watch.Added, Pod: pod}}); err != nil {
			t.Fatal(err)
		}
		if after, _ := json.Marshal(pod); !bytes.Equal(before, after) {
			t.Errorf("%s changed the pod from %s to %s", format, before, after)
		}
	}
}

func TestJSONLines(t *testing.T) {
	var buf bytes.Buffer
	if err := printer(t, Options{Format: "json", WatchEvents: true}).Print(&buf, events()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	if len(lines) != len(events()) {
		t.Fatalf("%d lines for %d events", len(lines), len(events()))
	}
	for i, line := range lines {
		var got struct {
			Type   string
			Object corev1.Pod
			Final  *bool `json:"finalStateUnknown"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		want := events()[i]
		if got.Type != string(want.Type) || got.Object.Name != want.Pod.Name || got.Object.Kind != "Pod" || got.Object.APIVersion != "v1" {
			t.Errorf("line %d is %s %s/%s %s, the event was %s %s", i, got.Type, got.Object.APIVersion, got.Object.Kind, got.Object.Name, want.Type, want.Pod.Name)
		}
		if want.FinalStateUnknown != (got.Final != nil && *got.Final) || got.Final != nil && !*got.Final {
			t.Errorf("line %d: finalStateUnknown is %v, want it only where true", i, got.Final)
		}
	}
}

// TestFailedEvent quotes "an event that cannot be rendered leaves nothing of
// itself in the buffer", and the events before it are there.
func TestFailedEvent(t *testing.T) {
	p := printer(t, Options{Format: `go-template={{.metadata.name}} {{if eq .metadata.name "bad"}}{{index .metadata.labels 7}}{{end}};`})
	var buf bytes.Buffer
	err := p.Print(&buf, []Event{{Type: watch.Added, Pod: newPod("d", "good")}, {Type: watch.Added, Pod: newPod("d", "bad")}})
	if err == nil || !strings.Contains(err.Error(), "d/bad") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v, it should name the pod in one line", err)
	}
	if got := buf.String(); got != "good ;" {
		t.Errorf("the buffer holds %q", got)
	}
	for _, format := range []string{"json", "table", "custom-columns=A:.kind"} {
		buf.Reset()
		err := printer(t, Options{Format: format}).Print(&buf, []Event{{Pod: newPod("d", "good")}, {}})
		if err == nil || buf.Len() == 0 {
			t.Errorf("%s: an event without a pod: error %v, output %q", format, err, buf.String())
		}
	}
}

func TestBadFormats(t *testing.T) {
	for format, want := range map[string]string{
		"":                           "use one of: table, wide",
		"xml":                        "unknown output format",
		"table=x":                    "takes no argument",
		"jsonpath":                   "needs an argument",
		"jsonpath=":                  "needs an argument",
		"jsonpath={.a":               "unclosed action",
		"jsonpath-file=no/such/file": "no such file",
		"go-template={{":             "template",
		"custom-columns":             "needs an argument",
		"custom-columns=A":           "HEADER:PATH",
		"custom-columns=A:":          "HEADER:PATH",
		"custom-columns=A:{.x[":      "column A",
		"custom-columns-file=/":      "custom-columns-file",
	} {
		_, err := New(Options{Format: format})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-o %q: error is %v, want one with %q", format, err, want)
		}
	}
}

func TestCustomColumnsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "columns")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("NAME   NODE\n.metadata.name {.spec.nodeName}\n")
	var buf bytes.Buffer
	if err := printer(t, Options{Format: "custom-columns-file=" + file}).Print(&buf, []Event{{Pod: newPod("d", "a")}}); err != nil {
		t.Fatal(err)
	}
	if got, want := buf.String(), "NAME   NODE\na      node-1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	write("NAME NODE\n.metadata.name\n")
	if _, err := New(Options{Format: "custom-columns-file=" + file}); err == nil || !strings.Contains(err.Error(), "2 headers in its first line and 1 paths") {
		t.Errorf("error is %v", err)
	}
}

// FuzzFormat: no value of -o makes a panic, neither when it is read nor when it is used.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{"table", "jsonpath={.metadata.name}", "jsonpath={range .spec.containers[*]}{.name}{end}", "jsonpath={.a[-1:0:-1]}",
		"jsonpath={.spec.containers[?(@.name=='c')].image}", "jsonpath-as-json={..}", "custom-columns=A:.a,B:{.b[0]}", "custom-columns=A:..*", "go-template={{range .}}{{.}}{{end}}",
		"jsonpath={.metadata.labels['app']}", "jsonpath={.x[?(@.a>1)]}", "jsonpath={end}", "jsonpath={range .x}", "name", "yaml="} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, format string, watchEvents bool) {
		if strings.Contains(format, "-file") || strings.HasPrefix(format, "go-template") && len(format) > 200 {
			return // reads files of the machine, or may loop long by intention
		}
		p, err := New(Options{Format: format, WatchEvents: watchEvents})
		if err != nil {
			return
		}
		var buf bytes.Buffer
		if err := p.Print(&buf, events()[:1]); err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Errorf("an error without words for %q", format)
		}
	})
}
