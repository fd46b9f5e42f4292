package codec

import (
	"strings"
	"testing"
)

// Parts are kept by one pointer, and are the same when they are asked for.
func TestPartsAreKept(t *testing.T) {
	for n := range maxParts + 1 {
		var p Parts
		for i := range n {
			p = append(p, Part{what: inJSON | uint64(i)<<whereShift | uint64(1<<sizeBits-1-i), sum: uint64(i)})
		}
		back := PartsOf(p.kept().First())
		if len(back) != n {
			t.Fatalf("%d parts of %d", len(back), n)
		}
		for i := range back {
			if back[i].alone() != p[i] || !back[i].at(p[i].what) || back[i].size() != 1<<sizeBits-1-i {
				t.Errorf("part %d of %d is %x, was %x", i, n, back[i], p[i])
			}
		}
	}
}

func TestShort(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, `[{"ip":"10.0.0.1"}],"phase":"Running"`: true, `{"a":{"b":[1]}}`: true, `{"a":"}"} `: true,
		`{"a":"` + strings.Repeat("x", minPart-9) + `"}`: true, `{"a":"` + strings.Repeat("x", minPart-8) + `"}`: false,
		`{"a":{}`: false, `{"a":"}`: false, `{"a":"\"}"}`: false, `[` + strings.Repeat("x", minPart): false, `[1`: false, `{`: false,
	} {
		if got := short([]byte(text)); got != want {
			t.Errorf("%s: short is %v, want %v", text, got, want)
		}
	}
}
