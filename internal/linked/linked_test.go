package linked

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList: whatever is pushed and removed, the list is what a slice would be.
func TestList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l List[int]
	var want []*Node[int]
	for k := range 2000 {
		if len(want) == 0 || random.IntN(20) < 11-len(want)/10 {
			n := &Node[int]{Value: k}
			l.Push(n)
			want = append(want, n)
		} else {
			i := random.IntN(len(want))
			n := want[i]
			l.Remove(n)
			want = slices.Delete(want, i, i+1)
			if n.prev != nil || n.next != nil {
				t.Fatal("a node that was removed keeps others alive")
			}
			if random.IntN(2) == 0 { // it may come again
				l.Push(n)
				want = append(want, n)
			}
		}
		var got []*Node[int]
		for n := l.First(); n != nil; n = n.Next() {
			got = append(got, n)
		}
		if !slices.Equal(got, want) || l.Len() != len(want) {
			t.Fatalf("step %d: %d nodes, Len %d, want %d", k, len(got), l.Len(), len(want))
		}
		if l.last != nil && l.last.next != nil {
			t.Fatal("something is behind the last")
		}
	}
}
