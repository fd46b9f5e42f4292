package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// A golden is the record of one table: what kube-apiserver answered to each
// row. Both targets are compared with it; only the real one may rewrite it.
type golden struct {
	path string

	mu      sync.Mutex
	records map[string]string
	seen    map[string]bool
}

func openGolden(t *testing.T, table string) *golden {
	t.Helper()
	g := &golden{
		path:    filepath.Join("testdata", table+".txtar"),
		records: map[string]string{}, seen: map[string]bool{},
	}
	archive, err := txtar.ParseFile(g.path)
	if err != nil && !(*updateFlag && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	if archive != nil {
		for _, f := range archive.Files {
			g.records[f.Name] = string(f.Data)
		}
	}
	return g
}

// check compares a row's record with the golden one.
func (g *golden) check(t *testing.T, row, got string) {
	t.Helper()
	if !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[row] = true
	if *updateFlag && strings.Contains(t.Name(), "/real/") {
		g.records[row] = got
		return
	}
	if want, ok := g.records[row]; !ok {
		t.Errorf("%s has no record of this row; run the real target with -update", g.path)
	} else if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the answer differs from kube-apiserver's (- recorded, + now):\n%s", diff)
	}
}

// close is called when all rows that -run selected are through. all says that
// none was left out, so that records without a row can be told.
func (g *golden) close(t *testing.T, all bool) {
	t.Helper()
	for row := range g.records {
		if all && !g.seen[row] {
			if *updateFlag {
				delete(g.records, row)
			} else {
				t.Errorf("%s: record %q has no row", g.path, row)
			}
		}
	}
	if !*updateFlag || !strings.Contains(t.Name(), "/real/") {
		return
	}
	archive := &txtar.Archive{Comment: []byte("Answers of kube-apiserver, written by `go test -target=real -update`.\n\n")}
	for row, record := range g.records {
		archive.Files = append(archive.Files, txtar.File{Name: row, Data: []byte(record)})
	}
	slices.SortFunc(archive.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
	if err := os.MkdirAll(filepath.Dir(g.path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
