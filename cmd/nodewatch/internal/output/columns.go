package output

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// customColumns is kubectl's -o custom-columns with columns that grow. It is
// written here because kubectl's own lives in a module that brings a hundred others.
type customColumns struct {
	grid        grid
	paths       []*jsonpath.JSONPath
	watchEvents bool
}

// newCustomColumns reads HEADER:PATH,HEADER:PATH, or a file that has the
// headers in its first line and the paths in its second.
func newCustomColumns(name, arg string, watchEvents bool) (p Printer, err error) {
	defer recovered(&err)
	var headers, paths []string
	if name == "custom-columns-file" {
		headers, paths, err = columnsFile(arg)
		if err != nil {
			return nil, err
		}
	} else {
		for _, column := range strings.Split(arg, ",") {
			header, path, ok := strings.Cut(column, ":")
			if !ok || header == "" || path == "" {
				return nil, fmt.Errorf("custom-columns: %q is not HEADER:PATH, as in NAME:.metadata.name", column)
			}
			headers, paths = append(headers, header), append(paths, path)
		}
	}
	c := &customColumns{grid: grid{headers: headers}, watchEvents: watchEvents}
	for i, path := range paths {
		j := jsonpath.New(headers[i]).AllowMissingKeys(true)
		if err := j.Parse(expression(path)); err != nil {
			return nil, fmt.Errorf("custom-columns: the path %q of column %s: %w", path, headers[i], err)
		}
		c.paths = append(c.paths, j)
	}
	return c, nil
}

func columnsFile(file string) (headers, paths []string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("custom-columns-file: %w", err)
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	second, _, _ := strings.Cut(rest, "\n")
	headers, paths = strings.Fields(first), strings.Fields(second)
	if len(headers) == 0 || len(headers) != len(paths) {
		return nil, nil, fmt.Errorf("custom-columns-file: %s has %d headers in its first line and %d paths in its second; there must be one path for each header",
			file, len(headers), len(paths))
	}
	return headers, paths, nil
}

// expression completes a path as kubectl does: metadata.name, .metadata.name
// and {metadata.name} all mean {.metadata.name}.
func expression(path string) string {
	inner := path
	if strings.HasPrefix(path, "{") && strings.HasSuffix(path, "}") {
		inner = path[1 : len(path)-1]
	}
	return "{." + strings.TrimPrefix(inner, ".") + "}"
}

func (c *customColumns) Print(buf *bytes.Buffer, events []Event) error {
	rows := make([][]string, 0, len(events))
	// Rows before one that fails are written, as the interface says.
	defer func() { c.grid.write(buf, rows) }()
	for _, ev := range events {
		if ev.Pod == nil {
			return errNoPod
		}
		row, err := c.row(ev)
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", ev.Pod.Namespace, ev.Pod.Name, err)
		}
		rows = append(rows, row)
	}
	return nil
}

func (c *customColumns) row(ev Event) (row []string, err error) {
	defer recovered(&err)
	t, err := tree(ev, c.watchEvents)
	if err != nil {
		return nil, err
	}
	for i, path := range c.paths {
		results, err := path.FindResults(t)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.grid.headers[i], err)
		}
		var values []string
		for _, result := range results {
			for _, v := range result {
				values = append(values, fmt.Sprint(v.Interface()))
			}
		}
		if len(values) == 0 {
			values = []string{"<none>"}
		}
		row = append(row, strings.Join(values, ","))
	}
	return row, nil
}
