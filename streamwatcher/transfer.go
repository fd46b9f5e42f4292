package streamwatcher

import (
	"io"
	"sync/atomic"
)

// Transfer counts what came; its methods are safe from any goroutine. The zero value
// is ready. One Transfer may be shared by any number of streams, at one time or
// one after another: it is their sum, and never goes back.
type Transfer struct{ wire, decoded, skipped atomic.Uint64 }

// WireBytes is what came in bodies, before decompression.
func (t *Transfer) WireBytes() uint64 { return t.wire.Load() }

// DecodedBytes is the same after decompression.
func (t *Transfer) DecodedBytes() uint64 { return t.decoded.Load() }

// Skipped is how many objects were passed over, not decoded: the caller has no use for
// them (Config.Skip).
func (t *Transfer) Skipped() uint64 { return t.skipped.Load() }

// AddSkipped counts one object more that was passed over, for readers of a LIST.
func (t *Transfer) AddSkipped() { t.skipped.Add(1) }

// AddWire and AddDecoded count n bytes more, for readers of other bodies (a LIST)
// that are to stand in the same sum.
func (t *Transfer) AddWire(n int) { t.wire.Add(uint64(n)) }

// AddDecoded is described at AddWire.
func (t *Transfer) AddDecoded(n int) { t.decoded.Add(uint64(n)) }

// Decoded returns r, what comes out of decompression, with its bytes counted.
func (t *Transfer) Decoded(r io.Reader) io.Reader { return &decodedReader{r, t} }

type decodedReader struct {
	r        io.Reader
	transfer *Transfer
}

func (d *decodedReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.transfer.AddDecoded(n)
	return n, err
}
