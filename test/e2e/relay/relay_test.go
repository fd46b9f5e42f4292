package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// silence is how long a test waits for bytes that must not come.
const silence = 100 * time.Millisecond

// world is a server that a test plays, a relay to it, and a client.
type world struct {
	t              *testing.T
	relay          *Relay
	client, server *net.TCPConn
	listener       net.Listener
}

func newWorld(t *testing.T) *world {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r, err := New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	w := &world{t: t, relay: r, listener: l}
	w.client, w.server = w.connect()
	return w
}

func (w *world) connect() (client, server *net.TCPConn) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.relay.Addr())
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.listener.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close(); s.Close() })
	client, server = c.(*net.TCPConn), s.(*net.TCPConn)
	w.exchange(client, server) // the relay knows the connection from here on
	return client, server
}

func (w *world) exchange(a, b net.Conn) {
	w.t.Helper()
	w.send(a, "ping")
	w.expect(b, "ping")
	w.send(b, "pong")
	w.expect(a, "pong")
}

func (w *world) send(to net.Conn, text string) {
	w.t.Helper()
	if _, err := to.Write([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) expect(from net.Conn, text string) {
	w.t.Helper()
	got := make([]byte, len(text))
	_ = from.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := io.ReadFull(from, got); err != nil || string(got) != text {
		w.t.Fatalf("got %q, %v; want %q", got[:n], err, text)
	}
}

func (w *world) expectSilence(from net.Conn) {
	w.t.Helper()
	_ = from.SetReadDeadline(time.Now().Add(silence))
	if n, err := from.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatalf("got %d bytes, %v; want silence", n, err)
	}
}

func (w *world) expectEnd(from net.Conn, want error) {
	w.t.Helper()
	_ = from.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := from.Read(make([]byte, 1)); !errors.Is(err, want) {
		w.t.Fatalf("got %d bytes, %v; want %v", n, err, want)
	}
}

func TestHold(t *testing.T) {
	w := newWorld(t)
	w.relay.Set(Behaviour{Down: Hold})
	w.send(w.server, "down")
	w.send(w.client, "up")
	w.expect(w.server, "up")
	w.expectSilence(w.client)
	w.relay.Set(Behaviour{Up: Hold, Down: Hold})
	w.send(w.client, "more")
	w.expectSilence(w.server)
	w.relay.Set(Behaviour{})
	// "Bytes are never lost or reordered: what was held back is sent when the
	// flow passes again."
	w.expect(w.client, "down")
	w.expect(w.server, "more")
}

func TestHoldIsFeltByTheSender(t *testing.T) {
	w := newWorld(t)
	w.relay.Set(Behaviour{Down: Hold})
	_ = w.server.SetWriteDeadline(time.Now().Add(2 * time.Second))
	_, err := w.server.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("64 MiB into a held connection: %v, want a full socket", err)
	}
}

func TestCurrentConnectionsOnly(t *testing.T) {
	w := newWorld(t)
	w.relay.SetCurrent(Behaviour{Up: Hold, Down: Hold})
	client, server := w.connect()
	w.exchange(client, server)
	w.send(w.server, "x")
	w.expectSilence(w.client)
}

func TestWholeBlocks(t *testing.T) {
	w := newWorld(t)
	w.relay.Set(Behaviour{Down: WholeBlocks})
	data := bytes.Repeat([]byte("0123456789abcdef"), 3*BlockBytes/2/16)
	w.send(w.server, string(data))
	w.expect(w.client, string(data[:BlockBytes]))
	w.expectSilence(w.client)
	w.server.Close()
	w.expect(w.client, string(data[BlockBytes:]))
	w.expectEnd(w.client, io.EOF)
}

func TestDelay(t *testing.T) {
	w := newWorld(t)
	w.relay.Set(Behaviour{Delay: 3 * silence})
	w.send(w.server, "late")
	w.expectSilence(w.client)
	w.expect(w.client, "late")
}

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		do             func(*Relay)
		client, server error
	}{
		"cut":    {(*Relay).Cut, io.EOF, io.EOF},
		"reset":  {(*Relay).Reset, syscall.ECONNRESET, syscall.ECONNRESET},
		"refuse": {(*Relay).Refuse, io.EOF, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w.relay)
			w.expectEnd(w.client, c.client)
			w.expectEnd(w.server, c.server)
		})
	}
}

func TestRefuse(t *testing.T) {
	w := newWorld(t)
	w.relay.Refuse()
	if _, err := net.Dial("tcp", w.relay.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial: %v, want refused", err)
	}
	if err := w.relay.Accept(); err != nil {
		t.Fatal(err)
	}
	w.exchange(w.connect())
}

func TestHalfClose(t *testing.T) {
	w := newWorld(t)
	w.relay.HalfClose()
	w.expectEnd(w.client, io.EOF)
	w.send(w.client, "still here")
	w.expect(w.server, "still here")
	w.send(w.server, "lost")
	w.client.Close()
	w.expectEnd(w.server, io.EOF)
}

// The client's kernel finds that nobody is there, from which the system's own
// keep-alive follows. Here it probes after a second.
func TestBlackhole(t *testing.T) {
	w := newWorld(t)
	err := w.client.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: time.Second, Interval: time.Second, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.relay.Blackhole(); err != nil {
		t.Fatal(err)
	}
	client, server := w.connect()
	w.exchange(client, server)
	w.send(w.server, "lost")
	w.expectEnd(w.client, syscall.ETIMEDOUT)
}

func TestTargetIsDown(t *testing.T) {
	w := newWorld(t)
	w.listener.Close()
	c, err := net.Dial("tcp", w.relay.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return // the reset was faster
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.expectEnd(c, syscall.ECONNRESET)
}

func TestEndOfTheServerIsPassedOn(t *testing.T) {
	w := newWorld(t)
	w.send(w.server, "last words")
	w.server.Close()
	w.expect(w.client, "last words")
	w.expectEnd(w.client, io.EOF)
}
