// Package testkit has what the tests of several packages need.
package testkit

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Start runs run until stop is called, or the test ends. It has to return without an error then, and
// within limit. In a synctest bubble that is virtual time.
func Start(t testing.TB, limit time.Duration, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			begin := time.Now()
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if d := time.Since(begin); d > limit {
				t.Errorf("Run took %v to stop", d)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// Allocations is how many f makes at its best: under the race detector a sync.Pool
// now and then forgets what it was given.
func Allocations(f func()) float64 {
	n := testing.AllocsPerRun(1, f)
	for range 30 {
		n = min(n, testing.AllocsPerRun(1, f))
	}
	return n
}

// GzipMember is one whole gzip member.
func GzipMember(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Dial is a function that makes connections, such as rest.Config.Dial.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Conns counts connections.
type Conns struct{ Made, Open atomic.Int64 }

// Counted is dial, counted.
func (c *Conns) Counted(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.Made.Add(1)
		c.Open.Add(1)
		return &countedConn{Conn: conn, open: &c.Open}, nil
	}
}

// countedConn is no longer counted when it is closed.
type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
