package main

import (
	"io"
	"strings"
	"testing"
)

// smallBench is the output of make bench-agent and make bench-idle, cut short.
const smallBench = `go: go1.26.8
client-go: v0.37.2
load: 0.10, 0.20, 0.30
BenchmarkAgent/impl=nodewatch-2 	 20	 10000000 ns/op	 8000000 cpu-ns/op	 14400000 size-B	 27000000 resident-B
BenchmarkAgent/impl=client-go-2 	 20	 20000000 ns/op	 16000000 cpu-ns/op	 28800000 size-B	 29000000 resident-B
BenchmarkIdle/link=tls-http1/impl=nodewatch-2 	 1	 1 ns/op	 4 goroutines	 44000 heap-B	 58000 inuse-B	 140000 resident-B	 22000 stack-B	 66000 total-B
BenchmarkIdle/link=tls-http1/impl=client-go-2 	 1	 1 ns/op	 10 goroutines	 68000 heap-B	 90000 inuse-B	 140000 resident-B	 52000 stack-B	 120000 total-B
BenchmarkIdle/link=tls-http1-gzip/impl=nodewatch-2 	 1	 1 ns/op	 4 goroutines	 42000 heap-B	 58000 inuse-B	 90000 resident-B	 22000 stack-B	 64000 total-B
BenchmarkIdle/link=tls-http1-gzip/impl=client-go-2 	 1	 1 ns/op	 10 goroutines	 110000 heap-B	 130000 inuse-B	 170000 resident-B	 50000 stack-B	 160000 total-B
PASS
`

// -page: each page has its title, command, goals and the sections that were measured; and not those of another.
func TestPages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ has, hasNot []string }{
		"agent": {
			[]string{
				"# A minimal agent\n", "Written by `make bench-agent` from", "- client-go: v0.37.2\n",
				"| size of the stripped binary | at most 1/1.67 | 1/2 | 1/2 |  | yes |\n",
				"| time from the start of the process to its first event | at least 1 times | 2 times | 2 times | 2 times | yes |\n",
				"## Agent\n", "| nodewatch | 14.4 | 2 (2) |",
			},
			[]string{"RESULTS.txt", "bench/specimen", "goroutines, TLS"},
		},
		"idle": {
			[]string{
				"# An idle watch\n", "Written by `make bench-idle` from",
				"| goroutines, TLS with HTTP/1.1, with a handler | at most 4 | 4 | 4 |  | yes |\n",
				"| heap and stack, watch-list compressed, as kube-apiserver does by default | at most 1/2 | 1/2.5 | 1/2.5 |  | yes |\n",
				"| heap and stack, nothing compressed | at most 1/2 | 1/1.82 | 1/1.82 |  | **no** |\n",
				"## Idle\n", "| tls-http1-gzip | nodewatch | 64 (64) | 2.5 (2.5) | 42 | 22 | 4 | 58 | 90 |\n",
			},
			[]string{"RESULTS.txt", "size of the stripped binary"},
		},
	} {
		var out strings.Builder
		if err := run(strings.NewReader(smallBench), &out, name, "", false); err != nil {
			t.Fatal(name, err)
		}
		for _, want := range tc.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: the page has no %q:\n%s", name, want, out.String())
			}
		}
		for _, not := range tc.hasNot {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: the page has %q", name, not)
			}
		}
	}
	err := run(strings.NewReader(smallBench), io.Discard, "herd", "", false)
	if err == nil || !strings.Contains(err.Error(), `no page "herd": use one of agent, bench, idle`) {
		t.Errorf("an unknown page: %v", err)
	}
}
