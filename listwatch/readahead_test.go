package listwatch

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
)

// countedBuffers is a pool that knows how many of its buffers are out.
type countedBuffers struct{ out, most int }

func (b *countedBuffers) Get() any {
	b.out++
	b.most = max(b.most, b.out)
	buf := make([]byte, aheadBytes)
	return &buf
}

func (b *countedBuffers) Put(any) { b.out-- }

// script is a connection of which each read returns at most the next piece.
type script struct {
	net.Conn
	pieces [][]byte
	err    error // behind the last piece
	with   bool  // the error comes with the last piece
	reads  int
}

func (s *script) Read(p []byte) (int, error) {
	s.reads++
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
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := make([]byte, r.IntN(400<<10))
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		s := &script{err: reset, with: seed%2 == 0}
		for rest := want; len(rest) > 0; {
			n := min(1+r.IntN(1+r.IntN(150<<10)), len(rest))
			s.pieces, rest = append(s.pieces, bytes.Clone(rest[:n])), rest[n:]
		}
		buffers := &countedBuffers{}
		c := &readAhead{Conn: s, buffers: buffers}
		var got []byte
		var err error
		for err == nil {
			p := make([]byte, []int{1, 2, 100, 4096, 4096, 32 << 10, aheadBytes, 100 << 10}[r.IntN(8)])
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

// A busy connection is read in large pieces, though it is asked for small ones.
func TestReadAheadOfABusyConnection(t *testing.T) {
	const total = 4 << 20
	s := &script{pieces: [][]byte{make([]byte, total)}, err: io.EOF}
	c := &readAhead{Conn: s, buffers: &countedBuffers{}}
	got := 0
	for p := make([]byte, 4<<10); ; {
		n, err := c.Read(p)
		if got += n; err != nil {
			break
		}
	}
	if most := total/aheadBytes + 3; got != total || s.reads > most {
		t.Errorf("%d bytes in %d reads, want at most %d", got, s.reads, most)
	}
}

// "Holds no memory while it waits": an event that comes alone leaves no buffer behind.
func TestReadAheadOfAQuietConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer server.Close()
		defer client.Close()
		buffers := &countedBuffers{}
		c := &readAhead{Conn: client, buffers: buffers}
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
