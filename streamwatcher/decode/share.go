package decode

import (
	"errors"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/codec"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// Parts are what is remembered of the bytes that an object was made of, so that its next
// version costs only what changed: for each of its larger fields 16 bytes. They mean something to the Decoder
// that made them. They stand in one variable with the strings that are the object's own. The zero value remembers nothing.
type Parts struct{ first *codec.Part }

func (p Parts) list() codec.Parts { return codec.PartsOf(p.first) }

// A Sharer is a Decoder that can make objects for a store which many read and nobody
// writes to. It is safe for use by several goroutines.
type Sharer[T any] interface {
	Decoder[T]
	// DecodeShared is Decode of an object that may share parts with others: equal ones
	// are made once, and those whose bytes are the same as in the version before are taken
	// from there. old is that version and was its Parts; both are zero where there
	// is none, and old must be as it was returned. That is for the caller to keep: what does not belong to
	// old, or was written to, is taken unseen.
	//
	// The object equals that of Decode, but that its quantities have the text which their String
	// caches: who reads it at the same time as others must not find it missing.
	DecodeShared(enc Encoding, raw []byte, old T, was Parts) (T, Parts, error)
}

// A Packer is a Decoder that can keep objects as bytes.
type Packer[T any] interface {
	Decoder[T]
	// Pack copies the object without what the decoder passes over: what is dropped, and what a
	// struct of the caller's own does not name. It looks at no more than that, so what
	// it returns may not decode.
	Pack(enc Encoding, raw []byte) (Packed[T], error)
}

// Packed is an object kept as bytes. It is immutable, and takes 24 bytes besides them.
type Packed[T any] struct {
	by  *packer[T]
	raw string
}

// packer is what the packed objects of one decoder and encoding have in common.
type packer[T any] struct {
	dec Decoder[T]
	enc Encoding
	// byMethod says that methods of the caller's own read the bytes, and may write to them.
	byMethod bool
}

// packers returns those of dec, by encoding.
func packers[T any](dec Decoder[T], byMethod bool) (p [Protobuf + 1]packer[T]) {
	for enc := range p {
		p[enc] = packer[T]{dec, Encoding(enc), byMethod}
	}
	return p
}

// Decode makes the T. Each call makes a new one, which is its caller's alone.
func (p Packed[T]) Decode() (T, error) {
	if p.by == nil {
		var zero T
		return zero, errors.New("decode: the zero Packed has no object")
	}
	raw := layout.BytesOf(p.raw)
	if p.by.byMethod {
		raw = []byte(p.raw)
	}
	return p.by.dec.Decode(p.by.enc, raw)
}

// Text returns the bytes, as they are kept.
func (p Packed[T]) Text() string { return p.raw }
