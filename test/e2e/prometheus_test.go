package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// TestPrometheusScrapes: promtool finds nothing to say about /metrics, and a
// real Prometheus scrapes it and answers queries of it.
func TestPrometheusScrapes(t *testing.T) {
	prometheus, promtool := tool(t, "prometheus", "prometheus"), tool(t, "promtool", "prometheus")
	onTargets(t, func(t *testing.T, tg target) {
		ctx, cancel := context.WithTimeout(t.Context(), convergence)
		defer cancel()
		w := newWorld(t, tg)
		for i := range 3 {
			w.create(ctx, t, "", newPod("default", fmt.Sprint("pod-", i), "node-a", nil))
		}
		metrics, query := loopback(t), loopback(t)
		start(t, nodewatch(t), "pods", "--kubeconfig", kubeconfig(t, tg, apiserver.Admin), "--node", "node-a",
			"-o", "json", "--metrics-addr", metrics)
		eventually(ctx, t, "readiness", func() error {
			_, err := fetch(ctx, "http://"+metrics+"/readyz")
			return err
		})
		page, err := fetch(ctx, "http://"+metrics+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		check := exec.CommandContext(ctx, promtool, "check", "metrics")
		check.Stdin = strings.NewReader(page)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}

		dir := t.TempDir()
		config := filepath.Join(dir, "prometheus.yml")
		text := fmt.Sprintf("scrape_configs:\n- job_name: nodewatch\n  scrape_interval: 1s\n  scrape_timeout: 1s\n"+
			"  static_configs:\n  - targets: [%q]\n", metrics)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		start(t, prometheus, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "tsdb"),
			"--web.listen-address", query)
		for expression, want := range map[string]string{
			`up{job="nodewatch"}`:                                      "1",
			`nodewatch_store_objects{resource="pods"}`:                 "3",
			`sum(nodewatch_events_total{resource="pods"}) >= bool 0`:   "1",
			`count(scrape_samples_scraped{job="nodewatch"} > 10) == 1`: "1",
		} {
			eventually(ctx, t, expression, func() error {
				body, err := fetch(ctx, "http://"+query+"/api/v1/query?query="+url.QueryEscape(expression))
				if err != nil {
					return err
				}
				var answer struct {
					Data struct {
						Result []struct{ Value [2]any }
					}
				}
				if err := json.Unmarshal([]byte(body), &answer); err != nil {
					return err
				}
				if len(answer.Data.Result) != 1 || answer.Data.Result[0].Value[1] != want {
					return fmt.Errorf("answered %s, want one value %s", body, want)
				}
				return nil
			})
		}
	})
}

// loopback returns an address on loopback that nobody listens on.
func loopback(t *testing.T) string {
	t.Helper()
	port, err := apiserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", port)
}

// eventually calls ok until it returns nil.
func eventually(ctx context.Context, t *testing.T, what string, ok func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// fetch gets a page; anything but 200 is an error.
func fetch(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", address, resp.Status, body)
	}
	return string(body), err
}
