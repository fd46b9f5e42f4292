package relay

import (
	"net"
	"sync"
	"time"
)

// maxPending is how much of a direction is read and not yet sent.
const maxPending = 64 << 10

// stream is one direction of a connection: one goroutine reads, one writes.
type stream struct {
	mu      sync.Mutex
	changed *sync.Cond
	flow    Flow
	delay   time.Duration
	pending []byte
	eof     bool          // nothing more will be read
	ended   bool          // nothing more may be sent
	done    chan struct{} // closed with ended
}

func newStream() *stream {
	s := &stream{done: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) set(f Flow, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flow, s.delay = f, delay
	s.changed.Broadcast()
}

// end stops both goroutines, the reader when its socket is closed.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.done)
	}
	s.changed.Broadcast()
}

// read fills pending until its socket ends.
func (s *stream) read(from *net.TCPConn) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		s.mu.Lock()
		s.pending = append(s.pending, buffer[:n]...)
		s.eof = s.eof || err != nil
		s.changed.Broadcast()
		for !s.ended && !s.eof && len(s.pending) >= maxPending {
			s.changed.Wait()
		}
		// A stream that may not send any more goes on reading, so that the
		// end of the socket is noticed.
		if s.ended {
			s.pending = nil
		}
		over := s.eof
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// write sends what may be sent, and passes the end on as a FIN.
func (s *stream) write(to *net.TCPConn) {
	for {
		piece, delay, last := s.take()
		if delay > 0 {
			select {
			case <-time.After(delay):
			case <-s.done:
			}
		}
		if last {
			_ = to.CloseWrite()
			return
		}
		if piece == nil {
			return
		}
		if _, err := to.Write(piece); err != nil {
			s.end()
			return
		}
	}
}

// take waits for bytes that may be sent. last is the end of the other side, when
// all before it was sent; no piece and not last is the end of the stream.
func (s *stream) take() (piece []byte, delay time.Duration, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.ended {
			return nil, 0, false
		}
		n := 0
		switch s.flow {
		case Pass:
			n = len(s.pending)
		case WholeBlocks:
			n = len(s.pending) / BlockBytes * BlockBytes
			if s.eof { // a buffer is flushed at the end
				n = len(s.pending)
			}
		case Hold:
		}
		if n > 0 {
			piece = append([]byte(nil), s.pending[:n]...)
			s.pending = append(s.pending[:0], s.pending[n:]...)
			s.changed.Broadcast()
			return piece, s.delay, false
		}
		if s.eof && s.flow != Hold {
			return nil, s.delay, true
		}
		s.changed.Wait()
	}
}
