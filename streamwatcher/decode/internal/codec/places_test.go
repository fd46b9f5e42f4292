package codec

import (
	"fmt"
	"testing"
)

// A table begins small, and has room for what comes again.
func TestWordsGrow(t *testing.T) {
	w := newWords(4096)
	if n := len(w.current.Load().slots); n > 64 {
		t.Errorf("%d places before anything came", n)
	}
	for range 60 {
		for i := range 1000 {
			w.findOf(0, fmt.Appendf(nil, "word-%d", i))
		}
	}
	found := 0
	for i := range 1000 {
		if e := w.findOf(0, fmt.Appendf(nil, "word-%d", i)); e != nil {
			found++
		}
	}
	// Of 64 places at most 64 could be. Some words displace each other in any table.
	if n := len(w.current.Load().slots); found < 500 || n > 4096 {
		t.Errorf("%d of 1000 words are known, in %d places", found, n)
	}
}
