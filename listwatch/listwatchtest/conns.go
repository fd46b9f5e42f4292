package listwatchtest

import (
	"context"
	"errors"
	"net"
	"sync"
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
	client, server := net.Pipe()
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
	gate *gate
}

func (l *gatedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gatedConn{Conn: conn, gate: l.gate, done: make(chan struct{})}
	l.gate.add(c)
	return c, nil
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
