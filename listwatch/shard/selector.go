package shard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Selector is what a shardSelector says: objects whose hash is in one of some
// ranges. The zero value is empty and selects all. It is never changed.
type Selector struct {
	field  Field
	ranges []Range
}

// Empty reports whether s selects all because it says nothing.
func (s Selector) Empty() bool { return len(s.ranges) == 0 }

// Matches reports whether s selects an object with this UID, in this namespace.
//
// Promises, with their tests:
//   - It decides as the API server does. Test: TestMatchesAsTheServer, TestSharded.
func (s Selector) Matches(uid types.UID, namespace string) bool {
	if s.Empty() {
		return true
	}
	hash := s.field.hash(uid, namespace)
	for _, r := range s.ranges {
		if r.has(hash) {
			return true
		}
	}
	return false
}

// Same reports whether both select the same objects, however they are written.
func (s Selector) Same(o Selector) bool {
	if s.Empty() || o.Empty() {
		return s.Empty() == o.Empty()
	}
	return s.field == o.field && slices.Equal(merged(s.ranges), merged(o.ranges))
}

// merged returns the same hashes in as few ranges as there can be, in order.
func merged(ranges []Range) []Range {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	out := sorted[:1]
	for _, r := range sorted[1:] {
		last := &out[len(out)-1]
		if last.Last == math.MaxUint64 || r.First <= last.Last+1 {
			last.Last = max(last.Last, r.Last)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// String returns the text that the server understands, as it writes it in the
// shardInfo of a list. Parse reads it.
func (s Selector) String() string {
	var b strings.Builder
	for i, r := range s.ranges {
		if i > 0 {
			b.WriteString(" || ")
		}
		fmt.Fprintf(&b, "shardRange(%s, '0x%016x', '%s')", s.field, r.First, bound(r.Last))
	}
	return b.String()
}

// bound is the hash behind last. That behind the highest one has a digit more.
func bound(last uint64) string {
	if last == math.MaxUint64 {
		return endOfSpace
	}
	return fmt.Sprintf("0x%016x", last+1)
}

// endOfSpace is 2^64.
const endOfSpace = "0x10000000000000000"
