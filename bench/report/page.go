package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	ours = "nodewatch"
	peer = "client-go"
)

// about says what a benchmark measures.
var about = map[string]string{
	"Decode": "Framing and decoding of a watch body in memory. `client-go` is its decoder with its StreamWatcher (goroutine and channel), `client-go-decoder` the decoder alone.",
	"Watch":  "A watch over HTTP/1.1 on loopback into the store: transport, framing, decoding, reflector, store. The server is in the same process and counts in every row.",
}

// page is the Markdown of the results.
func page(res *results, goVersion string) string {
	var b strings.Builder
	b.WriteString("# Benchmark results\n\n")
	b.WriteString("Written by `make bench` from one run on one machine; do not edit. Ratios inside a table can be compared, times of two machines or days cannot.\n\n")
	for _, line := range res.env {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	runs := 0
	for _, v := range res.values {
		runs = max(runs, len(v["ns/op"]))
	}
	fmt.Fprintf(&b, "- GOMAXPROCS: %s\n- Go: %s\n- runs: %d, alternating; medians, and the fastest in brackets\n", res.procs, goVersion, runs)
	b.WriteString("- input: the pods of bench/specimen, with 10,000 pods kept alive\n")

	var benches []string
	for _, k := range res.order {
		if !slices.Contains(benches, k.bench) {
			benches = append(benches, k.bench)
		}
	}
	for _, bench := range benches {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", bench, about[bench])
		b.WriteString("| encoding | | us/event | events/s | MB/s | B/event | allocs/event | speed against client-go | bytes against client-go |\n")
		b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
		for _, k := range res.order {
			if k.bench == bench {
				b.WriteString(row(res, k))
			}
		}
	}
	return b.String()
}

func row(res *results, k key) string {
	v := res.values[k]
	ns, bytes := median(v["ns/op"]), median(v["B/op"])
	other := res.values[key{k.bench, k.encoding, peer}]
	return fmt.Sprintf("| %s | %s | %.1f (%.1f) | %.0f | %.0f | %.0f | %.0f | %s | %s |\n",
		k.encoding, k.impl, ns/1e3, slices.Min(v["ns/op"])/1e3, 1e9/ns, median(v["MB/s"]), bytes, median(v["allocs/op"]),
		speed(k, v["ns/op"], other["ns/op"]), ratio(k, bytes, median(other["B/op"])))
}

// speed is how many times faster ours is: by the medians, and by the fastest
// runs, which other work on the machine disturbs least.
func speed(k key, own, other []float64) string {
	byMedian := ratio(k, median(other), median(own))
	if byMedian == "" {
		return ""
	}
	return byMedian + " (" + ratio(k, slices.Min(other), slices.Min(own)) + ")"
}

// ratio is only given for ours, against a peer that was measured too.
func ratio(k key, a, b float64) string {
	if k.impl != ours || a == 0 || b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2fx", a/b)
}

// median of the values, 0 for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
