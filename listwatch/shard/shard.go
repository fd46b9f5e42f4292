package shard

import (
	"fmt"
	"math"
	"math/bits"

	"k8s.io/apimachinery/pkg/types"
)

// Field is the part of an object's metadata that is hashed.
type Field uint8

// The fields that the API server can shard by.
const (
	UID       Field = iota // spreads objects evenly; what belongs together is torn apart
	Namespace              // keeps the objects of a namespace together, of all resources
)

// String returns the path that a selector has for it.
func (f Field) String() string {
	switch f {
	case UID:
		return "object.metadata.uid"
	case Namespace:
		return "object.metadata.namespace"
	}
	return fmt.Sprintf("Field(%d)", uint8(f))
}

// fnv1a is FNV-1a with 64 bits of value, as k8s.io/apimachinery/pkg/sharding has it.
func fnv1a(value string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * prime
	}
	return h
}

// Range is an interval of hashes. Both ends belong to it.
type Range struct{ First, Last uint64 }

// Shard is one of Count parts, each of which has the same share of the hashes. The
// zero value is no shard: it has all objects. Shards can be compared with ==.
//
// Promises, with their tests:
//   - The shards of one Count have every object exactly once. Test: TestShardsCoverTheSpace.
type Shard struct {
	// Index counts from 0, as the ordinal of a StatefulSet's pod does.
	Index int
	// Count is how many there are. 0 and 1 are one shard that has all.
	Count int
	// By is what decides.
	By Field
}

// Validate returns what is wrong with s.
func (s Shard) Validate() error {
	switch {
	case s.Count < 0:
		return fmt.Errorf("shard.Shard: Count is %d: use the number of shards, or 0 for no sharding", s.Count)
	case s.Index < 0 || s.Index >= max(s.Count, 1):
		return fmt.Errorf("shard.Shard: Index is %d: of %d shards the first is 0 and the last %d", s.Index, max(s.Count, 1), max(s.Count, 1)-1)
	case s.By > Namespace:
		return fmt.Errorf("shard.Shard: By is %d: use UID or Namespace", s.By)
	}
	return nil
}

// Whole reports whether s has all objects.
func (s Shard) Whole() bool { return s.Count <= 1 }

// Range returns the hashes of s, which must be valid.
func (s Shard) Range() Range {
	if s.Whole() {
		return Range{0, math.MaxUint64}
	}
	n := uint64(s.Count)
	// Where shard i begins is i/n of 2^64, rounded down: each ends right before the next one begins.
	r := Range{Last: math.MaxUint64}
	r.First, _ = bits.Div64(uint64(s.Index), 0, n)
	if s.Index+1 < s.Count {
		r.Last, _ = bits.Div64(uint64(s.Index)+1, 0, n)
		r.Last--
	}
	return r
}

// Selector returns what to ask for. It is empty where s has all objects: a server need
// not be asked for that.
func (s Shard) Selector() Selector {
	if s.Whole() {
		return Selector{}
	}
	return Selector{s.By, []Range{s.Range()}}
}

// Has reports whether an object with this UID, in this namespace ("" for one
// that is in none), belongs to s.
func (s Shard) Has(uid types.UID, namespace string) bool {
	return s.Whole() || s.Range().has(s.By.hash(uid, namespace))
}

// String is for people: "2 of 3", "2 of 3 by namespace". The first one is 1.
func (s Shard) String() string {
	if s.Whole() {
		return "all"
	}
	by := ""
	if s.By == Namespace {
		by = " by namespace"
	}
	return fmt.Sprintf("%d of %d%s", s.Index+1, s.Count, by)
}

func (f Field) hash(uid types.UID, namespace string) uint64 {
	if f == Namespace {
		return fnv1a(namespace)
	}
	return fnv1a(string(uid))
}

func (r Range) has(hash uint64) bool { return r.First <= hash && hash <= r.Last }
