package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPage: testdata/bench.txt is the output of three runs, cut short and with round numbers.
func TestPage(t *testing.T) {
	t.Parallel()
	in, err := os.Open("testdata/bench.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	want, err := os.ReadFile("testdata/RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(in, &out, "go1.26.8"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("page differs (-want +got):\n%s", diff)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	const line = "BenchmarkDecode/encoding=json/impl=nodewatch-2 100 20 ns/op\n"
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":          {"", "no benchmark"},
		"other benchmarks": {"BenchmarkOther-2 100 20 ns/op\n", "no benchmark"},
		"a failed run":     {line + "FAIL\n", "failed"},
		"a failed bench":   {line + "--- FAIL: BenchmarkWatch\n", "failed"},
		"two machines":     {"goos: linux\ngoarch: amd64\ncpu: A\ncpu: B\n" + line, "several machines"},
		"two GOMAXPROCS":   {line + strings.Replace(line, "-2", "-4", 1), "mixed"},
		"no number":        {strings.Replace(line, "20", "twenty", 1), "twenty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(strings.NewReader(tc.in), &out, "go")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
			if out.Len() != 0 {
				t.Errorf("a page was written all the same:\n%s", out.String())
			}
		})
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   []float64
		want float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3},
	} {
		if got := median(tc.in); got != tc.want {
			t.Errorf("median(%v) = %v, want %v", tc.in, got, tc.want)
		}
	}
}
