package reflector

import (
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

func TestCompareRV(t *testing.T) {
	long := strings.Repeat("9", 40)
	for _, tc := range []struct {
		a, b string
		want int
		ok   bool
	}{
		{"7", "7", 0, true},
		{"9", "10", -1, true},
		{"10", "9", 1, true},
		{"123", "124", -1, true},
		{"18446744073709551615", "18446744073709551616", -1, true}, // around the end of uint64
		{long, "1" + strings.Repeat("0", 40), -1, true},
		{"0", "0", 0, true},
		{"0", "1", -1, true},
		{"007", "7", 0, true},
		{"0010", "9", 1, true},
		{"", "1", 0, false},
		{"1", "", 0, false},
		{"", "", 0, false},
		{"-1", "1", 0, false},
		{"+1", "1", 0, false},
		{"1 ", "1", 0, false},
		{"0x10", "1", 0, false},
		{"١", "1", 0, false}, // a digit, but not of the API
		{"abc", "abd", 0, false},
	} {
		got, ok := compareRV(tc.a, tc.b)
		if got != tc.want || ok != tc.ok {
			t.Errorf("compareRV(%q, %q) = %d, %t; want %d, %t", tc.a, tc.b, got, ok, tc.want, tc.ok)
		}
		if older := olderRV(tc.a, tc.b); older != (tc.ok && tc.want < 0) {
			t.Errorf("olderRV(%q, %q) = %t", tc.a, tc.b, older)
		}
	}
}

func TestCompareRVDoesNotAllocate(t *testing.T) {
	a, b := strings.Repeat("0", 9)+strings.Repeat("8", 30), strings.Repeat("8", 29)+"9"
	if n := testing.AllocsPerRun(100, func() { compareRV(a, b) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// FuzzCompareRV holds the comparison against big integers, and against
// apimachinery's where that takes the strings at all.
func FuzzCompareRV(f *testing.F) {
	for _, s := range [][2]string{{"1", "2"}, {"10", "9"}, {"", "1"}, {"0", "00"}, {"1a", "1"}, {"99999999999999999999", "100000000000000000000"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got, ok := compareRV(a, b)
		if want, err := resourceversion.CompareResourceVersion(a, b); err == nil && (!ok || got != want) {
			t.Errorf("compareRV(%q, %q) = %d, %t; apimachinery says %d", a, b, got, ok, want)
		}
		plain := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
		if ok != (plain(a) && plain(b)) {
			t.Errorf("compareRV(%q, %q): ok is %t", a, b, ok)
		}
		if !ok {
			return
		}
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		if got != x.Cmp(y) {
			t.Errorf("compareRV(%q, %q) = %d; as numbers %d", a, b, got, x.Cmp(y))
		}
	})
}
