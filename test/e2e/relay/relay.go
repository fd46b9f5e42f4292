package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Flow is what happens to the bytes of one direction.
type Flow uint8

const (
	Pass        Flow = iota // at once
	Hold                    // not at all; sockets stay open
	WholeBlocks             // in whole blocks of BlockBytes; the rest waits for the next one
)

// BlockBytes is the size of a block of WholeBlocks, that of a page cache or of a
// proxy's buffer.
const BlockBytes = 4096

// Behaviour is how a connection treats its bytes. The zero one just passes.
type Behaviour struct {
	Up, Down Flow
	// Delay is how long each piece is kept, in both directions.
	Delay time.Duration
}

// Relay is one listener and its connections. Its methods are safe from any goroutine.
type Relay struct {
	target  string
	address string
	wait    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	coming   Behaviour
	conns    map[*connection]struct{}
	closed   bool
}

// New returns a relay to target (host:port), listening on a free loopback port.
func New(target string) (*Relay, error) {
	r := &Relay{target: target, address: "127.0.0.1:0", conns: map[*connection]struct{}{}}
	if err := r.Accept(); err != nil {
		return nil, err
	}
	return r, nil
}

// Addr is where the relay listens, host:port. It stays the same for ever.
func (r *Relay) Addr() string { return r.address }

// Set is how current and coming connections behave from now on.
func (r *Relay) Set(b Behaviour) {
	r.mu.Lock()
	r.coming = b
	r.mu.Unlock()
	r.SetCurrent(b)
}

// SetCurrent is how the current connections behave from now on. Coming ones are
// not touched by it: the way of a client that connects anew is free.
func (r *Relay) SetCurrent(b Behaviour) {
	for _, c := range r.current() {
		c.set(b)
	}
}

// Cut ends the current connections with a FIN to either side.
func (r *Relay) Cut() {
	for _, c := range r.current() {
		// FIN first: closing with unread bytes would reset.
		_ = c.client.CloseWrite()
		_ = c.server.CloseWrite()
		c.close()
	}
}

// Reset ends the current connections with a RST to either side.
func (r *Relay) Reset() {
	for _, c := range r.current() {
		_ = c.client.SetLinger(0)
		_ = c.server.SetLinger(0)
		c.close()
	}
}

// HalfClose sends a FIN to the clients of the current connections. The other
// direction goes on, and the server does not learn of it.
func (r *Relay) HalfClose() {
	for _, c := range r.current() {
		c.down.end()
		_ = c.client.CloseWrite()
	}
}

// Blackhole makes the current connections dead for their clients: no segment of
// theirs is acknowledged any more, none is sent to them. Coming connections
// pass, as when another host has taken over the address.
//
// It needs Linux (a socket filter that drops all) and no rights.
func (r *Relay) Blackhole() error {
	for _, c := range r.current() {
		c.set(Behaviour{Up: Hold, Down: Hold})
		if err := dropSegments(c.client); err != nil {
			return fmt.Errorf("relay: put a connection into the black hole: %w", err)
		}
	}
	return nil
}

// Refuse cuts the current connections and refuses coming ones, until Accept.
func (r *Relay) Refuse() {
	r.mu.Lock()
	if r.listener != nil {
		r.listener.Close()
		r.listener = nil
	}
	r.mu.Unlock()
	r.Cut()
}

// Accept listens again.
func (r *Relay) Accept() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil || r.closed {
		return nil
	}
	// The probes of this side would tell a client whose own are not answered
	// that somebody is there.
	config := net.ListenConfig{KeepAlive: -1}
	l, err := config.Listen(context.Background(), "tcp", r.address)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	r.listener, r.address = l, l.Addr().String()
	r.wait.Go(func() { r.serve(l) })
	return nil
}

// Close ends everything. Idempotent.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	if r.listener != nil {
		r.listener.Close()
		r.listener = nil
	}
	r.mu.Unlock()
	for _, c := range r.current() {
		c.close()
	}
	r.wait.Wait()
}

func (r *Relay) current() []*connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*connection, 0, len(r.conns))
	for c := range r.conns {
		all = append(all, c)
	}
	return all
}

func (r *Relay) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of descriptors: not our death
			continue
		}
		r.wait.Go(func() { r.relay(client.(*net.TCPConn)) })
	}
}

// relay serves one connection to its end. A target that is not reached closes it.
func (r *Relay) relay(client *net.TCPConn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", r.target, 10*time.Second)
	if err != nil {
		// As a refusal does, as far as that is possible after an accept.
		_ = client.SetLinger(0)
		return
	}
	defer server.Close()
	c := &connection{client: client, server: server.(*net.TCPConn)}
	c.up, c.down = newStream(), newStream()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	c.set(r.coming)
	r.conns[c] = struct{}{}
	r.mu.Unlock()

	var streams sync.WaitGroup
	streams.Go(func() { c.up.read(c.client) })
	streams.Go(func() { c.down.read(c.server) })
	streams.Go(func() { c.up.write(c.server) })
	streams.Go(func() { c.down.write(c.client) })
	streams.Wait()

	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// connection is a pair of sockets with a stream in each direction.
type connection struct {
	client, server *net.TCPConn
	up, down       *stream
}

func (c *connection) set(b Behaviour) {
	c.up.set(b.Up, b.Delay)
	c.down.set(b.Down, b.Delay)
}

func (c *connection) close() {
	c.up.end()
	c.down.end()
	c.client.Close()
	c.server.Close()
}
