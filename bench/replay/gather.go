package replay

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// gatherBytes is how much is written to a connection at once.
const gatherBytes = 128 << 10

// Gather makes the connections of l, on which srv is to serve the handlers of a Server, such that events
// that are sent as fast as can be are written in large pieces. net/http writes
// 4 KiB at a time, and a client that is faster than that would be waiting for the server. What of
// this a client sees is that more is there when it reads.
//
// Without it all works as well.
func Gather(srv *http.Server, l net.Listener) net.Listener {
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
			c = over.NetConn()
		}
		return context.WithValue(ctx, connKey{}, c)
	}
	return gatheringListener{l}
}

type connKey struct{}

// connOf returns the connection of a request, nil if it does not gather.
func connOf(ctx context.Context) *gatheringConn {
	c, _ := ctx.Value(connKey{}).(*gatheringConn)
	return c
}

type gatheringListener struct{ net.Listener }

func (l gatheringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatheringConn{Conn: c}, nil
}

// gatheringConn is a connection that can hold what is written to it until that is much.
type gatheringConn struct {
	net.Conn

	mu   sync.Mutex // guards what follows
	hold bool
	held []byte
}

// Write implements net.Conn. The error of what is held comes with the next write that
// goes out.
func (c *gatheringConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hold {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	if len(c.held) < gatherBytes {
		return len(p), nil
	}
	if err := c.writeHeld(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *gatheringConn) writeHeld() error {
	held := c.held
	c.held = c.held[:0]
	_, err := c.Conn.Write(held)
	return err
}

// gather begins to hold what is written.
func (c *gatheringConn) gather() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = true
}

// release writes what is held, and holds nothing any more.
func (c *gatheringConn) release() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = false
	if len(c.held) == 0 {
		return nil
	}
	return c.writeHeld()
}
