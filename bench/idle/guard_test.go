package idle

import "testing"

// An idle watch has four goroutines: Run's, the handler's, and the two of net/http's connection. Its heap and
// stacks are held to client-go's by make bench-guard; here the heap alone, which differs by less than a tenth from run to run.
func TestIdleWatch(t *testing.T) {
	const n = 50
	for _, l := range []link{http1, http1Gzip} {
		before, after := measure(t, "nodewatch", l, n)
		if got := after.Goroutines - before.Goroutines; got > 4*n {
			t.Errorf("%s: %d watches have %d goroutines, want 4 each", l, n, got)
		}
		if before.Stack == 0 || after.Heap <= before.Heap {
			t.Errorf("%s: readings that cannot be: %+v, then %+v", l, before, after)
		}
		if got := (after.Heap - before.Heap) / n; got > 50_000 {
			t.Errorf("%s: a watch has %d bytes of live heap, want at most 50,000, some 45,000 are usual", l, got)
		}
	}
}
