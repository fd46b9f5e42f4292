package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// rowTimeout bounds one row. None takes more than the few seconds that a
// server waits for a resourceVersion of the future.
const rowTimeout = 30 * time.Second

// runTable records each row's answer on a target and compares it with the
// golden record. Rows run in parallel: they must not see each other's writes.
func runTable[R any](t *testing.T, table string, rows map[string]R, record func(context.Context, *testing.T, R) string) {
	g := openGolden(t, table)
	t.Run("rows", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), rowTimeout)
				defer cancel()
				g.check(t, name, record(ctx, t, rows[name]))
			})
		}
	})
	g.close(t, len(g.seen) == len(rows))
}

// TestSemantics compares what a server says with what kube-apiserver said.
func TestSemantics(t *testing.T) {
	onTargets(t, func(t *testing.T, tg target) {
		w := smallCluster(t.Context(), t, tg)
		w.settle(t.Context(), t)
		w.takePage(t)
		probes := func(table string, rows map[string]probe) {
			t.Run(table, func(t *testing.T) {
				phase("%s: %d rows", t.Name(), len(rows))
				runTable(t, table, rows, func(ctx context.Context, t *testing.T, p probe) string {
					return p.record(ctx, t, w)
				})
			})
		}
		probes("list", listRows())
		probes("media", mediaRows())
		probes("errors", errorRows())
		t.Run("writes", func(t *testing.T) { writesTable(t, w) })
		t.Run("watch", func(t *testing.T) { watchTable(t, w) })
		t.Run("bookmark", func(t *testing.T) { bookmarkTable(t, w) })

		// What follows asks for the past after it was dropped.
		w.expire(t)
		probes("expired", expiredRows())
		t.Run("watch-expired", func(t *testing.T) { expiredWatchTable(t, w) })
	})
}

// takePage lists the first page of pods and names its token.
func (w *world) takePage(t *testing.T) {
	t.Helper()
	resp, err := probe{path: "/api/v1/pods?limit=3"}.open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	list, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	token, _ := list["metadata"].(map[string]any)["continue"].(string)
	if token == "" {
		t.Fatalf("a page of 3 has no continue token: %s", raw)
	}
	w.values["token"] = token
}

// expire moves on and drops the history. The real server answers of the past
// from its watch cache too; a restart empties that.
func (w *world) expire(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	w.relabel(ctx, t, "default", "beta", map[string]string{"app": "db", "tier": "moved"})
	if err := w.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	w.mark("after", w.relabel(ctx, t, "default", "beta", map[string]string{"app": "db", "tier": "last"}).ResourceVersion)
	w.settle(ctx, t)
}

// cross returns name and query of each combination of the parameters' values;
// a value of "-" leaves the parameter out.
func cross(params ...[]string) map[string]string {
	out := map[string]string{"": ""}
	for _, param := range params {
		next := map[string]string{}
		for name, query := range out {
			for _, value := range param[1:] {
				n := strings.TrimPrefix(name+","+shorts[param[0]]+"="+value, ",")
				q := query
				if value != "-" {
					q += "&" + param[0] + "=" + value
				}
				next[n] = q
			}
		}
		out = next
	}
	return out
}

// shorts are what the parameters are called in the names of rows.
var shorts = map[string]string{
	"resourceVersion": "rv", "resourceVersionMatch": "match", "limit": "limit",
	"sendInitialEvents": "initial", "allowWatchBookmarks": "bookmarks", "watch": "watch",
}

// readEvents reads events until stop says so or the stream ends, and says how
// it ended.
func readEvents(next func() (event, error), stop func(event) bool) (events []event, end string) {
	for {
		e, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return events, "END"
		case err != nil:
			return events, fmt.Sprintf("broken: %v", err)
		}
		if stop(e) {
			return events, "open"
		}
		events = append(events, e)
	}
}
