package podsources

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/kubernetes/pkg/capabilities"
)

var (
	historiesFlag = flag.Uint64("histories", 160, "how many random histories to compare")
	historyFlag   = flag.Int("history", -1, "compare only the history of this number, and print it")
)

// places is how many histories are under way at a time: they wait most of the time.
const places = 12

// TestMain: nothing of podconfig is left. What the kubelet's package starts has no end.
func TestMain(m *testing.M) {
	flag.Parse()
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	if *resultsFlag != "" {
		if err := writeResults(*resultsFlag); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	buf := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "nodewatch/nodefilter") || strings.Contains(stack, "nodewatch/reflector") {
			fmt.Fprintf(os.Stderr, "a goroutine is left:\n%s\n", stack)
			code = 1
		}
	}
	os.Exit(code)
}

// TestHistories: over random histories the kubelet and podconfig tell the same updates, and
// their readers have the same pods.
func TestHistories(t *testing.T) {
	numbers := make(chan uint64)
	go func() {
		defer close(numbers)
		if *historyFlag >= 0 {
			numbers <- uint64(*historyFlag)
			return
		}
		for i := range *historiesFlag {
			numbers <- i
		}
	}()
	var mu sync.Mutex
	total := map[string]int{}
	var running sync.WaitGroup
	for range places {
		running.Go(func() {
			var p *place
			for number := range numbers {
				if p == nil {
					p = newPlace(t)
				}
				h := newHistory(number)
				counts, err := run(p, h, patience)
				mu.Lock()
				for rule, n := range counts {
					total[rule] += n
				}
				failed := t.Failed()
				mu.Unlock()
				if *historyFlag >= 0 {
					t.Logf("history %d\n%v", number, h)
				}
				if err == nil {
					continue
				}
				t.Errorf("history %d: %v", number, err)
				if failed {
					continue // one minimal history is enough
				}
				least := minimal(h, func(h history) bool {
					_, e := run(p, h, hurry)
					if e != nil {
						err = e
					}
					return e != nil
				})
				t.Errorf("history %d, the fewest steps that fail: %v\n%v", number, err, least)
			}
		})
	}
	running.Wait()
	for _, rule := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%4d times  %s", total[rule], rule)
	}
	if *historyFlag < 0 {
		for _, rule := range rules {
			if total[rule] == 0 {
				t.Errorf("the rule %q was never needed: it is a gap in the comparison", rule)
			}
		}
	}
}
