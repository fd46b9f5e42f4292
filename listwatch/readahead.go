package listwatch

import (
	"net"
	"sync"
)

// bufferPool is a sync.Pool of the buffers of busy connections.
type bufferPool interface {
	Get() any // a *[]byte of aheadBytes
	Put(any)
}

// aheadBytes is how much of a busy connection is read at once: some seven pods in JSON. More
// bring no more speed, see docs/design.md.
const aheadBytes = 64 << 10

// readAhead is a connection that is read in large pieces as long as there is much to read, and that holds no
// memory while it waits, unless what came last filled the caller's buffer to the byte. net/http's own buffer is of one size for as long as the connection
// lives: a small one takes two system calls for an event, a large one is held by each
// idle watch. It stands below TLS, where a read would bring one record at most.
type readAhead struct {
	net.Conn
	buffers bufferPool

	mu    sync.Mutex // guards what follows; reads are one after another, as net.Conn's own
	buf   *[]byte    // nil while nothing is ahead
	ahead []byte     // the part of buf that is not handed out
	err   error      // that came with it
	more  bool       // the last read got all that it could take
}

// Read implements net.Conn.
func (c *readAhead) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buf != nil {
		return c.handOut(p)
	}
	if !c.more || len(p) >= aheadBytes {
		n, err := c.Conn.Read(p)
		c.more = n == len(p)
		return n, err
	}
	c.buf = c.buffers.Get().(*[]byte)
	n, err := c.Conn.Read(*c.buf)
	c.ahead, c.err, c.more = (*c.buf)[:n], err, n == aheadBytes
	return c.handOut(p)
}

// handOut copies what is ahead to p. When that is all, it gives the buffer back and returns the
// error that came with it.
func (c *readAhead) handOut(p []byte) (int, error) {
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) > 0 {
		return n, nil
	}
	c.buffers.Put(c.buf)
	err := c.err
	c.buf, c.ahead, c.err = nil, nil, nil
	return n, err
}

func newAheadBuffers() bufferPool {
	return &sync.Pool{New: func() any {
		buf := make([]byte, aheadBytes)
		return &buf
	}}
}
