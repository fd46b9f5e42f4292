package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are what the output of go test -bench says.
type results struct {
	env    []string // goos, goarch and cpu lines, as they are
	procs  string   // GOMAXPROCS
	order  []key    // as first seen
	values map[key]map[string][]float64
}

// key is one benchmark, as package bench names them.
type key struct{ bench, encoding, impl string }

var name = regexp.MustCompile(`^Benchmark(\w+)/encoding=(\S+?)/impl=(\S+?)(?:-(\d+))?$`)

// parse reads the output of one or more runs. Values of one benchmark are
// collected by unit.
func parse(in io.Reader) (*results, error) {
	res := &results{values: make(map[key]map[string][]float64)}
	sc := bufio.NewScanner(in)
	for sc.Scan() {
		line := sc.Text()
		if word, _, _ := strings.Cut(line, ":"); word == "goos" || word == "goarch" || word == "cpu" {
			if !slices.Contains(res.env, line) {
				res.env = append(res.env, line)
			}
			continue
		}
		if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") {
			return nil, errors.New("the output is of a run that failed")
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields)%2 != 0 {
			continue
		}
		m := name.FindStringSubmatch(fields[0])
		if m == nil {
			continue
		}
		if m[4] == "" {
			m[4] = "1" // go test leaves out the suffix for one CPU
		}
		if res.procs != "" && res.procs != m[4] {
			return nil, fmt.Errorf("runs with GOMAXPROCS %s and %s are mixed", res.procs, m[4])
		}
		res.procs = m[4]
		k := key{m[1], m[2], m[3]}
		if res.values[k] == nil {
			res.order = append(res.order, k)
			res.values[k] = make(map[string][]float64)
		}
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			res.values[k][fields[i+1]] = append(res.values[k][fields[i+1]], v)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if len(res.env) > 3 {
		return nil, fmt.Errorf("runs of several machines are mixed: %q", res.env)
	}
	if len(res.order) == 0 {
		return nil, errors.New("no benchmark of package bench in the input")
	}
	return res, nil
}
