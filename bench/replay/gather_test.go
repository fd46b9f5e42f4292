package replay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// countingListener counts what is written to its connections, and how often.
type countingListener struct {
	net.Listener
	writes, bytes atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c, l}, nil
}

type countingConn struct {
	net.Conn
	to *countingListener
}

func (c countingConn) Write(p []byte) (int, error) {
	c.to.writes.Add(1)
	c.to.bytes.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// TestGather: events that are sent as fast as can be are written in large pieces, over each kind of link, and all of
// them are there when Send returns. Events that have a time are written when they are due.
func TestGather(t *testing.T) {
	const events = 100
	s, err := New(Config{MediaType: specimen.Protobuf, Pods: 10})
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	for name, start := range map[string]func(*httptest.Server){
		"plain": (*httptest.Server).Start,
		"tls":   (*httptest.Server).StartTLS,
		"http2": func(web *httptest.Server) { web.EnableHTTP2 = true; web.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewUnstartedServer(s.Handler(Plain))
			under := &countingListener{Listener: web.Listener}
			web.Listener = Gather(web.Config, under)
			start(web)
			defer web.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/api/v1/namespaces/shop/pods?watch=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", specimen.Protobuf)
			resp, err := web.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			opened++
			if err := s.Watches(t.Context(), opened); err != nil {
				t.Fatal(err)
			}
			read := func(what func() (int64, error)) (writes, size int64) {
				t.Helper()
				writes, size = under.writes.Load(), under.bytes.Load()
				done := make(chan error, 1)
				var sent int64
				go func() {
					var err error
					sent, err = what()
					done <- err
				}()
				if _, err := io.CopyN(io.Discard, resp.Body, int64(events*s.MeanEventBytes()/2)); err != nil {
					t.Fatal(err) // the other half fits into the socket
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if rest := sent - int64(events*s.MeanEventBytes()/2); sent > 0 {
					if _, err := io.CopyN(io.Discard, resp.Body, rest); err != nil {
						t.Fatal(err)
					}
				}
				return under.writes.Load() - writes, under.bytes.Load() - size
			}
			writes, size := read(func() (int64, error) { return s.Send(t.Context(), events) })
			if size < events*4_000 || writes > size/(gatherBytes/2)+8 { // some of them are HTTP/2's own
				t.Errorf("%d bytes were sent in %d writes", size, writes)
			}
			if writes, _ = read(func() (int64, error) { return 0, s.Pace(t.Context(), events, 2_000) }); writes < 10 {
				t.Errorf("events of 50 ms were sent in %d writes", writes)
			}
		})
	}
}

// brokenConn fails to write.
type brokenConn struct{ net.Conn }

var errBroken = errors.New("broken")

func (brokenConn) Write([]byte) (int, error) { return 0, errBroken }

// TestGatherErrors: a connection that breaks is known when what is held is written, and not held on to.
func TestGatherErrors(t *testing.T) {
	c := &gatheringConn{Conn: brokenConn{}}
	c.gather()
	if n, err := c.Write([]byte("held")); n != 4 || err != nil {
		t.Errorf("a short write is held: %d, %v", n, err)
	}
	if _, err := c.Write(bytes.Repeat([]byte("x"), gatherBytes)); !errors.Is(err, errBroken) {
		t.Errorf("a write that is too long to hold: %v", err)
	}
	_, _ = c.Write([]byte("held"))
	if err := c.release(); !errors.Is(err, errBroken) {
		t.Errorf("what is held is written in the end: %v", err)
	}
	if err := c.release(); err != nil {
		t.Errorf("nothing is held any more: %v", err)
	}
	var none *gatheringConn // that of a server which does not gather
	none.gather()
	if err := none.release(); err != nil {
		t.Error(err)
	}
}
