package codec

import (
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// syntax says what is wrong at i.
func (d *state) syntax(i int, want string) error {
	if i >= len(d.raw) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("JSON at byte %d: %q where %s should be", i, d.raw[i], want)
}

// mismatch says that the value at i is not of a kind that fits the Go type.
func (d *state) mismatch(i int, n *node) error {
	if _, err := d.check(i); err != nil {
		return err
	}
	return fmt.Errorf("JSON at byte %d: a value beginning with %q cannot be a %v", i, d.raw[i], n.typ.Go)
}

// byteAt returns b[i], or 0, which stands nowhere in JSON, behind the end.
func byteAt(b []byte, i int) byte {
	if uint(i) < uint(len(b)) {
		return b[i]
	}
	return 0
}

// space returns where the blanks at i end.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// plainEnd returns the index of the first byte from i on that is a quote, a backslash, a control
// character or not ASCII, or len(b).
func plainEnd(b []byte, i int) int { return frame.PlainStop(b, i) }

// str reads the string whose content begins at i, behind its quote.
func (d *state) str(i int) (s layout.Span, next int, err error) {
	end := plainEnd(d.raw, i)
	if byteAt(d.raw, end) == '"' {
		return layout.SpanOf(i, end-i), end + 1, nil
	}
	return d.oddStr(i, end)
}

// oddStr is str for a string that has escapes or is not all ASCII.
func (d *state) oddStr(i, at int) (s layout.Span, next int, err error) {
	end, escaped, err := d.strEnd(at)
	if err != nil {
		return s, 0, err
	}
	content := d.raw[i:end]
	if !escaped && utf8.Valid(content) {
		return layout.SpanOf(i, end-i), end + 1, nil
	}
	from := len(d.side)
	side, ok := frame.AppendUnquoted(d.side, content)
	if !ok {
		return s, 0, fmt.Errorf("JSON at byte %d: a string with an escape that JSON does not know", i)
	}
	d.side = side
	return layout.SideSpan(from, len(side)-from), end + 1, nil
}

// strEnd returns where the quote is that ends the string at i.
func (d *state) strEnd(i int) (end int, escaped bool, err error) {
	b := d.raw
	for {
		i = frame.StringStop(b, i)
		switch c := byteAt(b, i); {
		case i >= len(b):
			return 0, false, io.ErrUnexpectedEOF
		case c == '"':
			return i, escaped, nil
		case c == '\\' && (byteAt(b, i+1) >= ' ' || i+1 == len(b)):
			escaped = true
			i += 2
		default:
			return 0, false, d.syntax(i, "a character of a string")
		}
	}
}

// span of bytes between quotes, or of a whole value, as they stand.
func (d *state) literal(i int, text string) (next int, err error) {
	if len(d.raw)-i < len(text) {
		return 0, io.ErrUnexpectedEOF
	}
	if string(d.raw[i:i+len(text)]) != text {
		return 0, d.syntax(i, text)
	}
	return i + len(text), nil
}

// integer reads a number that is an integer. ok is false when it is some other
// number, or more than 64 bits.
func integer(b []byte, i int) (negative bool, v uint64, next int, ok bool) {
	if byteAt(b, i) == '-' {
		negative = true
		i++
	}
	from := i
	for ; i < len(b) && b[i]-'0' < 10; i++ {
		v = v*10 + uint64(b[i]-'0')
	}
	switch byteAt(b, i) {
	case '.', 'e', 'E':
		return negative, 0, i, false
	}
	switch digits := i - from; {
	case digits == 0 || digits > 1 && b[from] == '0':
		return negative, 0, i, false
	case digits > 19: // v may have overflown
		v, err := strconv.ParseUint(string(b[from:i]), 10, 64)
		return negative, v, i, err == nil
	}
	return negative, v, i, true
}

// number returns where the number at i ends, by JSON's grammar.
func (d *state) numberEnd(i int) (end int, err error) {
	b := d.raw
	if byteAt(b, i) == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for byteAt(b, i)-'0' < 10 {
			i++
		}
		return i > from
	}
	if byteAt(b, i) == '0' {
		i++
	} else if !digits() {
		return 0, d.syntax(i, "a digit")
	}
	if byteAt(b, i) == '.' {
		i++
		if !digits() {
			return 0, d.syntax(i, "a digit")
		}
	}
	if c := byteAt(b, i); c == 'e' || c == 'E' {
		i++
		if c := byteAt(b, i); c == '+' || c == '-' {
			i++
		}
		if !digits() {
			return 0, d.syntax(i, "a digit")
		}
	}
	return i, nil
}

// check passes over the value at i and refuses what is not JSON. It is for values
// that are kept, or that others read.
func (d *state) check(i int) (next int, err error) {
	b := d.raw
	switch c := byteAt(b, i); {
	case c == '"':
		end, escaped, err := d.strEnd(i + 1)
		if err == nil && escaped && !goodEscapes(b[i+1:end]) {
			err = fmt.Errorf("JSON at byte %d: a string with an escape that JSON does not know", i)
		}
		return end + 1, err
	case c == '{' || c == '[':
		return d.checkNested(i)
	case c == 't':
		return d.literal(i, "true")
	case c == 'f':
		return d.literal(i, "false")
	case c == 'n':
		return d.literal(i, "null")
	case c == '-' || c-'0' < 10:
		return d.numberEnd(i)
	}
	return 0, d.syntax(i, "a value")
}

// checkNested is check for an object or array.
func (d *state) checkNested(i int) (next int, err error) {
	if d.depth++; d.depth > maxDepth {
		return 0, errTooDeep
	}
	b := d.raw
	isObject, shut := b[i] == '{', b[i]+2 // '}' and ']' stand two behind
	i = space(b, i+1)
	if byteAt(b, i) == shut {
		d.depth--
		return i + 1, nil
	}
	for {
		if isObject {
			if byteAt(b, i) != '"' {
				return 0, d.syntax(i, "a name")
			}
			if i, err = d.check(i); err != nil {
				return 0, err
			}
			if i = space(b, i); byteAt(b, i) != ':' {
				return 0, d.syntax(i, "a colon")
			}
			i = space(b, i+1)
		}
		if i, err = d.check(i); err != nil {
			return 0, err
		}
		i = space(b, i)
		switch byteAt(b, i) {
		case ',':
			i = space(b, i+1)
		case shut:
			d.depth--
			return i + 1, nil
		default:
			return 0, d.syntax(i, "a comma or the end")
		}
	}
}

// goodEscapes tells whether all escapes of a string are such.
func goodEscapes(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		switch byteAt(s, i) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if len(s)-i < 5 {
				return false
			}
			for _, c := range s[i+1 : i+5] {
				if !(c-'0' < 10 || c|0x20-'a' < 6) {
					return false
				}
			}
			i += 4
		default:
			return false
		}
	}
	return true
}

// pass passes over the value at i of a field that is not wanted. It looks at strings and
// brackets, not at what stands between them: half the bytes of an object are
// such, and the framing has looked at them. Values deeper than the stack of brackets are checked.
func (d *state) pass(i int) (next int, err error) {
	b := d.raw
	if c := byteAt(b, i); c != '{' && c != '[' {
		return d.check(i)
	}
	from := i
	var open uint64 // a bit a level: 1 for an array
	depth := 0
	for i < len(b) {
		switch c := b[i]; classes[c] {
		case inert:
			i++
			for i < len(b) && classes[b[i]] == inert {
				i++
			}
		case quote:
			if i = frame.StringStop(b, i+1); byteAt(b, i) != '"' {
				if i, _, err = d.strEnd(i); err != nil {
					return 0, err
				}
			}
			i++
		case opens:
			if depth++; depth > 64 || d.depth+depth > maxDepth {
				return d.check(from)
			}
			open <<= 1
			if c == '[' {
				open |= 1
			}
			i++
		case shuts:
			if (open&1 == 1) != (c == ']') {
				return 0, d.syntax(i, "another bracket")
			}
			i++
			open >>= 1
			if depth--; depth == 0 {
				return i, nil
			}
		default:
			return 0, d.syntax(i, "JSON")
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// class is what a byte means outside of strings.
type class uint8

const (
	bad class = iota
	inert
	quote
	opens
	shuts
)

var classes = func() (t [256]class) {
	for _, c := range []byte(" \t\r\n,:+-.0123456789Eaeflnrstu") {
		t[c] = inert
	}
	t['"'], t['{'], t['['], t['}'], t[']'] = quote, opens, opens, shuts, shuts
	return t
}()
