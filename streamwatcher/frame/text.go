package frame

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Strings are searched eight bytes at a time, as one number. Subtracting from each byte sets its
// highest bit where it was smaller, so zeroes, and with them what becomes zero by an
// exclusive or, are found for all eight at once. A borrow can set that of a byte behind such a
// one too, therefore only the first bit that is set is believed.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// StringStop returns the index of the first byte from i on that is a quote, a backslash or a control
// character, or len(b): what ends a JSON string, or needs a look in it.
func StringStop(b []byte, i int) int {
	for i >= 0 && i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		// What is not ASCII has the bit from the beginning, and stops nothing.
		if stop := stops(x) &^ x & highs; stop != 0 {
			return i + bits.TrailingZeros64(stop)>>3
		}
		i += 8
	}
	for i < len(b) && plain[b[i]] {
		i++
	}
	return i
}

// PlainStop is StringStop that stops at bytes that are not ASCII, too.
func PlainStop(b []byte, i int) int {
	for i >= 0 && i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		if stop := (x | stops(x)) & highs; stop != 0 {
			return i + bits.TrailingZeros64(stop)>>3
		}
		i += 8
	}
	for i < len(b) && plain[b[i]] && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// stops sets the highest bit of the first byte of x at which a string stops.
func stops(x uint64) uint64 {
	return (x - ' '*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)
}
