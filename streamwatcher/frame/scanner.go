package frame

import (
	"fmt"
	"io"
)

// MaxDepth is how deep JSON values may nest, the limit of encoding/json.
const MaxDepth = 10000

// JSONScanner finds the end of one JSON value that arrives in pieces. The zero
// value is ready. It carries only its place between two pieces, so no byte is
// ever looked at twice.
type JSONScanner struct {
	place place
	depth int
	// open is a stack of one bit a level: 1 for an array, 0 for an object.
	// Objects of the API are some twenty levels deep; deep is for what is below those of open.
	open [2]uint64
	deep []uint64
	// lax: what nests deeper than MaxDepth is passed over, to find the end, and noted in tooDeep. Which bracket
	// shuts which is not looked at there. Else it is a fault.
	lax, tooDeep bool
}

// place is where in a value the scanner stands.
type place uint8

const (
	atStart  place = iota // before the value
	between               // in an object or array, in no string
	inString              // behind a quote
	inEscape              // behind a backslash in a string
	inScalar              // in a number or word that is the whole value
)

// Reset makes s ready for the next value.
func (s *JSONScanner) Reset() { s.place, s.depth, s.tooDeep = atStart, 0, false }

// Scan looks at the next piece p of the value. n is how many bytes of p belong
// to the value. When done is false and fault empty, n is len(p) and the value
// goes on. fault says what is wrong with p[n]. A number or word that is the whole value is done
// only when the byte behind it is seen.
//
// Each round of the loop moves i on, or leaves the function, or goes to a place
// whose round does: that is why it ends.
func (s *JSONScanner) Scan(p []byte) (n int, done bool, fault string) {
	for i := 0; i < len(p); {
		switch s.place {
		case atStart:
			switch classOf[p[i]] {
			case open, quote:
				s.place = between // whose round takes the byte
			case scalar:
				s.place = inScalar
			default:
				return i, false, "a JSON value should begin here"
			}

		case between:
			var fault string
			if i, done, fault = s.nested(p, i); done || fault != "" {
				return i, done, fault
			}

		case inString:
			if i = StringStop(p, i); i == len(p) {
				break
			}
			switch p[i] {
			case '"':
				s.place = between
				if s.depth == 0 {
					return i + 1, true, ""
				}
			case '\\':
				s.place = inEscape
			default:
				return i, false, faultControl
			}
			i++

		case inEscape:
			if p[i] < ' ' {
				return i, false, faultControl
			}
			i++
			s.place = inString

		case inScalar:
			for i < len(p) && classOf[p[i]] == scalar {
				i++
			}
			if i < len(p) {
				return i, true, ""
			}
		}
	}
	return len(p), false, ""
}

const faultControl = "control character in a JSON string"

// nested is the round of between: it goes on to the end of the value or of p, or into a
// string that is not plain to its end or not whole in p. Those that are, most are, are passed
// over here, without a round for each.
func (s *JSONScanner) nested(p []byte, i int) (n int, done bool, fault string) {
	for i < len(p) {
		c := p[i]
		switch classOf[c] {
		case space, scalar:
			i++
		case quote:
			s.place = inString
			if i = StringStop(p, i+1); i == len(p) || p[i] != '"' {
				return i, false, ""
			}
			s.place = between
			if i++; s.depth == 0 {
				return i, true, ""
			}
		case open:
			if s.depth >= MaxDepth {
				if !s.lax {
					return i, false, "JSON nested too deep"
				}
				s.tooDeep = true
				s.depth++
			} else {
				s.push(c == '[')
			}
			i++
		case shut:
			if s.depth == 0 || s.depth <= MaxDepth && s.top() != (c == ']') {
				return i, false, "bracket that closes nothing"
			}
			i++
			if s.depth--; s.depth == 0 {
				return i, true, ""
			}
		default:
			return i, false, "byte that JSON does not know"
		}
	}
	return i, false, ""
}

// ValueEnd returns where the JSON value ends that b begins with. When it is not whole in b, the error
// is io.ErrUnexpectedEOF.
func ValueEnd(b []byte) (int, error) {
	var s JSONScanner
	n, done, fault := s.Scan(b)
	switch {
	case fault != "":
		return 0, &SyntaxError{Offset: int64(n), Msg: fmt.Sprintf("%s, not %q", fault, rune(b[n]))}
	case !done:
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (s *JSONScanner) push(array bool) {
	word, bit := s.word(s.depth), uint64(1)<<(s.depth%64)
	if array {
		*word |= bit
	} else {
		*word &^= bit
	}
	s.depth++
}

func (s *JSONScanner) top() (array bool) {
	return *s.word(s.depth - 1)&(1<<((s.depth-1)%64)) != 0
}

// word returns where the bit of a level is.
func (s *JSONScanner) word(level int) *uint64 {
	i := level / 64
	if i < len(s.open) {
		return &s.open[i]
	}
	if i -= len(s.open); i == len(s.deep) {
		s.deep = append(s.deep, 0)
	}
	return &s.deep[i]
}

// class is what a byte means outside of strings. Those up to scalar are passed
// over inside of a value.
type class uint8

const (
	space  class = iota // blanks, and the comma and colon that a skipped value may contain
	scalar              // of numbers, true, false and null
	quote
	open
	shut
	bad
)

var (
	classOf = func() (t [256]class) {
		for i := range t {
			t[i] = bad
		}
		set := func(c class, bytes string) {
			for i := range len(bytes) {
				t[bytes[i]] = c
			}
		}
		set(space, " \t\r\n,:")
		set(scalar, "+-.0123456789Eabcdefghijklmnopqrstuvwxyz")
		set(quote, `"`)
		set(open, "{[")
		set(shut, "}]")
		return t
	}()

	// plain tells the bytes that need no look inside a string.
	plain = func() (t [256]bool) {
		for i := range t {
			t[i] = i >= ' ' && i != '"' && i != '\\'
		}
		return t
	}()
)
