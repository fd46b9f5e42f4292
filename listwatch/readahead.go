package listwatch

import (
	"crypto/tls"
	"net"
	"sync"
	"syscall"
)

// aheadSizes are how much of a busy connection is read at once. The first is some seven pods in JSON. The
// larger ones are for who falls behind a server that sends as fast as it can, as with a list or after an outage: fewer reads
// wake the server less often, which costs both more than the reads. More bring no more speed, see docs/design.md.
var aheadSizes = [...]int{64 << 10, 256 << 10, 1 << 20}

// aheadBuffers are the buffers of busy connections, one pool for each of aheadSizes.
type aheadBuffers [len(aheadSizes)]bufferPool

// bufferPool is a sync.Pool of *[]byte.
type bufferPool interface {
	Get() any
	Put(any)
}

// readAhead is a connection that is read in large pieces as long as there is much to read, and that holds no
// memory while it waits. net/http's own buffer is of one size for as long as the connection
// lives: a small one takes two system calls for an event, a large one is held by each
// idle watch. It stands below TLS, where a read would bring one record at most.
type readAhead struct {
	net.Conn
	buffers *aheadBuffers
	// tryRead reads what is there and waits for nothing: it returns 0 and no error if nothing is, or if only a read
	// that waits can tell what is wrong. nil if the connection is none of package net's: then a read that waits may hold the
	// smallest buffer.
	tryRead func(p []byte) (int, error)

	mu    sync.Mutex // guards what follows; reads are one after another, as net.Conn's own
	step  int        // of aheadSizes, how many are in reach of the next read
	buf   *[]byte    // nil while nothing is ahead
	from  int        // the pool of buf
	ahead []byte     // the part of buf that is not handed out
	err   error      // that came with it
}

func newReadAhead(conn net.Conn, buffers *aheadBuffers) *readAhead {
	c := &readAhead{Conn: conn, buffers: buffers}
	// Not whatever is a syscall.Conn: one that embeds a connection has its SyscallConn, and a Read of its own.
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := conn.(syscall.Conn).SyscallConn(); err == nil {
			c.tryRead = nonblockingRead(conn, raw)
		}
	}
	return c
}

// aheadOf returns the readAhead that conn is, or that TLS is spoken over, nil if that cannot be told.
func aheadOf(conn net.Conn) *readAhead {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	c, _ := conn.(*readAhead)
	return c
}

// Arrived returns how many bytes, of those on the wire, can be read without waiting, as far as they were read ahead. Of a busy connection it
// looks for more: where nothing is ahead, or less than a quarter of the largest buffer. A smaller one is not topped up, but exchanged when it is empty.
func (c *readAhead) Arrived() int {
	if !c.mu.TryLock() {
		return 0 // a Read is under way
	}
	defer c.mu.Unlock()
	if c.tryRead == nil || c.err != nil || c.step == 0 {
		return len(c.ahead)
	}
	switch {
	case c.buf == nil:
		c.fill()
	case c.from == len(aheadSizes)-1 && len(c.ahead) < len(*c.buf)/4:
		held := copy(*c.buf, c.ahead)
		n, err := c.tryRead((*c.buf)[held:])
		c.ahead, c.err = (*c.buf)[:held+n], err
	}
	return len(c.ahead)
}

// Read implements net.Conn.
func (c *readAhead) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buf != nil || c.step > 0 && len(p) < aheadSizes[c.step-1] && c.fill() {
		return c.handOut(p)
	}
	n, err := c.Conn.Read(p)
	c.step = 0
	if n == len(p) {
		c.step = 1
	}
	return n, err
}

// fill reads ahead, and tells whether something came. The next time it reads more or less by how much that was.
func (c *readAhead) fill() (came bool) {
	c.from = c.step - 1
	c.buf = c.buffers[c.from].Get().(*[]byte)
	size := len(*c.buf)
	read := c.tryRead
	if read == nil {
		read = c.Conn.Read
	}
	n, err := read(*c.buf)
	switch {
	case n == 0 && err == nil:
		c.release()
		return false
	case c.tryRead == nil:
		if n < size {
			c.step = 0
		}
	case n == size:
		c.step = min(c.step+1, len(aheadSizes))
	case n < size/4:
		c.step--
	}
	c.ahead, c.err = (*c.buf)[:n], err
	return true
}

// handOut copies what is ahead to p. When that is all, it gives the buffer back and returns the
// error that came with it.
func (c *readAhead) handOut(p []byte) (int, error) {
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) > 0 {
		return n, nil
	}
	err := c.err
	c.release()
	return n, err
}

func (c *readAhead) release() {
	c.buffers[c.from].Put(c.buf)
	c.buf, c.ahead, c.err = nil, nil, nil
}

func newAheadBuffers() *aheadBuffers {
	b := new(aheadBuffers)
	for i, size := range aheadSizes {
		b[i] = &sync.Pool{New: func() any {
			buf := make([]byte, size)
			return &buf
		}}
	}
	return b
}
