package main

import (
	"fmt"
	"strings"
)

// column is one of a table. show has the row's own value and "" where there is none.
type column struct {
	title string
	show  func(res *results, k key) string
}

// section is a table of the page.
type section struct {
	title, about string
	in           func(k key) bool
	labels       []string // of the config, before the implementation
	columns      []column
}

// in returns whether the rows of a bench belong to a section.
func inBench(bench string) func(key) bool { return func(k key) bool { return k.bench == bench } }

// plain shows a median divided by scale.
func plain(title, unit string, scale float64) column {
	return column{title, func(res *results, k key) string {
		v, ok := res.value(k, unit, median)
		if !ok {
			return ""
		}
		return number(v / scale)
	}}
}

// withLeast shows the median, and the least in brackets.
func withLeast(title, unit string, scale float64) column {
	return column{title, func(res *results, k key) string {
		m, ok := res.value(k, unit, median)
		if !ok {
			return ""
		}
		l, _ := res.value(k, unit, least)
		return number(m/scale) + " (" + number(l/scale) + ")"
	}}
}

// perSecond shows how many operations fit into a second.
func perSecond(title string) column {
	return column{title, func(res *results, k key) string {
		v, ok := res.value(k, "ns/op", median)
		if !ok || v == 0 {
			return ""
		}
		return number(1e9 / v)
	}}
}

// against shows client-go's median divided by the row's; in brackets that of the best runs.
func against(title, unit string) column {
	return column{title, func(res *results, k key) string {
		if !strings.HasPrefix(k.impl, ours) {
			return ""
		}
		c := claim{row: k, unit: unit}
		m, l := c.judge(res, median), c.judge(res, least)
		if !m.measured {
			return ""
		}
		return fmt.Sprintf("%s (%s)", number(m.figure), number(l.figure))
	}}
}

var sections = []section{
	{
		title: "Watch",
		about: "A watch over loopback into a store of 10,000 pods, over links other than http1 of 1,000: transport, framing, decoding, reflector, store. The server has a process of its own. " +
			"`discard` reads the same bytes and throws them away: what the transport and the server allow. cpu is the processor time of the client's process; " +
			"that of the server's is what no client can be faster than.",
		in:     inBench("Watch"),
		labels: []string{"link", "encoding", "fields"},
		columns: []column{
			withLeast("us/event", "ns/op", 1e3), perSecond("events/s"), withLeast("cpu us/event", "cpu-ns/op", 1e3), plain("B/event", "B/op", 1),
			plain("allocs/event", "allocs/op", 1), against("times faster than client-go", "ns/op"), against("by cpu", "cpu-ns/op"),
			plain("server's cpu us/event", "server-cpu-ns/op", 1e3),
		},
	},
	{
		title: "Decode",
		about: "Framing and decoding of a watch body in memory. `nodewatch` is what a reflector does: managedFields dropped, parts shared, what did not change taken from the version before. " +
			"`nodewatch-private` makes objects that are the caller's own, with all fields. `nodewatch-slim` decodes a struct of ten fields, as a reflector and (`-private`) as the caller's own. " +
			"`client-go` is its decoder with its StreamWatcher (goroutine and channel), `client-go-decoder` the decoder alone.",
		in:     inBench("Decode"),
		labels: []string{"encoding"},
		columns: []column{
			withLeast("us/event", "ns/op", 1e3), perSecond("events/s"), plain("MB/s", "MB/s", 1), withLeast("cpu us/event", "cpu-ns/op", 1e3), plain("B/event", "B/op", 1),
			plain("allocs/event", "allocs/op", 1), against("times faster than client-go", "ns/op"), against("by cpu", "cpu-ns/op"),
		},
	},
	{
		title: "List",
		about: "From the request to a full store, each in a process of its own; of 10,000 pods over http1 with fields dropped a run has five, and its figure is their median. The peak is the largest heap of samples a millisecond apart, with the collector as it is by default; " +
			"rest is the heap when nothing happens any more; GC is a full collection then. All above what the process had before.",
		in:     inBench("List"),
		labels: []string{"pods", "initial", "link", "encoding", "fields"},
		columns: []column{
			withLeast("ms", "ns/op", 1e6), against("times faster", "ns/op"), against("by cpu", "cpu-ns/op"), plain("wire MB", "wire-B", 1e6), plain("peak MiB", "peak-B", 1<<20), against("times less", "peak-B"),
			plain("allocs/pod", "allocs/pod", 1), plain("rest B/pod", "rest-B/pod", 1), plain("rest objects/pod", "rest-objects/pod", 1), plain("GC ms", "gc-ns", 1e6),
		},
	},
	{
		title: "Relist of unchanged pods",
		about: "The watch ends with 410, and the client lists again. Handed on are the objects that go to the store or to subscribers; allocations and processor time are those of the process. " +
			"peak/rest is the largest heap of a second relist over the heap at rest.",
		in:     inBench("List"),
		labels: []string{"pods", "encoding"},
		columns: []column{
			withLeast("cpu ms", "relist-cpu-ns", 1e6), against("times less", "relist-cpu-ns"), plain("allocs/pod", "relist-allocs/pod", 1),
			plain("handed on", "relist-handed", 1), plain("peak/rest", "relist-peak/rest", 1),
		},
	},
	{
		title: "Latency",
		about: "From the server's write to the handler, by the clock that both processes share, at so many events a second. client-go has an informer with a handler. " +
			"A client that cannot follow queues.",
		in:     inBench("Latency"),
		labels: []string{"encoding", "rate"},
		columns: []column{
			withLeast("p50 us", "p50-ns", 1e3), withLeast("p99 us", "p99-ns", 1e3),
		},
	},
	{
		title: "Agent",
		about: "The stripped binary, and one start of it up to the first line: time, processor time, the most memory.",
		in:    inBench("Agent"),
		columns: []column{
			plain("size MB", "size-B", 1e6), against("times smaller", "size-B"), withLeast("first event ms", "ns/op", 1e6), against("times sooner", "ns/op"),
			withLeast("cpu ms", "cpu-ns/op", 1e6), plain("resident MiB", "resident-B", 1<<20),
		},
	},
	{
		title: "Idle",
		about: "One watch: live heap and stacks after collections, the spans of the heap that are in use, what the kernel counts as resident. `net-http` is a bare request whose body is read. " +
			"Over HTTP/2 client-go's informers share connections, a nodewatch reflector has its own.",
		in:     inBench("Idle"),
		labels: []string{"link"},
		columns: []column{
			withLeast("heap and stack KB", "total-B", 1e3), against("times less", "total-B"), plain("heap KB", "heap-B", 1e3), plain("stack KB", "stack-B", 1e3),
			plain("goroutines", "goroutines", 1), plain("heap spans KB", "inuse-B", 1e3), plain("resident KB", "resident-B", 1e3),
		},
	},
}

// page is the Markdown of the results.
func page(res *results, of book, plots bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWritten by `%s` from one run on one machine; do not edit. Ratios inside a table can be compared, times of two machines or days cannot.", of.title, of.command)
	if of.raw != "" {
		fmt.Fprintf(&b, " The output of the benchmarks, for benchstat, is [%[1]s](%[1]s).", of.raw)
	}
	b.WriteString("\n\n")
	for _, line := range res.env {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintf(&b, "- GOMAXPROCS: %s, of the clients and of the server\n", res.procs)
	if len(res.loads) > 0 {
		fmt.Fprintf(&b, "- load average of the machine when each run began: %s\n", strings.Join(res.loads, "; "))
	}
	if res.busy() {
		b.WriteString("- **the machine had other work**: ratios of the time that passed are as good as that allows; those by processor time and all memory figures are better\n")
	}
	fmt.Fprintf(&b, "- runs: %d, alternating; medians, and the best in brackets\n", res.runs)
	for _, note := range of.notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}

	fmt.Fprintf(&b, "\n## Must hold\n\n%s\n\n%s", of.about, table(res, of.goals))
	if plots {
		for _, p := range pictures {
			fmt.Fprintf(&b, "\n![%s](%s)\n", p.title, p.file)
		}
	}
	for _, s := range sections {
		b.WriteString(s.markdown(res))
	}
	return b.String()
}

// markdown is the table, or nothing where no row of it was measured.
func (s section) markdown(res *results) string {
	var rows strings.Builder
	used := make([]bool, len(s.labels)) // a label that no row has is left out
	var keys []key
	for _, k := range res.order {
		if s.in(k) && s.columns[0].show(res, k) != "" {
			keys = append(keys, k)
			for i, l := range s.labels {
				used[i] = used[i] || k.label(l) != ""
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	cells := func(labels func(string) string, impl string, columns func(column) string) {
		rows.WriteString("|")
		for i, l := range s.labels {
			if used[i] {
				fmt.Fprintf(&rows, " %s |", labels(l))
			}
		}
		fmt.Fprintf(&rows, " %s |", impl)
		for _, c := range s.columns {
			fmt.Fprintf(&rows, " %s |", columns(c))
		}
		rows.WriteString("\n")
	}
	cells(func(l string) string { return l }, "", func(c column) string { return c.title })
	cells(func(string) string { return "---" }, "---", func(column) string { return "---:" })
	for _, k := range keys {
		cells(k.label, k.impl, func(c column) string { return c.show(res, k) })
	}
	return fmt.Sprintf("\n## %s\n\n%s\n\n%s", s.title, s.about, rows.String())
}
