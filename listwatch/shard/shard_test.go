package shard

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// TestShardsCoverTheSpace: "The shards of one Count have every object exactly once."
func TestShardsCoverTheSpace(t *testing.T) {
	for _, count := range []int{1, 2, 3, 4, 5, 6, 7, 9, 10, 63, 64, 65, 1000, 4095, 1 << 20, math.MaxInt32} {
		next, least, most := uint64(0), uint64(math.MaxUint64), uint64(0)
		indexes := count
		if count > 5000 {
			indexes = 5000 // and the last ones below
		}
		for i := range indexes {
			r := Shard{Index: i, Count: count}.Range()
			if r.First != next || r.Last < r.First {
				t.Fatalf("shard %d of %d is %x to %x, it should begin at %x", i, count, r.First, r.Last, next)
			}
			least, most = min(least, r.Last-r.First), max(most, r.Last-r.First)
			next = r.Last + 1
		}
		if end := (Shard{Index: count - 1, Count: count}).Range().Last; end != math.MaxUint64 {
			t.Errorf("the last of %d shards ends at %x", count, end)
		}
		if indexes == count && next != 0 {
			t.Errorf("%d shards end at %x", count, next-1)
		}
		if most-least > 1 {
			t.Errorf("of %d shards the smallest has %d hashes and the largest %d", count, least, most)
		}
		// The same bounds, from large integers.
		for _, i := range []int{0, count / 3, count - 1} {
			first := new(big.Int).Lsh(big.NewInt(int64(i)), 64)
			first.Div(first, big.NewInt(int64(count)))
			if got := (Shard{Index: i, Count: count}).Range().First; got != first.Uint64() {
				t.Errorf("shard %d of %d begins at %x, it should at %x", i, count, got, first)
			}
		}
	}
}

func TestEachObjectHasOneShard(t *testing.T) {
	for _, by := range []Field{UID, Namespace} {
		for count := 1; count <= 12; count++ {
			for n := range 200 {
				uid, namespace := uuid.NewUUID(), fmt.Sprintf("team-%d", n)
				owners := 0
				for i := range count {
					s := Shard{i, count, by}
					has := s.Has(uid, namespace)
					if has {
						owners++
					}
					if selected := s.Selector().Matches(uid, namespace); selected != has {
						t.Errorf("%v: Has says %t and its selector %t", s, has, selected)
					}
				}
				if owners != 1 {
					t.Fatalf("by %v an object is in %d of %d shards", by, owners, count)
				}
			}
		}
	}
}

func TestHash(t *testing.T) {
	for _, text := range []string{"", "a", "default", "5b59e3c0-3765-4b97-8aa9-bbb1f857a77d", "\xff\x00é"} {
		h := fnv.New64a()
		h.Write([]byte(text))
		if got := fnv1a(text); got != h.Sum64() {
			t.Errorf("fnv1a(%q) is %x, hash/fnv has %x", text, got, h.Sum64())
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if (Shard{Index: 1, Count: 3}).Has("5b59e3c0-3765-4b97-8aa9-bbb1f857a77d", "default") {
			return
		}
	}); n != 0 {
		t.Errorf("Has allocates %v times", n)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		shard Shard
		ok    bool
	}{
		{Shard{}, true}, {Shard{Count: 1}, true}, {Shard{Index: 2, Count: 3}, true}, {Shard{Count: 2, By: Namespace}, true},
		{Shard{Index: 1}, false}, {Shard{Index: 1, Count: 1}, false}, {Shard{Index: 3, Count: 3}, false},
		{Shard{Index: -1, Count: 3}, false}, {Shard{Count: -1}, false}, {Shard{Count: 2, By: Namespace + 1}, false},
	} {
		if err := c.shard.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.shard, err)
		}
	}
}

// One shard that has all needs no selector, and a server is not asked for one.
func TestWhole(t *testing.T) {
	for _, s := range []Shard{{}, {Count: 1}, {By: Namespace}} {
		if !s.Whole() || !s.Selector().Empty() || s.Selector().String() != "" || !s.Has("any", "") || s.String() != "all" {
			t.Errorf("%+v does not have all", s)
		}
	}
	if s := (Shard{Index: 1, Count: 3, By: Namespace}).String(); s != "2 of 3 by namespace" {
		t.Errorf("String is %q", s)
	}
	if s := Field(9).String(); s != "Field(9)" {
		t.Errorf("String of no field is %q", s)
	}
}

func BenchmarkMatches(b *testing.B) {
	s, uid := Shard{Index: 1, Count: 3}.Selector(), types.UID("5b59e3c0-3765-4b97-8aa9-bbb1f857a77d")
	for b.Loop() {
		s.Matches(uid, "default")
	}
}
