package reflector

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// A table is held against a map. Hashes of few values make long runs of places, which go around the end.
func TestTable(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var tab table[*thing]
		want := map[decode.Key]*entry[*thing]{}
		keys := 1 + rng.IntN(400)
		for step := range 3000 {
			k := decode.Key{Namespace: fmt.Sprint(rng.IntN(3)), Name: fmt.Sprint(rng.IntN(keys))}
			e := &entry[*thing]{key: k, hash: hashOf(k)}
			have := tab.find(k)
			if have != want[k] {
				t.Fatalf("seed %d, step %d: found %v, want %v", seed, step, have, want[k])
			}
			switch {
			case have == nil:
				tab.put(e)
				want[k] = e
			case rng.IntN(3) == 0 || step > 2000: // in the end it shrinks
				tab.delete(have)
				delete(want, k)
			default:
				tab.replace(have, e)
				want[k] = e
			}
			if tab.n != len(want) || len(tab.slots) > tableLeast && len(tab.slots) > 8*max(tab.n, 1)+tableLeast {
				t.Fatalf("seed %d, step %d: %d entries in %d places, want %d", seed, step, tab.n, len(tab.slots), len(want))
			}
		}
		all := tab.entries()
		if len(all) != len(want) {
			t.Errorf("seed %d: %d entries, want %d", seed, len(all), len(want))
		}
		for _, e := range all {
			if want[e.key] != e {
				t.Errorf("seed %d: %v is not what was put", seed, e.key)
			}
		}
	}
}

// What has the same hash is told apart by its key, and is found when what stood before it is gone.
func TestTableOfEqualHashes(t *testing.T) {
	var tab table[*thing]
	var entries []*entry[*thing]
	for i := range 9 {
		e := &entry[*thing]{key: decode.Key{Name: fmt.Sprint(i)}, hash: tableLeast - 2}
		entries = append(entries, e)
		tab.put(e)
	}
	for i, gone := range []int{4, 0, 8, 1} {
		tab.delete(entries[gone])
		entries[gone] = nil
		for j, e := range entries {
			if e != nil && tab.slots[tab.at(e)] != e {
				t.Errorf("after %d deletes entry %d is lost", i+1, j)
			}
		}
	}
	if got := panicOf(func() { tab.at(&entry[*thing]{hash: tableLeast - 2}) }); got == nil {
		t.Error("an entry that is not there was found")
	}
	if k := (decode.Key{Namespace: "a", Name: "b"}); hashOf(k) == hashOf(decode.Key{Namespace: "b", Name: "a"}) {
		t.Error("namespace and name can be exchanged")
	}
}

// A place is a pointer: what a table takes for each entry is little.
func TestTableSize(t *testing.T) {
	var tab table[*thing]
	for i := range 10_000 {
		k := decode.Key{Name: strings.Repeat("x", i%7) + fmt.Sprint(i)}
		tab.put(&entry[*thing]{key: k, hash: hashOf(k)})
	}
	if len(tab.slots) != 16384 {
		t.Errorf("10,000 entries have %d places", len(tab.slots))
	}
}
