package chaos

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A staleness is how long each client of a fleet was stale. One that did not see
// the marker for as long as anybody waited is never.
type staleness struct {
	took  []time.Duration
	never int
	limit time.Duration // how long they were waited for
}

// quantile returns the time below which the part q of all clients was stale.
func (s staleness) quantile(q float64) (d time.Duration, ok bool) {
	all := len(s.took) + s.never
	at := max(int(math.Ceil(q*float64(all)))-1, 0)
	if at >= len(s.took) {
		return s.limit, false
	}
	slices.Sort(s.took)
	return s.took[at], true
}

func (s staleness) text(q float64) string {
	d, ok := s.quantile(q)
	if !ok {
		return fmt.Sprintf("> %.0f", s.limit.Seconds())
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}

// tables are what a run measured: rows by title, in the order they came.
type tables struct {
	mu     sync.Mutex
	titles []string
	heads  map[string]string
	rows   map[string][]string
}

var results = &tables{heads: map[string]string{}, rows: map[string][]string{}}

// add adds a row and shows it. All rows of a title have the same columns.
func (t *tables) add(title string, columns []string, row ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.heads[title]; !ok {
		t.titles = append(t.titles, title)
		t.heads[title] = "| " + strings.Join(columns, " | ") + " |\n|" + strings.Repeat(" --- |", len(columns))
	}
	var cells, shown []string
	for i, cell := range row {
		cells = append(cells, fmt.Sprint(cell))
		shown = append(shown, fmt.Sprintf("%s=%v", columns[i], cell))
	}
	t.rows[title] = append(t.rows[title], "| "+strings.Join(cells, " | ")+" |")
	phase("%s", strings.Join(shown, ", "))
}

const resultsHead = `# Chaos: results of one run

Written by ` + "`go test ./chaos -chaos.long -chaos.results`" + `; every figure is from that run. See doc.go for
the vocabulary, and the tests for what is asserted.

`

// write writes all tables.
func (t *tables) write(path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	b.WriteString(resultsHead)
	fmt.Fprintf(&b, "Machine: %s, %s, %d CPUs, %s. Date: %s. kube-apiserver 1.37.2, client-go 0.37.2.\n",
		processor(), kernel(), runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format(time.DateOnly))
	for _, title := range t.titles {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n%s\n", title, t.heads[title], strings.Join(t.rows[title], "\n"))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return runtime.GOOS + " " + strings.TrimSpace(string(data))
}
