package decode

// Parts are what is remembered of the bytes that an object was made of, so that its next
// version costs only what changed. The zero value remembers nothing.
type Parts struct{}

// A Sharer is a Decoder that can make objects for a store which many read and nobody
// writes to. It is safe for use by several goroutines.
type Sharer[T any] interface {
	Decoder[T]
	// DecodeShared is Decode of an object that may share parts with others: equal ones
	// are made once, and those whose bytes are the same as in the version before are taken
	// from there. old is that version and was its Parts; both are zero where there
	// is none, and old must be as it was returned.
	DecodeShared(enc Encoding, raw []byte, old T, was Parts) (T, Parts, error)
}

// A Packer is a Decoder that can keep objects as bytes.
type Packer[T any] interface {
	Decoder[T]
	// Pack copies the object without what the decoder drops.
	Pack(enc Encoding, raw []byte) (Packed[T], error)
}

// Packed is an object kept as bytes. It is immutable.
type Packed[T any] struct {
	dec Decoder[T]
	enc Encoding
	raw string
}

// Decode makes the T. Each call makes a new one.
func (p Packed[T]) Decode() (T, error) { return p.dec.Decode(p.enc, []byte(p.raw)) }

// Size returns how many bytes are kept.
func (p Packed[T]) Size() int { return len(p.raw) }
