package simulator

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var (
	seeds   = flag.Uint64("sim.seeds", 250, "how many seeds TestSeeds runs")
	from    = flag.Uint64("sim.from", 1, "the first of them")
	shrink  = flag.Bool("sim.shrink", true, "make the history of a failing seed smaller")
	verbose = flag.Bool("sim.v", false, "print the transcript of each run, also where nothing broke")
)

// play runs a schedule in a bubble of its own. A goroutine that is left in it
// makes the bubble panic.
func play(t *testing.T, s *Schedule, logged bool) (res *Result) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if res == nil {
			res = &Result{Schedule: s, Server: &transcript{}, Client: &transcript{}, Log: &transcript{}}
		}
		res.Server.fail(s.Stop, promiseStop, fmt.Sprint(p))
		res.Failure = res.Server.failure
	}()
	synctest.Test(t, func(*testing.T) { res = Run(s, logged) })
	return res
}

// TestSeeds: whatever happens, the promises are kept.
func TestSeeds(t *testing.T) {
	var next atomic.Uint64
	next.Store(*from)
	var mu sync.Mutex
	var failed *Result
	requests, checks, blind := 0, 0, 0
	t.Run("all", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for {
					seed := next.Add(1) - 1
					mu.Lock()
					stop := failed != nil || seed >= *from+*seeds
					mu.Unlock()
					if stop {
						return
					}
					res := play(t, NewSchedule(seed), *verbose)
					mu.Lock()
					requests, checks = requests+res.Requests, checks+res.Checks
					if res.Blind {
						blind++
					}
					if res.Failure != nil && (failed == nil || seed < failed.Schedule.Seed) {
						failed = res
					}
					if *verbose {
						t.Logf("seed %d\n%s\n%s", seed, describe(res.Schedule), res.Transcript())
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d requests, %d comparisons of the store, %d runs in which a history was replaced unseen", requests, checks, blind)
	if failed != nil {
		report(t, failed)
	}
}

// TestReproducible: "A seed reproduces a run exactly", whatever the scheduler
// of goroutines does.
func TestReproducible(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for seed := range uint64(50) {
		var first string
		for _, procs := range []int{1, 2, 4} {
			runtime.GOMAXPROCS(procs)
			told := play(t, NewSchedule(seed), true).Transcript()
			if first == "" {
				first = told
			}
			if told != first {
				t.Fatalf("seed %d on %d processors is another run:\n%s", seed, procs, firstDifference(first, told))
			}
		}
	}
}

// firstDifference shows two transcripts where they part.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n %s\n %s", i, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// report prints the smallest history that still fails, and fails the test.
func report(t *testing.T, res *Result) {
	t.Helper()
	if !*shrink {
		t.Errorf("seed %d breaks a promise: %v", res.Schedule.Seed, res.Failure)
		return
	}
	small, runs := Shrink(res.Schedule, res.Failure.Promise, func(s *Schedule) *Failure { return play(t, s, false).Failure }, 400)
	again := play(t, small, true)
	if again.Failure == nil {
		t.Errorf("seed %d failed once, and not again: %v", res.Schedule.Seed, res.Failure)
		return
	}
	t.Errorf("seed %d breaks a promise: %v\n\nreproduce: go test ./reflector/simulator -run TestSeeds -sim.seeds=1 -sim.from=%d\n\n"+
		"The smallest history of %d runs, which fails with: %v\n%s\nTranscript:\n%s",
		res.Schedule.Seed, res.Failure, res.Schedule.Seed, runs, again.Failure, describe(small), again.Tail(40))
}

// describe tells a schedule.
func describe(s *Schedule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %+v\nserver %+v\nchaos until %v, end at %v, stop at %v\n", s.Client, s.Server, s.Chaos, s.End, s.Stop)
	for _, o := range s.Ops {
		fmt.Fprintln(&b, o)
	}
	for _, f := range s.Faults {
		fmt.Fprintln(&b, f)
	}
	for i, c := range s.Consumers {
		fmt.Fprintf(&b, "consumer %d %v\n", i, c)
	}
	return b.String()
}
