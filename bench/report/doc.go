// Command report reads the output of the benchmarks of package bench, of one or
// more runs, and writes a page with medians, ratios to client-go and the table of what must
// hold. It invents nothing: what is not in the output is not on the page.
//
//	go -C bench/report run . -plots .. < bench/RESULTS.txt > RESULTS.md
//	go -C bench/report run . -page idle < idle.txt > RESULTS.md
//
// With -guard it writes no page but fails where a guard of guards.go is broken, or
// what it guards was not measured.
//
// It is a module of its own, so that the library does not require what draws plots.
package main
