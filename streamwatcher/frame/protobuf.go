package frame

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Uvarint reads a base-128 number, as a protobuf length.
func (r *Reader) Uvarint() (uint64, error) {
	for n := 1; ; n++ {
		b, err := r.Peek(n)
		if err != nil {
			return 0, err
		}
		if b[n-1] < 0x80 || n == 10 {
			v, size := protowire.ConsumeVarint(b)
			if size < 0 {
				return 0, r.syntax("protobuf number that is too long")
			}
			r.pos += size
			return v, nil
		}
	}
}

// Tag reads the tag of a protobuf field. io.EOF says that the stream ended
// before it.
func (r *Reader) Tag() (protowire.Number, protowire.Type, error) {
	at := r.Offset()
	v, err := r.Uvarint()
	if err != nil {
		return 0, 0, err
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber { // as are those over 2^31-1
		return 0, 0, &SyntaxError{Offset: at, Msg: "protobuf field with an impossible number"}
	}
	return num, typ, nil
}

// Length reads the length of a bytes field, for Bytes, Skip or a walk of the
// message in it. It reserves nothing: a list is as long as its length says.
func (r *Reader) Length() (int64, error) {
	at := r.Offset()
	v, err := r.Uvarint()
	if err != nil {
		return 0, Inside(err)
	}
	if v > 1<<62 {
		return 0, &SyntaxError{Offset: at, Msg: "protobuf field with an impossible length"}
	}
	return int64(v), nil
}

// Bytes returns the next n bytes. When n is over limit, overflow (or nil) gets
// the head of them, at most 64 KiB, they are skipped, and the error is a
// *TooLargeError; over MaxValueBytes too nothing is read and it is a *SyntaxError.
func (r *Reader) Bytes(n int64, limit int, overflow func(head []byte)) ([]byte, error) {
	if n <= int64(limit) {
		r.Keep(limit, nil)
		if err := r.Skip(n); err != nil {
			return nil, err
		}
		return r.Kept()
	}
	if n > MaxValueBytes {
		return nil, &SyntaxError{Offset: r.Offset(), Msg: "value with a length of more than 1 GiB"}
	}
	head, err := r.Peek(int(min(n, headBytes)))
	if err != nil {
		return nil, Inside(err)
	}
	if overflow != nil {
		overflow(head)
	}
	if err := r.Skip(n); err != nil {
		return nil, err
	}
	return nil, &TooLargeError{Size: n, Limit: int64(limit)}
}

// SkipField passes over the value of a field of type typ.
func (r *Reader) SkipField(typ protowire.Type) error {
	switch typ {
	case protowire.VarintType:
		_, err := r.Uvarint()
		return Inside(err)
	case protowire.Fixed32Type:
		return r.Skip(4)
	case protowire.Fixed64Type:
		return r.Skip(8)
	case protowire.BytesType:
		n, err := r.Length()
		if err != nil {
			return err
		}
		return r.Skip(n)
	}
	// Groups are not used by the API.
	return &SyntaxError{Offset: r.Offset(), Msg: "protobuf field of a type that is not used"}
}
