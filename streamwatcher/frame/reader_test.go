package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readers give the same bytes in different pieces.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":      func(r io.Reader) io.Reader { return r },
	"one byte":   iotest.OneByteReader,
	"half":       iotest.HalfReader,
	"data error": iotest.DataErrReader,
}

// each runs f on the same input cut in each of these ways.
func each(t *testing.T, input string, f func(t *testing.T, r *Reader)) {
	t.Helper()
	for name, cut := range readers {
		t.Run(name, func(t *testing.T) { f(t, NewReader(cut(strings.NewReader(input)))) })
	}
}

func TestValuesOneAfterAnother(t *testing.T) {
	input := " {\"a\":[1,{\"b\":\"}]\\\"\"}]}\r\n[ ]\"x\\\\\" -1.5e3 null\t{}{\"k\"\n:\ntrue}"
	want := []string{`{"a":[1,{"b":"}]\""}]}`, `[ ]`, `"x\\"`, `-1.5e3`, `null`, `{}`, "{\"k\"\n:\ntrue}"}
	each(t, input, func(t *testing.T, r *Reader) {
		for _, w := range want {
			got, err := r.Value(100, nil)
			if err != nil || string(got) != w {
				t.Fatalf("got %q, %v, want %q", got, err, w)
			}
		}
		if _, err := r.SkipSpace(); err != io.EOF {
			t.Errorf("at the end: %v, want io.EOF", err)
		}
		if r.Offset() != int64(len(input)) {
			t.Errorf("offset %d, want %d", r.Offset(), len(input))
		}
	})
}

func TestValueOverItsLimitCostsOnlyItself(t *testing.T) {
	for size := 98; size <= 102; size++ {
		big := `{"a":"` + strings.Repeat("x", size-8) + `"}`
		each(t, big+"\n{\"small\":1} ", func(t *testing.T, r *Reader) {
			var head []byte
			calls := 0
			got, err := r.Value(100, func(h []byte) { calls++; head = bytes.Clone(h) })
			if size <= 100 {
				if err != nil || string(got) != big || calls != 0 {
					t.Fatalf("%d bytes: %v, %d calls of overflow", size, err, calls)
				}
			} else {
				var tooLarge *TooLargeError
				if !errors.As(err, &tooLarge) || tooLarge.Size != int64(size) || tooLarge.Limit != 100 {
					t.Fatalf("%d bytes: %v, want a TooLargeError of that size", size, err)
				}
				if calls != 1 || string(head) != big[:100] {
					t.Errorf("%d bytes: overflow called %d times, with %q", size, calls, head)
				}
			}
			if got, err = r.Value(100, nil); err != nil || string(got) != `{"small":1}` {
				t.Errorf("the value behind it: %q, %v", got, err)
			}
		})
	}
}

// endless is a source of n bytes that are made on the fly.
type endless struct {
	n     int
	piece []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.piece)
	n = min(n, e.n)
	e.n -= n
	return n, nil
}

// "The rest is read and dropped": memory does not follow the size of the value.
func TestSkippedValueIsNotHeld(t *testing.T) {
	pad := &endless{n: 24 << 20, piece: bytes.Repeat([]byte("x"), 64<<10)}
	r := NewReader(io.MultiReader(strings.NewReader(`"`), pad, strings.NewReader(`" 1 `)))
	_, err := r.Value(1<<20, nil)
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Size != 24<<20+2 {
		t.Fatalf("got %v", err)
	}
	if got, err := r.Value(10, nil); err != nil || string(got) != "1" {
		t.Errorf("behind it: %q, %v", got, err)
	}
	if len(r.buf) > restBytes {
		t.Errorf("%d bytes held", len(r.buf))
	}
}

// A value without end is given up, not skipped for ever.
func TestValueOfMoreThanAGiB(t *testing.T) {
	reads := 0
	var r *Reader
	r = NewReader(readFunc(func(p []byte) (int, error) {
		if reads++; reads > 1 {
			r.base += MaxValueBytes / 4 // as if so much had come
		}
		return copy(p, `"xxx`[min(reads-1, 1):]), nil
	}))
	if err := r.SkipValue(); !errors.As(err, new(*SyntaxError)) || reads > 6 {
		t.Errorf("%v after %d reads", err, reads)
	}
}

func TestWindowFollowsWhatArrivedAndShrinks(t *testing.T) {
	// A length of 30 MiB with ten bytes behind it.
	r := NewReader(strings.NewReader("0123456789"))
	if _, err := r.Bytes(30<<20, 32<<20, nil); err != io.ErrUnexpectedEOF {
		t.Fatalf("got %v", err)
	}
	if len(r.buf) != startBytes {
		t.Errorf("a window of %d bytes for 10 that came", len(r.buf))
	}

	huge := strings.Repeat("x", 5<<20)
	waits := 0
	src := readFunc(func(p []byte) (int, error) {
		if waits++; waits == 1 {
			return copy(p, "1 "), nil
		}
		return 0, io.EOF
	})
	r = NewReader(io.MultiReader(strings.NewReader(`"`+huge+`" `), src))
	if got, err := r.Value(8<<20, nil); err != nil || len(got) != len(huge)+2 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if len(r.buf) < len(huge) || len(r.buf) > 4*len(huge) {
		t.Errorf("a window of %d bytes for a value of %d", len(r.buf), len(huge))
	}
	if got, err := r.Value(10, nil); err != nil || string(got) != "1" {
		t.Fatalf("%q, %v", got, err)
	}
	if len(r.buf) > restBytes {
		t.Errorf("a window of %d bytes after the huge value, want at most %d", len(r.buf), restBytes)
	}
}

// One large value does not cost its window for as long as the stream lives; many do
// not make it grow anew each time.
func TestWindowOfAnIdleStream(t *testing.T) {
	large, small := `"`+strings.Repeat("x", 300<<10)+`"`, `{"kind":"bookmark"}`
	var values []string
	for range 10 {
		values = append(values, large, large, small, small)
	}
	for range idleWaits + 2 {
		values = append(values, small)
	}
	values = append(values, large, large, small)
	// A read never brings more than what is left of one value.
	var sources []io.Reader
	for _, v := range values {
		sources = append(sources, strings.NewReader(v+"\n"))
	}
	r := NewReader(io.MultiReader(sources...))
	windows := 0
	last := 0
	for i, v := range values {
		got, err := r.Value(1<<20, nil)
		if err != nil || string(got) != v {
			t.Fatalf("value %d: %d bytes, %v", i, len(got), err)
		}
		if len(r.buf) < last {
			windows++
			if v != small {
				t.Errorf("value %d: the window shrinks from %d to %d bytes while large values come", i, last, len(r.buf))
			}
		}
		last = len(r.buf)
		if i == 40+idleWaits+1 && last != idleBytes {
			t.Errorf("a window of %d bytes after %d small values, want %d", last, idleWaits+2, idleBytes)
		}
	}
	if windows != 1 {
		t.Errorf("the window shrank %d times, want once", windows)
	}
}

// A window that has shrunk and grown again does not shrink at the next small read.
func TestWindowDoesNotFlap(t *testing.T) {
	sizes := []int{32 << 10, 32 << 10, 32 << 10, 32 << 10, 4 << 10}
	reads, windows, last := 0, 0, 0
	var r *Reader
	left := 0 // of what the source has at hand, as a decompressor does
	r = NewReader(readFunc(func(p []byte) (int, error) {
		if left == 0 {
			left = sizes[reads%len(sizes)]
			reads++
		}
		if len(r.buf) != last {
			windows, last = windows+1, len(r.buf)
		}
		n := min(left, len(p))
		left -= n
		for i := range n {
			p[i] = ' '
		}
		return n, nil
	}))
	for reads < 1000 {
		if err := r.Skip(1); err != nil {
			t.Fatal(err)
		}
		r.Discard(len(r.Window()))
	}
	if windows > 20 {
		t.Errorf("%d windows in %d reads", windows, reads)
	}
}

// A window grows while each read fills it, up to where more is of no use, and not
// for events that come one by one.
func TestWindowOfABusyStream(t *testing.T) {
	value := `"` + strings.Repeat("x", 3000) + `"`
	one := readFunc(func(p []byte) (int, error) { return copy(p, value+"\n"), nil })
	r := NewReader(one)
	for range 50 {
		if got, err := r.Value(1<<20, nil); err != nil || string(got) != value {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if len(r.buf) > 2*startBytes {
		t.Errorf("a window of %d bytes for reads of %d", len(r.buf), len(value)+1)
	}
	reads := 0
	pad := &endless{n: 50 << 20, piece: bytes.Repeat([]byte("1 "), 1<<20)}
	r = NewReader(readFunc(func(p []byte) (int, error) { reads++; return pad.Read(p) }))
	for range 1 << 18 {
		if _, err := r.Value(10, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.buf) != busyBytes {
		t.Errorf("a window of %d bytes for a source that fills any, want %d", len(r.buf), busyBytes)
	}
	if most := 1<<19/(busyBytes/2) + 10; reads > most {
		t.Errorf("%d reads of 512 KiB, want at most %d", reads, most)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// "Bytes are looked at once": the bytes that are moved grow with the input, not
// with its square. 1 MiB one byte a read would take minutes otherwise; here the
// moves are counted.
func TestMovesAreLinear(t *testing.T) {
	const size = 1 << 20
	input := `"` + strings.Repeat("x", size) + `" `
	r := NewReader(iotest.OneByteReader(strings.NewReader(strings.Repeat(input, 3))))
	moved, last := 0, 0
	for range 3 {
		r.Keep(2*size, nil)
		if _, err := r.SkipSpace(); err != nil {
			t.Fatal(err)
		}
		r.scan.Reset()
		for {
			n, done, fault := r.scan.Scan(r.Window())
			if len(r.Window()) > 1 || fault != "" {
				t.Fatalf("%d bytes to look at, %s", len(r.Window()), fault)
			}
			r.Discard(n)
			if done {
				break
			}
			before := r.base
			if err := r.More(); err != nil {
				t.Fatal(err)
			}
			if r.base != before || len(r.buf) != last {
				moved += r.end - 1
				last = len(r.buf)
			}
		}
		if _, err := r.Kept(); err != nil {
			t.Fatal(err)
		}
	}
	if moved > 3*3*size {
		t.Errorf("%d bytes moved for %d read", moved, 3*size)
	}
}

func TestErrorsOfTheSource(t *testing.T) {
	boom := errors.New("boom")
	cases := []struct {
		name string
		src  io.Reader
		want error
	}{
		{"between values", strings.NewReader("{} \n"), io.EOF},
		{"inside a value", strings.NewReader(`{} {"a":`), io.ErrUnexpectedEOF},
		{"inside a string", strings.NewReader(`{} "a`), io.ErrUnexpectedEOF},
		{"failed between", io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(boom)), boom},
		{"failed inside", io.MultiReader(strings.NewReader("{}["), iotest.ErrReader(boom)), boom},
		{"neither bytes nor error", io.MultiReader(strings.NewReader("{}["), readFunc(func([]byte) (int, error) { return 0, nil })), io.ErrNoProgress},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader(c.src)
			if _, err := r.Value(100, nil); err != nil {
				t.Fatal(err)
			}
			_, err := r.SkipSpace()
			if err == nil {
				_, err = r.Value(100, nil)
			}
			if err != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if again := r.More(); again == nil {
				t.Error("an error should be sticky")
			}
		})
	}
}

func TestPeekAndSkip(t *testing.T) {
	each(t, "abcdefgh", func(t *testing.T, r *Reader) {
		if b, err := r.Peek(3); err != nil || string(b) != "abc" {
			t.Fatalf("Peek(3): %q, %v", b, err)
		}
		if r.Offset() != 0 {
			t.Errorf("Peek consumed %d bytes", r.Offset())
		}
		if err := r.Skip(5); err != nil {
			t.Fatal(err)
		}
		if b, err := r.Peek(4); err != io.ErrUnexpectedEOF {
			t.Errorf("Peek over the end: %q, %v", b, err)
		}
		if err := r.Skip(4); err != io.ErrUnexpectedEOF {
			t.Errorf("Skip over the end: %v", err)
		}
		if _, err := r.Peek(1); err != io.EOF {
			t.Errorf("Peek at the end: %v, want io.EOF", err)
		}
	})
}

func TestDiscardOutsideOfTheWindowPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewReader(strings.NewReader("abc")).Discard(1)
}

func ExampleReader_Value() {
	body := `{"kind":"PodList","items":[{"a":1}, {"b":2}],"metadata":{"resourceVersion":"5"}}`
	r := NewReader(strings.NewReader(body))
	list, _ := r.Object()
	for {
		key, ok, err := list.Next()
		if !ok {
			fmt.Println(err)
			return
		}
		if string(key) != "items" {
			_ = r.SkipValue()
			continue
		}
		items, _ := r.Array()
		for {
			if ok, _ := items.Next(); !ok {
				break
			}
			item, _ := r.Value(1<<20, nil)
			fmt.Printf("%s\n", item)
		}
	}
	// Output:
	// {"a":1}
	// {"b":2}
	// <nil>
}
