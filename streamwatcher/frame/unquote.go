package frame

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote returns the content of a JSON string given with its quotes, by the
// rules of encoding/json: invalid UTF-8 and halves of surrogate pairs become
// U+FFFD. The result reuses quoted's memory. ok is false when it is not a JSON string.
func Unquote(quoted []byte) (s []byte, ok bool) {
	n := len(quoted)
	if n < 2 || quoted[0] != '"' || quoted[n-1] != '"' {
		return nil, false
	}
	in := quoted[1 : n-1]
	// Most strings of the API need no work.
	i := 0
	for i < len(in) && plain[in[i]] && in[i] < utf8.RuneSelf {
		i++
	}
	if i == len(in) {
		return in, true
	}
	if !shrinks(in[i:]) {
		return unquote(append(make([]byte, 0, 3*len(in)), in[:i]...), in[i:])
	}
	return unquote(in[:i], in[i:])
}

// shrinks tells whether unquoting in never gets ahead of its reading, which
// only the three bytes that stand for one invalid byte can do.
func shrinks(in []byte) bool { return utf8.Valid(in) }

// unquote appends the content of in to out, which may be the memory before in.
func unquote(out, in []byte) ([]byte, bool) {
	for i := 0; i < len(in); {
		switch c := in[i]; {
		case c == '"' || c < ' ':
			return nil, false
		case c == '\\':
			r, size := escape(in[i:])
			if size == 0 {
				return nil, false
			}
			out = utf8.AppendRune(out, r)
			i += size
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, size := utf8.DecodeRune(in[i:])
			out = utf8.AppendRune(out, r)
			i += size
		}
	}
	return out, true
}

// escape returns the rune that the escape at the beginning of in stands for and
// how many bytes it takes; 0 when it is none.
func escape(in []byte) (r rune, size int) {
	if len(in) < 2 {
		return 0, 0
	}
	switch in[1] {
	case '"', '\\', '/':
		return rune(in[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		first := hex4(in)
		if first < 0 {
			return 0, 0
		}
		if utf16.IsSurrogate(first) {
			if both := utf16.DecodeRune(first, hex4(in[6:])); both != utf8.RuneError {
				return both, 12
			}
			return utf8.RuneError, 6
		}
		return first, 6
	}
	return 0, 0
}

// hex4 returns the value of \uXXXX at the beginning of in, or -1.
func hex4(in []byte) rune {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return -1
	}
	var v rune
	for _, c := range in[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		v = v<<4 | rune(c)
	}
	return v
}

// AppendUnquoted appends to out the content of a JSON string given without its
// quotes. It is Unquote for those who may not write to the string's memory.
func AppendUnquoted(out, content []byte) ([]byte, bool) { return unquote(out, content) }
