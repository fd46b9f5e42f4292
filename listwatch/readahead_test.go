package listwatch

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// countedBuffers are pools that know how many of their buffers are out.
type countedBuffers struct{ out, most int }

func (b *countedBuffers) pools() *aheadBuffers {
	pools := new(aheadBuffers)
	for i, size := range aheadSizes {
		pools[i] = countedPool{b, size}
	}
	return pools
}

type countedPool struct {
	*countedBuffers
	size int
}

func (b countedPool) Get() any {
	b.out++
	b.most = max(b.most, b.out)
	buf := make([]byte, b.size)
	return &buf
}

func (b countedPool) Put(buf any) {
	b.out--
	if len(*buf.(*[]byte)) != b.size {
		panic("a buffer is in the wrong pool")
	}
}

// script is a connection of which each read returns at most the next piece. A piece of no bytes is a
// moment in which nothing has arrived.
type script struct {
	net.Conn
	pieces [][]byte
	err    error // behind the last piece
	with   bool  // the error comes with the last piece
	reads  int
}

// tryRead is a read that does not wait.
func (s *script) tryRead(p []byte) (int, error) {
	if len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
		return 0, nil
	}
	return s.Read(p)
}

func (s *script) Read(p []byte) (int, error) {
	s.reads++
	for len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if len(s.pieces) == 0 {
		return 0, s.err
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if s.with && len(s.pieces) == 0 {
		return n, s.err
	}
	return n, nil
}

// However it comes and is asked for, what is read is what came, then the error, and no buffer is kept.
func TestReadAheadKeepsTheBytes(t *testing.T) {
	reset := errors.New("connection reset")
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := make([]byte, r.IntN([]int{400 << 10, 6 << 20}[seed/2%2]))
		if _, err := rand.NewChaCha8([32]byte{byte(seed)}).Read(want); err != nil {
			t.Fatal(err)
		}
		s := &script{err: reset, with: seed%2 == 0}
		for rest := want; len(rest) > 0; {
			n := min(1+r.IntN(1+r.IntN([]int{150 << 10, 2 << 20}[seed/2%2])), len(rest))
			s.pieces, rest = append(s.pieces, bytes.Clone(rest[:n])), rest[n:]
			if r.IntN(4) == 0 {
				s.pieces = append(s.pieces, nil)
			}
		}
		buffers := &countedBuffers{}
		c := &readAhead{Conn: s, buffers: buffers.pools()}
		if seed%3 > 0 {
			c.tryRead = s.tryRead
		}
		var got []byte
		var err error
		for err == nil {
			p := make([]byte, []int{1 + r.IntN(100), 4096, 4096, 32 << 10, aheadSizes[0], 100 << 10, aheadSizes[2] + 1}[r.IntN(7)])
			var n int
			n, err = c.Read(p)
			got = append(got, p[:n]...)
		}
		if !bytes.Equal(got, want) || err != reset {
			t.Fatalf("seed %d: %d bytes and %v, want %d and %v", seed, len(got), err, len(want), reset)
		}
		if buffers.out != 0 || buffers.most > 1 {
			t.Fatalf("seed %d: %d buffers kept, %d at one time", seed, buffers.out, buffers.most)
		}
	}
}

// A busy connection is read in large pieces, though it is asked for small ones; in larger ones the more there
// is each time, and in small ones again when there is little.
func TestReadAheadOfABusyConnection(t *testing.T) {
	const total = 16 << 20
	for _, waits := range []bool{true, false} {
		s := &script{pieces: [][]byte{make([]byte, total)}, err: io.EOF}
		c := &readAhead{Conn: s, buffers: new(countedBuffers).pools()}
		largest := aheadSizes[0]
		if !waits {
			c.tryRead, largest = s.tryRead, aheadSizes[len(aheadSizes)-1]
		}
		got := 0
		for p := make([]byte, 4<<10); ; {
			n, err := c.Read(p)
			if got += n; err != nil {
				break
			}
		}
		if most := total/largest + 2*len(aheadSizes); got != total || s.reads > most {
			t.Errorf("waits %v: %d bytes in %d reads, want at most %d", waits, got, s.reads, most)
		}
	}
}

// After a burst the buffers become smaller again, a step with each read that brings little.
func TestReadAheadAfterABurst(t *testing.T) {
	s := &script{pieces: [][]byte{make([]byte, 4<<20)}}
	c := &readAhead{Conn: s, buffers: new(countedBuffers).pools(), tryRead: s.tryRead}
	p := make([]byte, 4<<10)
	read := func() {
		if _, err := c.Read(p); err != nil {
			t.Fatal(err)
		}
	}
	for len(s.pieces) > 0 || c.buf != nil {
		read()
	}
	if c.step != len(aheadSizes) {
		t.Fatalf("step %d after a burst", c.step)
	}
	for want := len(aheadSizes) - 1; want >= 0; want-- {
		s.pieces = [][]byte{make([]byte, len(p))}
		read()
		if c.step != want {
			t.Errorf("step %d after little was there, want %d", c.step, want)
		}
	}
}

// "Holds no memory while it waits": an event that comes alone leaves no buffer behind.
func TestReadAheadOfAQuietConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer server.Close()
		defer client.Close()
		buffers := &countedBuffers{}
		c := &readAhead{Conn: client, buffers: buffers.pools()}
		var got int
		go func() {
			for p := make([]byte, 4<<10); ; {
				n, err := c.Read(p)
				if got += n; err != nil {
					return
				}
			}
		}()
		sent := 0
		for _, size := range []int{300, 9300, 20000, 9300, 300} {
			for rest := make([]byte, size); len(rest) > 0; {
				n := min(len(rest), 1460) // as packets
				if _, err := server.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			sent += size
			synctest.Wait()
			if got != sent || buffers.out != 0 {
				t.Errorf("after %d bytes %d were read, and %d buffers are held while it waits", sent, got, buffers.out)
			}
		}
	})
}

// connected returns both ends of a connection over TCP.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// Over TCP too no buffer is held while it waits, however the burst before it ended, and what ends the connection is said
// as package net says it.
func TestReadAheadOverTCP(t *testing.T) {
	for _, reset := range []bool{false, true} {
		client, server := connected(t)
		buffers := &countedBuffers{}
		c := newReadAhead(client, buffers.pools())
		const burst = 3 << 20
		go server.Write(make([]byte, burst))
		got, p := 0, make([]byte, 4<<10)
		for got < burst {
			n, err := c.Read(p)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		if buffers.most != 1 {
			t.Errorf("%d buffers were out at one time while %d bytes were read", buffers.most, got)
		}
		if c.step == 0 {
			c.step = 1 // as where the last piece was a large one
		}
		if c.tryRead != nil && c.fill() || buffers.out != 0 {
			t.Errorf("%d buffers are held where nothing has arrived", buffers.out)
		}
		if reset {
			if err := server.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		server.Close()
		c.step = 1
		var err error
		for err == nil {
			_, err = c.Read(p)
		}
		var said *net.OpError
		switch {
		case !reset && err != io.EOF:
			t.Errorf("%v at the end", err)
		case reset && (!errors.As(err, &said) || !errors.Is(err, syscall.ECONNRESET) || said.Op != "read"):
			t.Errorf("%v after a reset", err)
		}
		if buffers.out != 0 {
			t.Errorf("%d buffers are held at the end", buffers.out)
		}
	}
}

// A deadline that passed and a connection that was closed are told by the read that waits.
func TestReadAheadDeadline(t *testing.T) {
	client, _ := connected(t)
	c := newReadAhead(client, newAheadBuffers())
	ends := func(want error) {
		t.Helper()
		c.step = 1
		if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, want) {
			t.Errorf("%d bytes and %v, want %v", n, err, want)
		}
	}
	if err := client.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	ends(os.ErrDeadlineExceeded)
	client.Close()
	ends(net.ErrClosed)
}
