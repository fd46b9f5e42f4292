package frame

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// slowStop is StringStop, or PlainStop, a byte at a time.
func slowStop(b []byte, i int, plainOnly bool) int {
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || plainOnly && c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

func sameStops(t *testing.T, b []byte, i int) {
	t.Helper()
	if got, want := StringStop(b, i), slowStop(b, i, false); got != want {
		t.Fatalf("StringStop(%q, %d) = %d, want %d", b, i, got, want)
	}
	if got, want := PlainStop(b, i), slowStop(b, i, true); got != want {
		t.Fatalf("PlainStop(%q, %d) = %d, want %d", b, i, got, want)
	}
}

// Every byte stops, or does not, at every place in a word, whatever stands before it and behind it.
func TestStopsOfEveryByte(t *testing.T) {
	for _, around := range []string{"x", " ", "~", "\x7f", "\x80", "\xa0", "\xff", "!", "#", "[", "]"} {
		for c := range 256 {
			for at := range 20 {
				b := bytes.Repeat([]byte(around), 20)
				b[at] = byte(c)
				sameStops(t, b, 0)
				sameStops(t, b, at)
			}
		}
	}
	sameStops(t, nil, 0)
	sameStops(t, []byte("abc"), 3)
}

// FuzzStops: eight bytes at a time are the same as one.
func FuzzStops(f *testing.F) {
	f.Add([]byte(`a string of some length" and more`), uint8(2))
	f.Add([]byte("\x80\x1f\x1f\"\\\xff\xa0\x7f\x80\x20"), uint8(0))
	f.Add([]byte(`{"name":"k:{\"port\":8080}"}`), uint8(9))
	f.Fuzz(func(t *testing.T, b []byte, from uint8) {
		if int(from) <= len(b) {
			sameStops(t, b, int(from))
		}
	})
}
