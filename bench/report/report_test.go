package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/RESULTS.md from what the program does now")

func example(t *testing.T) string {
	t.Helper()
	in, err := os.ReadFile("testdata/bench.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(in)
}

func parsed(t *testing.T, in string) *results {
	t.Helper()
	res, err := parse(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestPage: testdata/bench.txt is the output of three runs, cut short and with round numbers.
func TestPage(t *testing.T) {
	const golden = "testdata/RESULTS.md"
	var out strings.Builder
	if err := run(strings.NewReader(example(t)), &out, "bench", "", false); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("page differs (-want +got); -update writes it anew:\n%s", diff)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	const line = "BenchmarkDecode/encoding=json/impl=nodewatch-2 100 20 ns/op\n"
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":          {"", "no benchmark"},
		"other benchmarks": {"BenchmarkOther-2 100 20 ns/op\nBenchmarkOther/size=1-2 100 20 ns/op\n", "no benchmark"},
		"a failed run":     {line + "FAIL\n", "failed"},
		"a failed bench":   {line + "--- FAIL: BenchmarkWatch\n", "failed"},
		"a panic":          {line + "panic: nil\n", "failed"},
		"two machines":     {"goos: linux\ngoarch: amd64\ncpu: A\ncpu: B\n" + line, "several machines"},
		"two versions":     {"client-go: v1\n" + line + "client-go: v2\n", "several machines or versions"},
		"two GOMAXPROCS":   {line + strings.Replace(line, "-2", "-4", 1), "mixed"},
		"no number":        {strings.Replace(line, "20", "twenty", 1), "twenty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, guard := range []bool{false, true} {
				var out strings.Builder
				err := run(strings.NewReader(tc.in), &out, "bench", "", guard)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want one that says %q", err, tc.want)
				}
				if out.Len() != 0 {
					t.Errorf("something was written all the same:\n%s", out.String())
				}
			}
		})
	}
	if _, err := parse(failingReader{}); err == nil {
		t.Error("an input that cannot be read was accepted")
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestParse(t *testing.T) {
	t.Parallel()
	res := parsed(t, "BenchmarkLatency/encoding=json/impl=nodewatch/rate=100 1 5 ns/op 7 p99-ns\n"+
		"BenchmarkLatency/encoding=json/impl=nodewatch/rate=100 1 6 ns/op 9 p99-ns\nload: 1, 2, 3\n")
	k := key{"Latency", "encoding=json/rate=100", "nodewatch"}
	if diff := cmp.Diff(map[string][]float64{"ns/op": {5, 6}, "p99-ns": {7, 9}}, res.values[k]); diff != "" {
		t.Error(diff)
	}
	if res.procs != "1" || res.runs != 2 || len(res.loads) != 1 || k.label("rate") != "100" || k.label("pods") != "" {
		t.Errorf("procs %q, runs %d, loads %q", res.procs, res.runs, res.loads)
	}
}

// TestBusy: the page warns where other work took a processor's time.
func TestBusy(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]bool{"0.2, 9, 9": false, "1.6, 0, 0": true, "": false} {
		in := "BenchmarkDecode/encoding=json/impl=nodewatch-2 100 20 ns/op\n"
		if load != "" {
			in += "load: " + load + "\n"
		}
		if got := strings.Contains(page(parsed(t, in), books["bench"], false), "had other work"); got != want {
			t.Errorf("a load of %q: the page warns %v, want %v", load, got, want)
		}
	}
}

// TestClaims: each relation on both sides of its bound.
func TestClaims(t *testing.T) {
	t.Parallel()
	res := parsed(t, "BenchmarkX/a=1/impl=nodewatch 1 10 ns/op 3 allocs/op 0 handed\nBenchmarkX/a=1/impl=client-go 1 45 ns/op 30 allocs/op 9 handed\n"+
		"BenchmarkX/a=1/impl=nodewatch 1 20 ns/op\nBenchmarkX/a=1/impl=client-go 1 45 ns/op\nBenchmarkX/a=2/impl=nodewatch 1 10 ns/op\n")
	row := key{"X", "a=1", ours}
	for _, tc := range []struct {
		claim
		of    stat
		shown string
		word  string
	}{
		{claim{"", row, "ns/op", timesBetter, 3}, median, "3 times", "yes"},
		{claim{"", row, "ns/op", timesBetter, 3.01}, median, "3 times", "**no**"},
		{claim{"", row, "ns/op", timesBetter, 4.5}, least, "4.5 times", "yes"},
		{claim{"", row, "allocs/op", shareOf, 1.0 / 10}, median, "1/10", "yes"},
		{claim{"", row, "allocs/op", shareOf, 1.0 / 11}, median, "1/10", "**no**"},
		{claim{"", row, "handed", shareOf, 1.0 / 10}, median, "0", "yes"},
		{claim{"", row, "handed", timesBetter, 10}, median, "not measured", ""},
		{claim{"", row, "allocs/op", atMost, 3}, median, "3", "yes"},
		{claim{"", row, "allocs/op", atMost, 2.9}, median, "3", "**no**"},
		{claim{"", row, "B/op", atMost, 3}, median, "not measured", ""},
		{claim{"", key{"X", "a=2", ours}, "ns/op", timesBetter, 1}, median, "not measured", ""},
		{claim{"", key{"X", "a=3", ours}, "ns/op", shareOf, 1}, median, "not measured", ""},
	} {
		if v := tc.judge(res, tc.of); v.shown() != tc.shown || v.word() != tc.word {
			t.Errorf("%v %s %s: %s %q, want %s %q", tc.row, tc.unit, tc.goal(), v.shown(), v.word(), tc.shown, tc.word)
		}
	}
}

// TestGuards: a run that reaches the bounds passes; each guard fails when its figure is worse, and
// when it was not measured.
func TestGuards(t *testing.T) {
	t.Parallel()
	res := &results{values: make(map[key]map[string][]float64)}
	set := func(k key, unit string, v ...float64) {
		if res.values[k] == nil {
			res.values[k] = make(map[string][]float64)
		}
		res.values[k][unit] = v
	}
	for _, c := range guards {
		switch c.relation {
		case timesBetter:
			set(c.row, c.unit, 100, 900) // the best run counts
			set(c.row.of(peer), c.unit, 10_000)
		case shareOf:
			set(c.row, c.unit, 100)
			set(c.row.of(peer), c.unit, 10_000)
		case atMost:
			set(c.row, c.unit, c.bound)
		}
	}
	var out strings.Builder
	if err := check(res, guards, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, c := range guards {
		good := res.values[c.row][c.unit]
		for name, bad := range map[string][]float64{"worse": {max(20_000, 2*c.bound)}, "not measured": nil} {
			res.values[c.row][c.unit] = bad
			out.Reset()
			err := check(res, guards, &out)
			if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(out.String(), "BROKEN  "+c.what) {
				t.Errorf("%s, %s: %v\n%s", c.what, name, err, out.String())
			}
		}
		res.values[c.row][c.unit] = good
	}
}

// TestGuardsAndGoals: no claim is made twice, and each has a bound and words.
func TestGuardsAndGoals(t *testing.T) {
	t.Parallel()
	for _, claims := range [][]claim{guards, goals} {
		type about struct {
			row  key
			unit string
		}
		seen := make(map[about]bool)
		for _, c := range claims {
			if a := (about{c.row, c.unit}); seen[a] {
				t.Errorf("%v is claimed twice", a)
			} else {
				seen[a] = true
			}
			if c.what == "" || c.bound < 0 || c.bound == 0 && c.relation != atMost {
				t.Errorf("%+v has no words or no bound", c)
			}
		}
	}
	for _, c := range guards {
		if c.unit == "ns/op" {
			t.Errorf("the guard %q is about time that passes, which other work on the machine changes: use cpu-ns/op", c.what)
		}
	}
}

func TestMedianAndLeast(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in            []float64
		median, least float64
	}{
		{[]float64{3}, 3, 3}, {[]float64{9, 1}, 5, 1}, {[]float64{9, 1, 2}, 2, 1}, {[]float64{4, 1, 2, 9}, 3, 1},
	} {
		if m, l := median(tc.in), least(tc.in); m != tc.median || l != tc.least {
			t.Errorf("of %v: median %v and least %v, want %v and %v", tc.in, m, l, tc.median, tc.least)
		}
	}
}

// TestPlots: every plot of the page is a whole SVG with its title and all implementations, also
// where little or nothing was measured.
func TestPlots(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{"all": example(t), "little": "BenchmarkDecode/encoding=json/impl=nodewatch-2 100 20 ns/op\n"} {
		dir := t.TempDir()
		var out strings.Builder
		if err := run(strings.NewReader(in), &out, "bench", dir, false); err != nil {
			t.Fatal(name, err)
		}
		for _, p := range pictures {
			svg, err := os.ReadFile(filepath.Join(dir, p.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := xmlText(string(svg))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, p.file, err)
			}
			for _, want := range append([]string{p.title, p.axis}, p.impls...) {
				if !strings.Contains(text, want) {
					t.Errorf("%s, %s: does not say %q", name, p.file, want)
				}
			}
			if !strings.Contains(out.String(), "]("+p.file+")") {
				t.Errorf("%s: the page does not show %s", name, p.file)
			}
		}
	}
	if err := run(strings.NewReader(example(t)), io.Discard, "bench", filepath.Join(t.TempDir(), "missing"), false); err == nil {
		t.Error("plots were written to a folder that is not there")
	}
}

// TestPlotValues: bars are medians in the unit of the axis.
func TestPlotValues(t *testing.T) {
	t.Parallel()
	res := parsed(t, example(t))
	bars, low, high := pictures[1].values(res) // bytes a pod at rest
	for i, want := range []float64{3500, 5000, 0, 14900} {
		if bars[i][1] != want { // group 1 is protobuf
			t.Errorf("the bar of %s is %v, want %v", pictures[1].impls[i], bars[i][1], want)
		}
	}
	if low != 3500 || high != 14900 {
		t.Errorf("from %v to %v, want 3500 to 14900", low, high)
	}
}

// xmlText is the text of all elements.
func xmlText(doc string) (string, error) {
	var text strings.Builder
	for dec := xml.NewDecoder(strings.NewReader(doc)); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		if c, ok := tok.(xml.CharData); ok {
			text.Write(c)
			text.WriteByte('\n')
		}
	}
}
