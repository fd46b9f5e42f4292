package listwatchtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// pipeListener accepts in-memory connections.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	reset := &atomic.Bool{}
	client, server := &pipeConn{a, reset}, &pipeConn{b, reset}
	var err error
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.done:
		err = net.ErrClosed
	}
	return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: errors.Join(err, client.Close(), server.Close())}
}

// pipeConn is an end of an in-memory connection that can be reset.
type pipeConn struct {
	net.Conn
	reset *atomic.Bool // of both ends
}

// Reset closes the connection; the other end sees that of a peer that vanished.
func (c *pipeConn) Reset() error {
	c.reset.Store(true)
	return c.Conn.Close()
}

func (c *pipeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "pipe", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "listwatchtest" }

// gate is what all connections pass through, so that all can be held or closed.
type gate struct {
	mu    sync.Mutex
	pass  chan struct{} // closed while traffic may pass
	conns map[*gatedConn]struct{}
}

func (g *gate) init() {
	g.pass = make(chan struct{})
	close(g.pass)
	g.conns = make(map[*gatedConn]struct{})
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.pass:
		g.pass = make(chan struct{})
	default:
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.pass:
	default:
		close(g.pass)
	}
}

func (g *gate) passable() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pass
}

func (g *gate) add(c *gatedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
}

func (g *gate) drop(c *gatedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

func (g *gate) closeAll() {
	g.mu.Lock()
	conns := make([]*gatedConn, 0, len(g.conns))
	for c := range g.conns {
		conns = append(conns, c)
	}
	g.mu.Unlock()
	for _, c := range conns {
		// What can fail is closing a socket that the client closed before.
		_ = c.Close()
	}
}

// gatedListener puts its connections behind a gate.
type gatedListener struct {
	net.Listener
	server *Server
}

func (l *gatedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch conn := conn.(type) {
		case *returnedConn: // is behind the gate already
			return conn, nil
		case *net.TCPConn:
			// A listener cannot refuse: what a script refuses is reset at once.
			if p := l.server.playing.Load(); p != nil && p.dial(l.server.lifetime()) != nil {
				_ = resetConn(conn) // of no interest: the client may have closed it
				continue
			}
		}
		c := &gatedConn{Conn: conn, gate: &l.server.gate, done: make(chan struct{})}
		l.server.gate.add(c)
		return c, nil
	}
}

// returnedConn is a connection that a script gave back: net/http takes it as a
// new one. What the client has sent meanwhile is still to be read.
type returnedConn struct {
	net.Conn
	rest *bufio.Reader
}

func (c *returnedConn) Read(p []byte) (int, error) {
	if c.rest.Buffered() > 0 {
		return c.rest.Read(p)
	}
	return c.Conn.Read(p)
}

// gatedConn is a server's connection whose reads and writes wait at the gate.
type gatedConn struct {
	net.Conn
	gate *gate
	once sync.Once
	done chan struct{} // closed by Close
	err  error
}

func (c *gatedConn) wait() error {
	select {
	case <-c.gate.passable():
		return nil
	case <-c.done:
		return net.ErrClosed
	}
}

// Read waits after reading: bytes that came before the gate shut and those
// that come while it is shut are both held back.
func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	// net/http breaks a read with a deadline to take its connection back; that
	// must not wait.
	if n > 0 {
		if err := c.wait(); err != nil {
			return 0, err
		}
	}
	return n, err
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *gatedConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.gate.drop(c)
		c.err = c.Conn.Close()
	})
	return c.err
}

var _ net.Listener = (*pipeListener)(nil)
