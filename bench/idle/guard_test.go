package idle

import "testing"

// An idle watch has four goroutines: Run's, the handler's, and the two of net/http's connection. Its heap and
// stacks are bounded loosely here, where few watches are measured; make bench-guard compares them with client-go's.
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
		if got := (after.Heap - before.Heap) / n; got > 70_000 {
			t.Errorf("%s: a watch has %d bytes of live heap, want some 45,000", l, got)
		}
	}
}
