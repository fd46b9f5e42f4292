package frame

import (
	"io"
)

const (
	// startBytes is the size of the first window.
	startBytes = 4 << 10
	// idleBytes is the size of a window that waits with little to do: it has room for a bookmark.
	idleBytes = 512
	// busyBytes is up to where a window grows because each read fills it. Where a value needs
	// more, it grows further.
	busyBytes = 128 << 10
	// restBytes is the largest window that is held while waiting for a new value.
	restBytes = 1 << 20
	// idleWaits is how many waits in a row show that a window is larger than it need be: that of a
	// watch which brings a bookmark a minute, after one event was large. One is not enough: where
	// each event is large, the window would grow anew for each.
	idleWaits = 4
	// minRead is the least room offered to the source, or a quarter of a smaller window.
	minRead = 4 << 10
	// headBytes is how much of a length-delimited value over its limit is shown
	// to the caller. Protobuf metadata stands at the front.
	headBytes = 64 << 10
	// maxEmptyReads is how often the source may return neither bytes nor an error.
	maxEmptyReads = 100

	// MaxValueBytes is the size from which a value is not skipped but taken for
	// garbage: no API server writes 1 GiB in one piece (etcd refuses 1.5 MiB by
	// default), a decompression bomb does.
	MaxValueBytes = 1 << 30
)

// Reader is a window onto a stream. It is not safe for use by several goroutines.
//
// Invariant: buf[:end] is what came, pos the next byte to consume, and while
// bytes are kept 0 <= keep <= pos <= end. Only room moves bytes, only More calls it.
type Reader struct {
	src  io.Reader
	buf  []byte
	pos  int
	end  int
	base int64 // offset in the stream of buf[0]
	err  error // of src, once it failed
	full bool  // the last read filled the window
	idle int   // waits in a row for which a quarter of the window was enough

	keeping  bool
	keep     int   // where the kept bytes begin, in buf; -1 once they were given up
	keepFrom int64 // the same, in the stream
	limit    int
	overflow func(head []byte)
	tooDeep  bool // a value since Keep was

	scan    JSONScanner
	scratch []byte // the string read last
}

// NewReader returns a Reader of src. It reads nothing yet.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Offset is how many bytes were consumed.
func (r *Reader) Offset() int64 { return r.base + int64(r.pos) }

// Window returns the bytes that have come and are not consumed.
func (r *Reader) Window() []byte { return r.buf[r.pos:r.end] }

// Discard consumes n bytes of the window.
func (r *Reader) Discard(n int) {
	if n < 0 || n > r.end-r.pos {
		panic("frame: Discard outside of the window")
	}
	r.pos += n
}

// More waits for at least one more byte. It returns the source's error, io.EOF
// included, when there will be none.
func (r *Reader) More() error {
	if r.err != nil {
		return r.err
	}
	if r.keeping && r.keep >= 0 && r.pos-r.keep >= r.limit {
		r.spill() // the value goes on and has filled its limit
	}
	r.room()
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.full = r.end == len(r.buf)
		r.err = err // for the next call, when bytes came with it
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// room makes room for a read behind buf[end]. The work is in proportion to the
// bytes that came since the last time: a move frees at least half as many bytes as
// it copies, growing doubles, and a window shrinks after four waits that did not fill it.
func (r *Reader) room() {
	from := r.pos
	if r.keeping && r.keep >= 0 {
		from = r.keep
	}
	live := r.end - from
	switch size := len(r.buf); {
	case size > restBytes && live <= restBytes/2:
		r.moveTo(make([]byte, max(startBytes, 2*live)), from)
	case r.full && size < busyBytes:
		r.idle = 0
		r.moveTo(make([]byte, 2*size), from)
	case live == 0 && size > 0:
		buf := r.buf
		if r.idle++; r.end > size/4 {
			r.idle = 0
		} else if size > idleBytes && r.idle >= idleWaits {
			buf = make([]byte, idleBytes)
		}
		r.moveTo(buf, from)
	case size-r.end >= min(minRead, size/4) && size > 0:
	case live <= size/2 && size > 0:
		r.moveTo(r.buf, from)
	default:
		r.moveTo(make([]byte, max(startBytes, 2*size)), from)
	}
}

// moveTo makes buf the window's memory, with what was at from at its front.
func (r *Reader) moveTo(buf []byte, from int) {
	copy(buf, r.buf[from:r.end])
	r.buf = buf
	r.base += int64(from)
	r.pos -= from
	r.end -= from
	if r.keeping && r.keep >= 0 {
		r.keep -= from
	}
}

// Peek returns the next n bytes without consuming them. n is meant to be small:
// all of them are held.
func (r *Reader) Peek(n int) ([]byte, error) {
	for r.end-r.pos < n {
		if err := r.More(); err != nil {
			if r.end > r.pos {
				err = Inside(err)
			}
			return nil, err
		}
	}
	return r.buf[r.pos : r.pos+n : r.pos+n], nil
}

// Skip consumes n bytes without holding them, unless they are kept.
func (r *Reader) Skip(n int64) error {
	for {
		step := min(n, int64(r.end-r.pos))
		r.pos += int(step)
		if n -= step; n == 0 {
			return nil
		}
		if err := r.More(); err != nil {
			return Inside(err)
		}
	}
}

// Keep begins to hold what is consumed from here on, up to limit bytes. When it
// turns out to be more, overflow (which may be nil) is called once with the
// first limit bytes, they are given up, and reading goes on without holding
// anything. So it is at the end with what nests deeper than MaxDepth. Keeping ends with Kept; a second Keep before it starts anew.
func (r *Reader) Keep(limit int, overflow func(head []byte)) {
	r.keeping, r.keep, r.keepFrom = true, r.pos, r.Offset()
	r.limit, r.overflow, r.tooDeep = limit, overflow, false
}

// Kept returns what was consumed since Keep, or a *TooLargeError with its size.
// In both cases reading can go on behind it.
func (r *Reader) Kept() ([]byte, error) {
	size := r.Offset() - r.keepFrom
	if r.keep >= 0 && (size > int64(r.limit) || r.tooDeep) {
		r.spill()
	}
	r.keeping, r.overflow = false, nil
	if r.keep < 0 {
		return nil, &TooLargeError{Size: size, Limit: int64(r.limit), Deep: r.tooDeep}
	}
	return r.buf[r.keep:r.pos:r.pos], nil
}

// spill gives up what is kept.
func (r *Reader) spill() {
	head := r.buf[r.keep : r.keep+min(r.limit, r.pos-r.keep)]
	r.keep = -1
	if r.overflow != nil {
		r.overflow(head)
	}
}

// Inside is err of a source that ended or failed within a token: there io.EOF is
// io.ErrUnexpectedEOF.
func Inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
