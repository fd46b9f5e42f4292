package streamwatcher

import (
	"io"
	"sync"
	"time"
)

// Arrived is what a Config.Body can be, too.
type Arrived interface {
	// Arrived returns how many bytes have come and can be read. With 64 KiB a Read must not wait. It is called by the
	// goroutine that reads, between two reads.
	Arrived() int
}

// ample is with how many bytes a Read of a body does not wait, though they come in TLS records of 16 KiB, each of which is
// of use when it is whole.
const ample = 64 << 10

// body is the response body with a watch on it: bytes are counted, the time of
// the last ones is known, and a read that waits too long calls bite.
//
// The watchdog's timer is not armed and disarmed for each read, which would be
// dear when reads are many and short. It is armed by the first read that finds it disarmed;
// when it rings it looks whether a read is waiting, and since when, and goes
// to sleep for the rest. So it costs a lock and a look at the clock a read.
type body struct {
	src      io.Reader
	arrived  Arrived // src, if it is one
	onWait   func()
	transfer *Transfer
	bite     func(limit time.Duration)

	mu       sync.Mutex
	limit    time.Duration // 0: none
	waiting  time.Time     // when the read under way began; zero: there is none
	lastByte time.Time
	timer    *time.Timer
	armed    bool
	off      bool // for good
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.onWait != nil && !b.hasMore() {
		b.onWait()
	}
	b.enter()
	n, err := b.src.Read(p)
	b.leave(n)
	b.transfer.AddWire(n)
	return n, err
}

// hasMore tells whether it is known that the next Read will not wait.
func (b *body) hasMore() bool { return b.arrived != nil && b.arrived.Arrived() >= ample }

func (b *body) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = time.Now()
	if b.limit > 0 && !b.armed && !b.off {
		b.arm(b.limit)
	}
}

func (b *body) leave(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = time.Time{}
	if n > 0 {
		b.lastByte = time.Now()
	}
}

func (b *body) arm(d time.Duration) {
	b.armed = true
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.ring)
	} else {
		b.timer.Reset(d)
	}
}

// ring is the timer's function. A ring that was on its way when the timer was
// armed anew finds nothing to do and at most arms it once more.
func (b *body) ring() {
	b.mu.Lock()
	limit := b.limit
	b.armed = false
	if b.off || limit <= 0 || b.waiting.IsZero() {
		b.mu.Unlock()
		return
	}
	if rest := limit - time.Since(b.waiting); rest > 0 {
		b.arm(rest)
		b.mu.Unlock()
		return
	}
	b.off = true
	b.mu.Unlock()
	b.bite(limit)
}

// setLimit sets how long a read may wait, from its beginning. It is called for each
// event, nearly always with the limit that there is: then the timer is left alone.
func (b *body) setLimit(d time.Duration) {
	if d == b.limit { // which nobody else writes
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = d
	b.disarm()
	if d > 0 && !b.waiting.IsZero() && !b.off {
		b.arm(max(0, d-time.Since(b.waiting)))
	}
}

// quiet ends the watch for good.
func (b *body) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off = true
	b.disarm()
}

func (b *body) disarm() {
	if b.armed {
		b.timer.Stop()
		b.armed = false
	}
}

func (b *body) last() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastByte
}
