package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md and the expected exposition")

const (
	docPath   = "../../docs/metrics.md"
	rulesPath = "../../deploy/alerts/nodewatch.rules.yml"
	begin     = "<!-- begin table -->\n"
	end       = "<!-- end table -->\n"
)

// docTable is the table that docs/metrics.md must have, made of what is collected.
func docTable(t *testing.T) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newCollector(&fakeRegistry{sources: []reflector.Source{fullSource()}}))
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| metric | type | more labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range families { // in this order, which Gather does not keep
		i := slices.IndexFunc(gathered, func(mf *dto.MetricFamily) bool { return mf.GetName() == f.name })
		if i < 0 {
			t.Fatalf("%s is described and not collected", f.name)
		}
		extra := ""
		for _, l := range gathered[i].GetMetric()[0].GetLabel() {
			if n := l.GetName(); n != "resource" && n != "reflector" {
				extra = "`" + n + "`"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, strings.ToLower(gathered[i].GetType().String()), extra, gathered[i].GetHelp())
	}
	return b.String()
}

// TestDocs: docs/metrics.md lists each metric, with type, labels and meaning
// as they are collected. After a change run this test with -update.
func TestDocs(t *testing.T) {
	raw, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(raw), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table between %q and %q", docPath, begin, end)
	}
	want := docTable(t)
	if *update {
		if err := os.WriteFile(docPath, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("the table of %s is out of date (run with -update)\nhave:\n%s\nwant:\n%s", docPath, have, want)
	}
}

// TestDocsWords: what docs/metrics.md says about labels names every word of the closed sets.
func TestDocsWords(t *testing.T) {
	t.Parallel()
	doc := read(t, docPath)
	words := slices.Concat(reflector.Outcomes(), reflector.EventTypes(), reflector.Causes(), reflector.Policies())
	for _, s := range states {
		words = append(words, string(s))
	}
	for _, r := range reason.All() {
		words = append(words, string(r))
	}
	for _, w := range words {
		if !strings.Contains(doc, "`"+w+"`") {
			t.Errorf("%s does not say what `%s` is", docPath, w)
		}
	}
}

// TestAlertsKnowTheirMetrics: a metric that is renamed must not leave a dead alert.
func TestAlertsKnowTheirMetrics(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, f := range families {
		known[f.name] = true
	}
	rules := read(t, rulesPath)
	names := regexp.MustCompile(`\bnodewatch_[a-z_]+`).FindAllString(rules, -1)
	if len(names) < 10 {
		t.Fatalf("only %d names of metrics in %s", len(names), rulesPath)
	}
	for _, n := range names {
		if !known[n] {
			t.Errorf("%s uses %s, which is not a metric", rulesPath, n)
		}
	}
	selected := regexp.MustCompile(`reason=~?"([a-z_|]+)"`).FindAllStringSubmatch(rules, -1)
	if len(selected) == 0 {
		t.Fatalf("no reason in %s", rulesPath)
	}
	for _, m := range selected {
		for _, r := range strings.Split(m[1], "|") {
			if !slices.ContainsFunc(reason.All(), func(k reason.Reason) bool { return string(k) == r }) {
				t.Errorf("%s selects the reason %q, which is not in the closed set", rulesPath, r)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
