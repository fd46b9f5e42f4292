package main

import (
	"fmt"
	"slices"
	"strings"
)

// book is a page: what of the results stands on it beside the sections that were measured.
type book struct {
	title   string
	command string   // that writes it
	raw     string   // where the output of the benchmarks is kept; "" is nowhere
	notes   []string // of the list of circumstances
	about   string   // of the goals
	goals   []claim
}

// books are by the name that -page takes.
var books = map[string]book{
	"bench": {
		title:   "Benchmark results",
		command: "make bench",
		raw:     "RESULTS.txt",
		notes:   []string{"input: the pods and events of bench/specimen; managedFields are dropped by both sides where fields is `dropped`"},
		about:   "Against client-go in the same run, by the medians; 10,000 pods where nothing else is said.",
		goals:   goals,
	},
	"agent": {
		title:   "A minimal agent",
		command: "make bench-agent",
		about:   "Against the same program on client-go's informers; what is measured, and what the size is made of, stands in [doc.go](doc.go).",
		goals:   agentGoals,
	},
	"idle": {
		title:   "An idle watch",
		command: "make bench-idle",
		about: "What one of 1,000 watches of a node's pods costs in one process, against client-go's informers; how it is measured stands in [doc.go](doc.go). " +
			"With the defaults of client-go, nodewatch and kube-apiserver 1.37 a watch-list is compressed: that is the row tls-http1-gzip. Where nothing is compressed (tls-http1), half of what client-go's takes " +
			"is no more than a bare request of net/http whose body is read (`net-http` below): that goal leaves nothing for a client.",
		goals: idleGoals,
	},
}

// bookOf returns a book, or says which there are.
func bookOf(name string) (book, error) {
	b, ok := books[name]
	if !ok {
		var names []string
		for n := range books {
			names = append(names, n)
		}
		slices.Sort(names)
		return b, fmt.Errorf("there is no page %q: use one of %s", name, strings.Join(names, ", "))
	}
	return b, nil
}
