package frame

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/encoding/protowire"
)

func message() []byte {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, "hello")
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, math.MaxUint64)
	b = protowire.AppendTag(b, 3, protowire.Fixed32Type)
	b = protowire.AppendFixed32(b, 7)
	b = protowire.AppendTag(b, 4, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, 8)
	b = protowire.AppendTag(b, 536870911, protowire.BytesType)
	return protowire.AppendBytes(b, nil)
}

func TestFieldsOfAStream(t *testing.T) {
	each(t, string(message()), func(t *testing.T, r *Reader) {
		num, typ, err := r.Tag()
		if num != 1 || typ != protowire.BytesType || err != nil {
			t.Fatalf("%d, %v, %v", num, typ, err)
		}
		n, err := r.Length()
		if n != 5 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if b, err := r.Bytes(n, 100, nil); string(b) != "hello" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		for _, want := range []protowire.Number{2, 3, 4, 536870911} {
			num, typ, err := r.Tag()
			if num != want || err != nil {
				t.Fatalf("%d, %v, want %d", num, err, want)
			}
			if err := r.SkipField(typ); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := r.Tag(); err != io.EOF {
			t.Errorf("at the end: %v, want io.EOF", err)
		}
	})
}

func TestFieldsOfAStreamCutOff(t *testing.T) {
	whole := message()
	for i := range len(whole) {
		r := NewReader(iotest.OneByteReader(bytes.NewReader(whole[:i])))
		err := error(nil)
		for err == nil {
			var typ protowire.Type
			at := r.Offset()
			if _, typ, err = r.Tag(); err == io.EOF {
				if at != int64(i) {
					t.Errorf("cut at %d: io.EOF at %d", i, at)
				}
				break
			}
			if err == nil {
				if err = r.SkipField(typ); err == io.EOF {
					t.Errorf("cut at %d: io.EOF inside a field", i)
				}
			}
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

func TestImpossibleFields(t *testing.T) {
	for name, text := range map[string]string{
		"field 0":        "\x00\x00",
		"long number":    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"field too high": "\xff\xff\xff\xff\xff\x01",
		"group":          "\x0b",
		"length":         "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		r := NewReader(strings.NewReader(text))
		_, typ, err := r.Tag()
		if err == nil {
			err = r.SkipField(typ)
		}
		if !errors.As(err, new(*SyntaxError)) {
			t.Errorf("%s: %v, want a SyntaxError", name, err)
		}
	}
}

func TestBytesOverTheLimit(t *testing.T) {
	for n := int64(9); n <= 11; n++ {
		value := strings.Repeat("x", int(n))
		each(t, value+"!", func(t *testing.T, r *Reader) {
			var head string
			b, err := r.Bytes(n, 10, func(h []byte) { head = string(h) })
			if n <= 10 {
				if string(b) != value || err != nil {
					t.Fatalf("%q, %v", b, err)
				}
			} else if tooLarge := (*TooLargeError)(nil); !errors.As(err, &tooLarge) || tooLarge.Size != n || head != value {
				t.Fatalf("%v, head %q", err, head)
			}
			if b, err := r.Peek(1); err != nil || b[0] != '!' {
				t.Errorf("behind it: %q, %v", b, err)
			}
		})
	}
	r := NewReader(iotest.ErrReader(errors.New("nothing should be read")))
	if _, err := r.Bytes(MaxValueBytes+1, 10, nil); !errors.As(err, new(*SyntaxError)) {
		t.Errorf("over 1 GiB: %v", err)
	}
	if r.buf != nil {
		t.Errorf("%d bytes allocated for a length that cannot be", len(r.buf))
	}
}

func TestFieldsInMemory(t *testing.T) {
	whole := message()
	f := Fields{Rest: whole}
	var nums []protowire.Number
	for f.Next() {
		nums = append(nums, f.Num)
		if f.Num == 1 && string(f.Bytes) != "hello" {
			t.Errorf("field 1 is %q", f.Bytes)
		}
	}
	if f.Err != nil || len(nums) != 5 {
		t.Fatalf("fields %v, %v", nums, f.Err)
	}
	// Cut in field 1: what there is of it, then the error.
	f = Fields{Rest: whole[:4]}
	if !f.Next() || !f.Cut || string(f.Bytes) != "he" {
		t.Errorf("cut field: %q, cut %v", f.Bytes, f.Cut)
	}
	if f.Next() || f.Err != io.ErrUnexpectedEOF {
		t.Errorf("behind it: %v", f.Err)
	}
}

// FuzzFields: the walk in memory and the walk in a stream see the same fields.
func FuzzFields(f *testing.F) {
	f.Add(message())
	f.Add([]byte("\x0a\x05ab"))
	f.Add([]byte("k8s\x00\x0a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields := Fields{Rest: b}
		r := NewReader(iotest.OneByteReader(bytes.NewReader(b)))
		for fields.Next() {
			if fields.Type == protowire.StartGroupType {
				return
			}
			num, typ, err := r.Tag()
			if err != nil || num != fields.Num || typ != fields.Type {
				t.Fatalf("stream: %d %v %v; memory: %d %v", num, typ, err, fields.Num, fields.Type)
			}
			if err := r.SkipField(typ); (err != nil) != fields.Cut {
				t.Fatalf("stream: %v; memory: cut %v", err, fields.Cut)
			}
		}
		if fields.Err == nil {
			if _, _, err := r.Tag(); err != io.EOF {
				t.Fatalf("stream: %v; memory: the end", err)
			}
		}
	})
}
