package gzipstream

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
)

// observed is a source that gives one of its pieces at a time, and calls before each.
type observed struct {
	pieces [][]byte
	before func(piece int)
	at     int
	rest   []byte
}

func (o *observed) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		o.before(o.at)
		if o.at == len(o.pieces) {
			return 0, io.EOF
		}
		o.rest = o.pieces[o.at]
		o.at++
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// A Reader that waits between two members has nothing of what a member needs; one that waits within a member has it.
func TestWaitsWithNothing(t *testing.T) {
	a, b, c := testkit.GzipMember(t, "a"), testkit.GzipMember(t, strings.Repeat("nodewatch ", 2000)), testkit.GzipMember(t, "c")
	pieces := [][]byte{a, b[:20], b[20:], append(bytes.Clone(c), a...), c[:5], c[5:]}
	within := map[int]bool{2: true, 5: true}
	var z *Reader
	asked := 0
	src := &observed{pieces: pieces, before: func(piece int) {
		asked++
		if busy := z.busy != nil; busy != within[piece] {
			t.Errorf("before piece %d: has the means to unpack: %t", piece, busy)
		}
	}}
	z = NewReader(src)
	got, err := io.ReadAll(z)
	if want := "a" + strings.Repeat("nodewatch ", 2000) + "cac"; err != nil || string(got) != want {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
	if _, err := z.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
	if asked != len(pieces)+2 {
		t.Errorf("asked %d times", asked)
	}
}

// Readers that take turns, each between members of its own, have the same means one after the other. What one
// read is not in what another gets, nor is what was left of a stream that was cut.
func TestReadersTakeTurns(t *testing.T) {
	const readers, members = 5, 20
	text := func(r, m int) string { return strings.Repeat(fmt.Sprintf("reader %d member %d ", r, m), 1+r*m*13) }
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			var stream, want bytes.Buffer
			for m := range members {
				stream.Write(testkit.GzipMember(t, text(r, m)))
				want.WriteString(text(r, m))
			}
			cut := stream.Bytes()[:stream.Len()-9] // within the last one's content
			for name, src := range map[string]io.Reader{"whole": bytes.NewReader(stream.Bytes()), "bytes": iotest.OneByteReader(bytes.NewReader(stream.Bytes()))} {
				if _, err := io.ReadAll(NewReader(bytes.NewReader(cut))); err != io.ErrUnexpectedEOF {
					t.Errorf("a stream that is cut: %v", err)
				}
				if got, err := io.ReadAll(NewReader(src)); err != nil || !bytes.Equal(got, want.Bytes()) {
					t.Errorf("reader %d, %s: %d bytes, %v, want %d", r, name, len(got), err, want.Len())
				}
			}
		})
	}
	wg.Wait()
}

// A source that gives nothing and no error is asked again, and an error that comes with a byte does not lose the byte.
func TestWait(t *testing.T) {
	s := source{Reader: &stutter{"", "x"}}
	if err := s.wait(); err != nil || !s.given {
		t.Fatalf("%v, %t", err, s.given)
	}
	if err := s.wait(); err != nil {
		t.Errorf("for the byte that there is: %v", err)
	}
	b := make([]byte, 4)
	if n, err := s.Read(nil); n != 0 || err != nil || !s.given {
		t.Errorf("an empty read took the byte: %d, %v", n, err)
	}
	if n, err := s.Read(b); n != 1 || err != nil || b[0] != 'x' {
		t.Errorf("%d bytes %q, %v", n, b, err)
	}
	if err := s.wait(); err != io.EOF || s.given {
		t.Errorf("at the end: %v, %t", err, s.given)
	}
}

// stutter gives its strings, one a read, and io.EOF with the last of them and behind it.
type stutter []string

func (s *stutter) Read(p []byte) (n int, err error) {
	if len(*s) > 0 {
		n = copy(p, (*s)[0])
		*s = (*s)[1:]
	}
	if len(*s) == 0 {
		err = io.EOF
	}
	return n, err
}
