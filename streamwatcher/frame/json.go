package frame

import "io"

// maxKeyBytes bounds an object's key as it stands in the text.
const maxKeyBytes = 64 << 10

// SkipSpace passes over JSON blanks and returns the byte behind them without
// consuming it. io.EOF says that the stream ended cleanly.
func (r *Reader) SkipSpace() (byte, error) {
	for {
		for ; r.pos < r.end; r.pos++ {
			switch c := r.buf[r.pos]; c {
			case ' ', '\t', '\r', '\n':
			default:
				return c, nil
			}
		}
		if err := r.More(); err != nil {
			return 0, err
		}
	}
}

// SkipValue passes over blanks and one JSON value of any kind.
func (r *Reader) SkipValue() error {
	if _, err := r.SkipSpace(); err != nil {
		return Inside(err)
	}
	return r.eachPiece(func([]byte) error { return nil })
}

// Value passes over blanks and returns the text of the JSON value behind them.
// For a value of more than limit bytes, or one that nests too deep, overflow (or nil) gets the first limit
// bytes, the value is skipped, and the error is a *TooLargeError.
func (r *Reader) Value(limit int, overflow func(head []byte)) ([]byte, error) {
	if _, err := r.SkipSpace(); err != nil {
		return nil, Inside(err)
	}
	r.Keep(limit, overflow)
	if err := r.SkipValue(); err != nil {
		return nil, err
	}
	return r.Kept()
}

// String passes over blanks and returns the content of the JSON string behind
// them. A string whose text has more than limit bytes is a *SyntaxError. It may
// be used between Keep and Kept.
func (r *Reader) String(limit int) ([]byte, error) {
	if c, err := r.SkipSpace(); err != nil {
		return nil, Inside(err)
	} else if c != '"' {
		return nil, r.syntax("a JSON string should stand here")
	}
	from := r.Offset()
	r.scratch = r.scratch[:0]
	err := r.eachPiece(func(p []byte) error {
		if len(r.scratch)+len(p) > limit+len(`""`) {
			return &SyntaxError{Offset: from, Msg: "JSON string that is too long"}
		}
		r.scratch = append(r.scratch, p...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s, ok := Unquote(r.scratch)
	if !ok {
		return nil, &SyntaxError{Offset: from, Msg: "JSON string with a bad escape"}
	}
	return s, nil
}

// eachPiece consumes the value at the reader's position and calls f with each
// piece of it as it comes.
func (r *Reader) eachPiece(f func([]byte) error) error {
	r.scan.Reset()
	r.scan.lax = true
	from := r.Offset()
	for {
		n, done, fault := r.scan.Scan(r.buf[r.pos:r.end])
		if err := f(r.buf[r.pos : r.pos+n]); err != nil {
			return err
		}
		r.pos += n
		size := r.Offset() - from
		switch {
		case fault != "":
			return r.syntax(fault)
		case done:
			r.tooDeep = r.tooDeep || r.scan.tooDeep
			return nil
		case size > MaxValueBytes:
			return &SyntaxError{Offset: from, Msg: "JSON value of more than 1 GiB"}
		}
		if err := r.More(); err != nil {
			return Inside(err)
		}
	}
}

// Object walks the members of a JSON object in the stream.
type Object struct{ list list }

// Object passes over blanks and enters the object behind them.
func (r *Reader) Object() (Object, error) {
	err := r.expect('{')
	return Object{list{r: r, shut: '}'}}, err
}

// Next returns the next key; the caller then consumes the value by any means.
// ok is false, and the object consumed, when there is no more. Keys come in the
// order of the text, repeated ones too.
func (o *Object) Next() (key []byte, ok bool, err error) {
	if ok, err := o.list.next(); !ok {
		return nil, false, err
	}
	if key, err = o.list.r.String(maxKeyBytes); err != nil {
		return nil, false, err
	}
	if err := o.list.r.expect(':'); err != nil {
		return nil, false, err
	}
	return key, true, nil
}

// Array walks the elements of a JSON array in the stream.
type Array struct{ list list }

// Array passes over blanks and enters the array behind them.
func (r *Reader) Array() (Array, error) {
	err := r.expect('[')
	return Array{list{r: r, shut: ']'}}, err
}

// Next tells whether there is another element, which the caller then consumes.
// After the last one the array is consumed.
func (a *Array) Next() (ok bool, err error) { return a.list.next() }

// list is what objects and arrays have in common: elements, commas, an end.
type list struct {
	r     *Reader
	shut  byte
	begun bool
}

func (l *list) next() (ok bool, err error) {
	c, err := l.r.SkipSpace()
	if err != nil {
		return false, Inside(err)
	}
	if c == l.shut {
		l.r.pos++
		return false, nil
	}
	if l.begun {
		if c != ',' {
			return false, l.r.syntax("a comma or the end should stand here")
		}
		l.r.pos++ // behind which the caller finds the element, or no value
	}
	l.begun = true
	return true, nil
}

// expect passes over blanks and consumes c.
func (r *Reader) expect(c byte) error {
	got, err := r.SkipSpace()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if got != c {
		return r.syntax("'" + string(rune(c)) + "' should stand here")
	}
	r.pos++
	return nil
}
