package output

import (
	"bytes"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nodewatch-go/nodewatch/internal/podtable"
)

// table is kubectl's pod table with a column for what happened.
type table struct {
	grid             grid
	cells            int // how many of podtable's cells are shown
	event, namespace bool
	now              func() time.Time
}

func newTable(o Options, wide bool) *table {
	t := &table{event: o.EventColumn, namespace: o.NamespaceColumn, now: o.Now}
	if t.event {
		t.grid.headers = append(t.grid.headers, "EVENT")
	}
	if t.namespace {
		t.grid.headers = append(t.grid.headers, "NAMESPACE")
	}
	for _, c := range podtable.Columns() {
		// The narrow columns come first; the order is the server's.
		if c.Priority > 0 && !wide {
			break
		}
		t.grid.headers = append(t.grid.headers, strings.ToUpper(c.Name))
		t.cells++
	}
	if t.event {
		// Words that every longer watch brings: with room for them from the
		// start, most tables never have to grow there.
		t.grid.least = map[string]int{"EVENT": len("MODIFIED"), "STATUS": len("ContainerCreating")}
	}
	return t
}

func (t *table) Print(buf *bytes.Buffer, events []Event) error {
	now := t.now()
	rows := make([][]string, 0, len(events))
	for _, ev := range events {
		if ev.Pod == nil {
			t.grid.write(buf, rows)
			return errNoPod
		}
		row := make([]string, 0, len(t.grid.headers))
		if t.event {
			row = append(row, string(ev.Type))
		}
		if t.namespace {
			row = append(row, ev.Pod.Namespace)
		}
		rows = append(rows, append(row, podtable.Cells(ev.Pod, now)[:t.cells]...))
	}
	t.grid.write(buf, rows)
	return nil
}

// grid writes rows in columns that are as wide as the widest cell so far. What
// was written stays: a longer cell moves the rows from its own batch on.
type grid struct {
	headers []string
	widths  []int          // in characters; nil before the header was written
	least   map[string]int // by header: the width to begin with
}

const (
	// gap is the space between two columns, as kubectl has it.
	gap = 3
	// maxWidth is up to where a cell widens its column, in characters. A longer
	// one moves only its own row: some status reasons are whole sentences, and
	// the rows after it should not be blank for ever.
	maxWidth = 100
)

// write appends rows, and the header before the first of them.
func (g *grid) write(buf *bytes.Buffer, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	header := g.widths == nil
	if header {
		g.widths = make([]int, len(g.headers))
		g.fit(g.headers)
		for i, h := range g.headers {
			g.widths[i] = max(g.widths[i], g.least[h])
		}
	}
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		g.fit(row)
	}
	if header {
		g.line(buf, g.headers)
	}
	for _, row := range rows {
		g.line(buf, row)
	}
}

// fit widens the columns to hold row, within maxWidth.
func (g *grid) fit(row []string) {
	for i, cell := range row {
		if n := utf8.RuneCountInString(cell); n <= maxWidth {
			g.widths[i] = max(g.widths[i], n)
		}
	}
}

// line writes one row; the last cell is not padded.
func (g *grid) line(buf *bytes.Buffer, row []string) {
	for i, cell := range row {
		buf.WriteString(cell)
		if i == len(row)-1 {
			break
		}
		for range max(g.widths[i]-utf8.RuneCountInString(cell), 0) + gap {
			buf.WriteByte(' ')
		}
	}
	buf.WriteByte('\n')
}

// printable replaces what would break a row or talk to the terminal: control
// characters, line separators, and bytes that are no text.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\x1b':
			b.WriteString("^[")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// Grid is a table of the caller's own rows: columns that only grow, a header
// before the first row, no control characters.
type Grid struct{ grid grid }

// NewGrid returns a Grid with headers. least has the widths, in characters, with
// which some columns begin.
func NewGrid(least map[string]int, headers ...string) *Grid {
	return &Grid{grid{headers: headers, least: least}}
}

// Write appends rows to buf; it may change them.
func (g *Grid) Write(buf *bytes.Buffer, rows [][]string) { g.grid.write(buf, rows) }
