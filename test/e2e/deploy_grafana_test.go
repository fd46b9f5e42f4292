package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what this test reads of Grafana's model.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
			AllValue   string
		}
	}
	Panels []struct {
		Title, Description, Type string
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ Expr string }
	}
}

// TestDashboard: a real Prometheus that has scraped a demo answers each query of
// deploy/grafana/nodewatch.json, those of its variables too, and has something to show for each: what is
// not there in a demo that is well, such as faults, is shown as 0.
func TestDashboard(t *testing.T) {
	prometheus, demo := tool(t, "prometheus", "prometheus"), nodewatch(t)
	text, err := os.ReadFile("../../deploy/grafana/nodewatch.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	checkLayout(t, d)

	ctx, cancel := context.WithTimeout(t.Context(), convergence)
	defer cancel()
	metrics, query := loopback(t), loopback(t)
	start(t, demo, "pods", "--demo", "-o", "name", "--metrics-addr", metrics)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf("scrape_configs:\n- job_name: nodewatch\n  scrape_interval: 1s\n  scrape_timeout: 1s\n"+
		"  static_configs:\n  - targets: [%q]\n", metrics))
	start(t, prometheus, "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "tsdb"), "--web.listen-address", query)
	base := "http://" + query

	variables := map[string]string{"__rate_interval": "10s"}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		variables[v.Name] = v.AllValue
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		// The form of Grafana's own function.
		m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(q.Query)
		if m == nil {
			t.Fatalf("variable %s: this test does not know the query %q", v.Name, q.Query)
		}
		eventually(ctx, t, "variable "+v.Name, func() error {
			names, err := labelValues(ctx, base, expandQuery(m[1], variables), m[2])
			if err == nil && len(names) == 0 {
				err = errors.New("no value")
			}
			return err
		})
	}
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			expression := expandQuery(target.Expr, variables)
			what := fmt.Sprintf("panel %q, query %d: %s", p.Title, i, expression)
			if strings.Contains(expression, "$") {
				t.Errorf("%s: a variable that is not there", what)
				continue
			}
			eventually(ctx, t, what, func() error {
				n, err := resultsOf(ctx, base, expression)
				if err == nil && n == 0 {
					err = errors.New("no data")
				}
				return err
			})
		}
	}
	// For who adds a metric.
	page, err := fetch(ctx, "http://"+metrics+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var unseen []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (nodewatch_\S+)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(string(text), m[1]) {
			unseen = append(unseen, m[1])
		}
	}
	t.Logf("metrics on no panel: %q", unseen)
}

// checkLayout: each panel has a title, a description and a unit, and no two are in one place.
func checkLayout(t *testing.T, d dashboard) {
	t.Helper()
	taken := map[[2]int]string{}
	var titles []string
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no title, description, unit or query", p.Title)
		}
		if slices.Contains(titles, p.Title) {
			t.Errorf("two panels are called %q", p.Title)
		}
		titles = append(titles, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok || at[0] >= 24 {
					t.Errorf("panel %q is over %q, or over the edge, at %v", p.Title, other, at)
					return
				}
				taken[at] = p.Title
			}
		}
	}
	if len(titles) < 10 {
		t.Errorf("only %d panels", len(titles))
	}
}

// expandQuery replaces Grafana's variables.
func expandQuery(q string, variables map[string]string) string {
	for name, value := range variables {
		q = strings.ReplaceAll(q, "$"+name, value)
	}
	return q
}

// resultsOf is how many series a query has now that have a number.
func resultsOf(ctx context.Context, base, expression string) (n int, err error) {
	body, err := fetch(ctx, base+"/api/v1/query?query="+url.QueryEscape(expression))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return 0, err
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			n++
		}
	}
	return n, nil
}

// labelValues are those of a label in the series that match.
func labelValues(ctx context.Context, base, match, label string) ([]string, error) {
	body, err := fetch(ctx, base+"/api/v1/label/"+label+"/values?match[]="+url.QueryEscape(match))
	if err != nil {
		return nil, err
	}
	var answer struct{ Data []string }
	return answer.Data, json.Unmarshal([]byte(body), &answer)
}
