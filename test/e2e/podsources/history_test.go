package podsources

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// step is one thing that happens. Every step makes sense in every state, be it
// that it does nothing, so that a history without some of its steps is one too.
type step struct {
	source string // a kubelet's name of a source
	op     string
	slot   int // which file, pod or list
	value  int // which content
}

func (s step) String() string { return fmt.Sprintf("%s %s %d %d", s.source, s.op, s.slot, s.value) }

// history is what happens before the sources start, and after.
type history struct {
	before, after []step
}

func (h history) String() string {
	var b strings.Builder
	for i, part := range [][]step{h.before, h.after} {
		fmt.Fprintf(&b, "%s:\n", []string{"before the start", "after it"}[i])
		for _, s := range part {
			fmt.Fprintf(&b, "\t%s\n", s)
		}
	}
	return b.String()
}

// operations are of each source; what comes twice is twice as likely.
var operations = map[string][]string{
	"api": {"add", "add", "add", "status", "status", "label", "annotate", "spec", "local", "meta", "terminate", "delete", "recreate", "relist", "burst"},
	"file": {"write", "write", "again", "touch", "invalid", "half", "remove", "rename", "save",
		"dup", "backup", "hidden"},
	"http": {"pod", "list", "list", "same", "same", "invalid", "garbage", "refused", "nothing", "nothing", "none", "gone", "dup"},
}

// sources are in a fixed order, so that a number makes one history.
var sources = []string{"api", "file", "http"}

func randomStep(r *rand.Rand) step {
	source := sources[r.IntN(len(sources))]
	ops := operations[source]
	return step{source, ops[r.IntN(len(ops))], r.IntN(4), r.IntN(6)}
}

// newHistory is the history of a number.
func newHistory(number uint64) history {
	r := rand.New(rand.NewPCG(number, 37))
	var h history
	for range r.IntN(7) { // often none: a source without pods
		h.before = append(h.before, randomStep(r))
	}
	for range 5 + r.IntN(10) {
		h.after = append(h.after, randomStep(r))
	}
	return h
}

// minimal leaves out steps as long as what is left fails.
func minimal(h history, fails func(history) bool) history {
	for _, part := range []func(*history) *[]step{
		func(h *history) *[]step { return &h.after },
		func(h *history) *[]step { return &h.before },
	} {
		for i := len(*part(&h)) - 1; i >= 0; i-- {
			less := h
			*part(&less) = slices.Delete(slices.Clone(*part(&h)), i, i+1)
			if fails(less) {
				h = less
			}
		}
	}
	return h
}
