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
	env    []string // "key: value" lines, as they are, each once
	loads  []string // of the machine when each run began
	procs  string   // GOMAXPROCS
	runs   int
	order  []key // as first seen
	values map[key]map[string][]float64
}

// key is one row: BenchmarkWatch/link=http1/encoding=json/impl=nodewatch has the
// bench Watch, the config link=http1/encoding=json and the impl nodewatch.
type key struct{ bench, config, impl string }

// label returns a part of the config, "" if it has none of that name.
func (k key) label(name string) string {
	for _, part := range strings.Split(k.config, "/") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

// of returns the same row of another implementation.
func (k key) of(impl string) key { return key{k.bench, k.config, impl} }

var (
	benchName = regexp.MustCompile(`^Benchmark(\w+)/(\S+?)(?:-(\d+))?$`)
	envLine   = regexp.MustCompile(`^([a-z][a-z-]*): \S`)
)

// parse reads the output of one or more runs. Values of one benchmark are
// collected by unit.
func parse(in io.Reader) (*results, error) {
	res := &results{values: make(map[key]map[string][]float64)}
	sc := bufio.NewScanner(in)
	for sc.Scan() {
		if err := res.line(sc.Text()); err != nil {
			return nil, err
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if len(res.order) == 0 {
		return nil, errors.New("no benchmark of package bench in the input")
	}
	for _, v := range res.values {
		for _, all := range v {
			res.runs = max(res.runs, len(all))
		}
	}
	return res, nil
}

func (res *results) line(line string) error {
	if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
		return errors.New("the output is of a run that failed")
	}
	if m := envLine.FindStringSubmatch(line); m != nil {
		return res.environment(m[1], line)
	}
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 {
		return nil
	}
	m := benchName.FindStringSubmatch(fields[0])
	if m == nil {
		return nil
	}
	if m[3] == "" {
		m[3] = "1" // go test leaves out the suffix for one CPU
	}
	if res.procs != "" && res.procs != m[3] {
		return fmt.Errorf("runs with GOMAXPROCS %s and %s are mixed", res.procs, m[3])
	}
	res.procs = m[3]
	k := key{bench: m[1]}
	var config []string
	for _, part := range strings.Split(m[2], "/") {
		if impl, ok := strings.CutPrefix(part, "impl="); ok {
			k.impl = impl
		} else {
			config = append(config, part)
		}
	}
	if k.impl == "" {
		return nil // not of package bench
	}
	k.config = strings.Join(config, "/")
	if res.values[k] == nil {
		res.order = append(res.order, k)
		res.values[k] = make(map[string][]float64)
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		res.values[k][fields[i+1]] = append(res.values[k][fields[i+1]], v)
	}
	return nil
}

// environment keeps a line about the machine or the versions. Two that differ are of two machines.
func (res *results) environment(name, line string) error {
	switch {
	case name == "load":
		res.loads = append(res.loads, strings.TrimPrefix(line, "load: "))
		return nil
	case name == "pkg" || slices.Contains(res.env, line):
		return nil
	}
	for _, other := range res.env {
		if strings.HasPrefix(other, name+": ") {
			return fmt.Errorf("runs of several machines or versions are mixed: %q and %q", other, line)
		}
	}
	res.env = append(res.env, line)
	return nil
}

// busy tells whether more was running before some run than the processors can do.
func (res *results) busy() bool {
	procs, err := strconv.ParseFloat(res.procs, 64)
	return err == nil && slices.ContainsFunc(res.loads, func(load string) bool {
		minute, _, _ := strings.Cut(load, ",")
		v, err := strconv.ParseFloat(minute, 64)
		return err == nil && v > 0.75*procs
	})
}

// stat makes one number of the runs of a row.
type stat func([]float64) float64

// value is the stat of a unit of a row; ok is false where it was not measured.
func (res *results) value(k key, unit string, of stat) (v float64, ok bool) {
	all := res.values[k][unit]
	if len(all) == 0 {
		return 0, false
	}
	return of(all), true
}

// median of at least one value.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// least is the run that other work on the machine disturbed least.
func least(v []float64) float64 { return slices.Min(v) }
