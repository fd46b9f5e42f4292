package frame

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// SyntaxError says that the bytes are not what they should be. The stream
// cannot be read on.
type SyntaxError struct {
	Offset int64 // of the byte that is wrong
	Msg    string
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.Msg + " at byte " + strconv.FormatInt(e.Offset, 10) }

// TooLargeError says that one value was over its limit. It was skipped: what
// comes behind it can be read.
type TooLargeError struct {
	Size  int64 // bytes of the whole value
	Limit int64
	Deep  bool // it nests deeper than MaxDepth, whatever its size
}

// Error implements error.
func (e *TooLargeError) Error() string {
	if e.Deep {
		return fmt.Sprintf("%d bytes that nest deeper than %d levels", e.Size, MaxDepth)
	}
	return fmt.Sprintf("%d bytes, more than the limit of %d", e.Size, e.Limit)
}

// syntax reports the byte at the reader's position. It names that one byte and
// never what stands around it: that may be the content of a Secret.
func (r *Reader) syntax(msg string) error {
	if r.pos < r.end {
		msg = fmt.Sprintf("%s, not %q", msg, rune(r.buf[r.pos]))
	}
	return &SyntaxError{Offset: r.Offset(), Msg: msg}
}

// Snippet returns the beginning of b, quoted and in plain ASCII, for an error
// about something that is not an object of the API at all, as a login page.
func Snippet(b []byte) string {
	const most = 48
	more := ""
	if len(b) > most {
		b, more = b[:most], "..."
		// A rune that the cut has halved is left out.
		for i := 1; i < utf8.UTFMax && i < len(b); i++ {
			if c := b[len(b)-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(b[len(b)-i:]) {
					b = b[:len(b)-i]
				}
				break
			}
		}
	}
	return strconv.QuoteToASCII(string(b)) + more
}
