package gzipstream

import (
	"bufio"
	"compress/flate"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// IsName reports whether a Content-Encoding is gzip, by either of its names (RFC 9110, 8.4.1.3).
func IsName(coding string) bool {
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// Reader decompresses one stream. It is not safe for use by several goroutines.
type Reader struct {
	raw  source
	busy *unpacker // nil while a member is waited for
	part part
	sum  uint32 // CRC-32 of the member's content
	size uint32 // its length modulo 2^32
}

// unpacker is what is needed within a member, 44 KB. A watch has none while it waits, if each event is a
// member of its own, as kube-apiserver's are.
type unpacker struct {
	src   *bufio.Reader // an io.ByteReader, so that flate takes no byte behind the end
	flate io.ReadCloser
}

// unpackers are those that no Reader has. They are one pool for the process: a Reader gives back what it has whenever it
// waits, and what comes next on any watch can have it.
var unpackers = sync.Pool{New: func() any {
	// Small, as a watch that waits within a member holds it; connections are read ahead.
	src := bufio.NewReaderSize(nil, 4<<10)
	return &unpacker{src, flate.NewReader(src)}
}}

// source is the stream. One byte can be read of it and given back.
type source struct {
	io.Reader
	first [1]byte
	given bool
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if !s.given {
		return s.Reader.Read(p)
	}
	n := copy(p, s.first[:])
	s.given = n == 0
	return n, nil
}

// wait waits for a byte, without room for more.
func (s *source) wait() error {
	for !s.given {
		n, err := s.Reader.Read(s.first[:])
		if s.given = n > 0; !s.given && err != nil {
			return err
		}
	}
	return nil
}

// part is what of a member comes next.
type part uint8

const (
	header part = iota
	content
	trailer
)

// Error says that a stream is not gzip, or damaged.
type Error struct{ Msg string }

// Error implements error. It says nothing of the content.
func (e *Error) Error() string { return "gzip: " + e.Msg }

// NewReader returns a Reader of src. It reads nothing yet.
func NewReader(src io.Reader) *Reader { return &Reader{raw: source{Reader: src}} }

// Read implements io.Reader. io.EOF comes only between two members or where there is
// none at all; within one it is io.ErrUnexpectedEOF. What is not gzip is an *Error;
// other errors are the source's.
func (z *Reader) Read(p []byte) (int, error) {
	for {
		switch z.part {
		case header:
			if !z.ahead() {
				if err := z.raw.wait(); err != nil {
					return 0, err
				}
			}
			if err := z.begin(); err != nil {
				return 0, err
			}
		case content:
			n, err := z.busy.flate.Read(p)
			z.sum = crc32.Update(z.sum, crc32.IEEETable, p[:n])
			z.size += uint32(n)
			if err == io.EOF {
				z.part, err = trailer, nil
			}
			if n > 0 || err != nil {
				return n, flateError(err)
			}
		case trailer:
			if err := z.readTrailer(); err != nil {
				return 0, err
			}
		}
	}
}

// ahead tells whether there is something to unpack already. If not, what only a member needs is given back.
func (z *Reader) ahead() bool {
	if z.busy == nil {
		return false
	}
	if z.busy.src.Buffered() > 0 {
		return true
	}
	z.busy.src.Reset(nil)
	unpackers.Put(z.busy)
	z.busy = nil
	return false
}

// begin reads a member's header and makes the decompressor ready for its content. It is not inlined, so that a
// watch that waits in Read does not hold what this needs of the stack.
//
//go:noinline
func (z *Reader) begin() error {
	if z.busy == nil {
		z.busy = unpackers.Get().(*unpacker)
		z.busy.src.Reset(&z.raw)
	}
	if err := z.readHeader(); err != nil {
		return err
	}
	z.part, z.sum, z.size = content, 0, 0
	return z.busy.flate.(flate.Resetter).Reset(z.busy.src, nil) // fails never, by its documentation
}

// Flags of a header, RFC 1952 section 2.3.1. The lowest says that the content
// is probably text.
const (
	flagSum      = 1 << 1
	flagExtra    = 1 << 2
	flagName     = 1 << 3
	flagComment  = 1 << 4
	flagReserved = 0xe0
)

// maxHeaderText bounds the file name and the comment, which nobody needs here.
const maxHeaderText = 64 << 10

// readHeader reads a member's header; io.EOF when there is none.
func (z *Reader) readHeader() error {
	var fixed [10]byte
	if n, err := io.ReadFull(z.busy.src, fixed[:]); err != nil {
		if n >= 2 && (fixed[0] != 0x1f || fixed[1] != 0x8b) {
			return &Error{"not a gzip member"}
		}
		return err // io.EOF for nothing at all, else io.ErrUnexpectedEOF
	}
	if fixed[0] != 0x1f || fixed[1] != 0x8b {
		return &Error{"not a gzip member"}
	}
	flags := fixed[3]
	if fixed[2] != 8 || flags&flagReserved != 0 {
		return &Error{"member compressed in an unknown way"}
	}
	sum := crc32.ChecksumIEEE(fixed[:])
	if flags&flagExtra != 0 {
		size, err := z.headerBytes(2, &sum)
		if err != nil {
			return err
		}
		if _, err := z.headerBytes(int(binary.LittleEndian.Uint16(size)), &sum); err != nil {
			return err
		}
	}
	for _, text := range []byte{flagName, flagComment} {
		if flags&text != 0 {
			if err := z.headerText(&sum); err != nil {
				return err
			}
		}
	}
	if flags&flagSum != 0 {
		want := uint16(sum)
		got, err := z.headerBytes(2, &sum)
		if err != nil {
			return err
		}
		if binary.LittleEndian.Uint16(got) != want {
			return &Error{"header with a wrong checksum"}
		}
	}
	return nil
}

// headerBytes reads n bytes, at most 64 KiB by the width of their length.
func (z *Reader) headerBytes(n int, sum *uint32) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(z.busy.src, b); err != nil {
		return nil, frame.Inside(err)
	}
	*sum = crc32.Update(*sum, crc32.IEEETable, b)
	return b, nil
}

// headerText passes over a text that ends with a zero byte.
func (z *Reader) headerText(sum *uint32) error {
	for range maxHeaderText {
		c, err := z.busy.src.ReadByte()
		if err != nil {
			return frame.Inside(err)
		}
		*sum = crc32.Update(*sum, crc32.IEEETable, []byte{c})
		if c == 0 {
			return nil
		}
	}
	return &Error{"header with a text of more than 64 KiB"}
}

// readTrailer compares what was read with what the member says it was.
func (z *Reader) readTrailer() error {
	var b [8]byte
	if _, err := io.ReadFull(z.busy.src, b[:]); err != nil {
		return frame.Inside(err)
	}
	if binary.LittleEndian.Uint32(b[:4]) != z.sum || binary.LittleEndian.Uint32(b[4:]) != z.size {
		return &Error{"content that does not match its checksum"}
	}
	z.part = header
	return nil
}

// flateError tells damaged content from a failed read.
func flateError(err error) error {
	var corrupt flate.CorruptInputError
	var internal flate.InternalError
	if errors.As(err, &corrupt) || errors.As(err, &internal) {
		return &Error{err.Error()}
	}
	return err
}
