package frame

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields walks the fields of a protobuf message in memory, whose end may have
// been cut off.
//
//	for f := (frame.Fields{Rest: b}); f.Next(); {
//		switch f.Num { ... f.Bytes ... }
//	}
//	return f.Err
type Fields struct {
	Rest []byte // what is still to be walked

	Num   protowire.Number // of the field at hand
	Type  protowire.Type
	Bytes []byte // its content, for a bytes field

	// Cut is set when the message ends within the content of this field, a bytes
	// field: Bytes is then what there is of it. Next will be false, and Err io.ErrUnexpectedEOF.
	Cut bool
	// Err is why Next was false, nil at the end of a whole message.
	Err error
}

// Next goes to the next field.
func (f *Fields) Next() bool {
	if f.Err != nil || len(f.Rest) == 0 {
		return false
	}
	if r := f.Rest; len(r) >= 2 && r[0] >= 1<<3 && r[0] < 0x80 && r[0]&7 == byte(protowire.BytesType) &&
		r[1] < 0x80 && int(r[1]) <= len(r)-2 {
		// Of fifteen fields of metadata, all but one or two are so short.
		n := 2 + int(r[1])
		f.Num, f.Type, f.Bytes, f.Rest = protowire.Number(r[0]>>3), protowire.BytesType, r[2:n:n], r[n:]
		return true
	}
	num, typ, size := protowire.ConsumeTag(f.Rest)
	if size < 0 {
		return f.fail(size)
	}
	f.Num, f.Type, f.Bytes = num, typ, nil
	f.Rest = f.Rest[size:]
	if typ != protowire.BytesType {
		if size = protowire.ConsumeFieldValue(num, typ, f.Rest); size < 0 {
			return f.fail(size)
		}
		f.Rest = f.Rest[size:]
		return true
	}
	n, size := protowire.ConsumeVarint(f.Rest)
	if size < 0 {
		return f.fail(size)
	}
	f.Rest = f.Rest[size:]
	if n > uint64(len(f.Rest)) {
		f.Cut, f.Err = true, io.ErrUnexpectedEOF
		n = uint64(len(f.Rest))
	}
	f.Bytes, f.Rest = f.Rest[:n:n], f.Rest[n:]
	return true
}

func (f *Fields) fail(code int) bool {
	f.Err = protowire.ParseError(code)
	return false
}
