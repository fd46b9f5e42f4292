package listwatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waited is a connection that counts the reads of it that wait, and tells its error once.
type waited struct {
	*script
	waits int
}

func (c *waited) Read(p []byte) (int, error) {
	c.waits++
	return c.once(c.script.Read(p))
}

func (c *waited) tryRead(p []byte) (int, error) { return c.once(c.script.tryRead(p)) }

func (c *waited) once(n int, err error) (int, error) {
	if err != nil {
		c.err = io.EOF
	}
	return n, err
}

// Asked at any time, Arrived changes nothing of what is read, and what it says can be read without waiting.
func TestArrivedKeepsTheBytes(t *testing.T) {
	reset := errors.New("connection reset")
	topped := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		large := seed/2%3 != 0
		want := make([]byte, r.IntN(map[bool]int{false: 400 << 10, true: 5 << 20}[large]))
		if _, err := rand.NewChaCha8([32]byte{byte(seed)}).Read(want); err != nil {
			t.Fatal(err)
		}
		s := &waited{script: &script{err: reset, with: seed%2 == 0}}
		for rest := want; len(rest) > 0; {
			n := min(1+r.IntN(1+r.IntN(map[bool]int{false: 150 << 10, true: 2 << 20}[large])), len(rest))
			s.pieces, rest = append(s.pieces, rest[:n]), rest[n:]
			if r.IntN(4) == 0 {
				s.pieces = append(s.pieces, nil)
			}
		}
		buffers := &countedBuffers{}
		c := &readAhead{Conn: s, buffers: buffers.pools()}
		if seed%5 > 0 {
			c.tryRead = s.tryRead
		}
		var err error
		said, waits, rest := 0, 0, want
		for err == nil {
			if r.IntN(2) == 0 {
				held, before := len(c.ahead), s.waits
				said, waits = c.Arrived(), s.waits
				if said < held || said > len(rest) || waits != before {
					t.Fatalf("seed %d: Arrived says %d of %d bytes, of which %d were ahead, after %d reads that wait", seed, said, len(rest), held, waits-before)
				}
				if held > 0 && said > held {
					topped++
				}
			}
			p := make([]byte, []int{1 + r.IntN(100), 4096, 4096, 32 << 10, aheadSizes[0], 100 << 10, 240 << 10, aheadSizes[2] + 1}[r.IntN(8)])
			var n int
			if n, err = c.Read(p); n > len(rest) || !bytes.Equal(p[:n], rest[:n]) {
				t.Fatalf("seed %d: wrong bytes, %d from the end", seed, len(rest))
			}
			if said > 0 && s.waits != waits {
				t.Fatalf("seed %d: a read waits though %d bytes have arrived", seed, said)
			}
			said, rest = max(0, said-n), rest[n:]
		}
		if len(rest) != 0 || err != reset {
			t.Fatalf("seed %d: %v, %d bytes from the end", seed, err, len(rest))
		}
		if buffers.out != 0 || buffers.most > 1 {
			t.Fatalf("seed %d: %d buffers kept, %d at one time", seed, buffers.out, buffers.most)
		}
	}
	if topped == 0 {
		t.Error("no buffer was topped up")
	}
}

// Of a busy connection a buffer is filled. Only the largest one is topped up, in its place, and only when little is left in it.
func TestArrivedTopsUp(t *testing.T) {
	for from, size := range aheadSizes {
		largest := from == len(aheadSizes)-1
		for _, left := range []int{size / 4, size/4 - 1} {
			s := &script{pieces: [][]byte{make([]byte, 3*size)}}
			buffers := &countedBuffers{}
			c := &readAhead{Conn: s, buffers: buffers.pools(), tryRead: s.tryRead, step: from + 1}
			if got := c.Arrived(); got != size {
				t.Errorf("%d have arrived of a busy connection, want %d", got, size)
			}
			if _, err := io.ReadFull(c, make([]byte, size-left)); err != nil {
				t.Fatal(err)
			}
			buf, want := c.buf, left
			if largest && left < size/4 {
				want = size
			}
			if got := c.Arrived(); got != want || c.buf != buf || buffers.most != 1 {
				t.Errorf("with %d left of %d: %d have arrived, want %d", left, size, got, want)
			}
		}
	}
}

// readFunc is a connection by its Read.
type readFunc struct {
	net.Conn
	read func([]byte) (int, error)
}

func (c readFunc) Read(p []byte) (int, error) { return c.read(p) }

// While a Read is under way Arrived says 0 at once.
func TestArrivedDoesNotWaitForARead(t *testing.T) {
	got := make(chan int, 1)
	var c *readAhead
	c = &readAhead{buffers: newAheadBuffers(), Conn: readFunc{read: func(p []byte) (int, error) {
		go func() { got <- c.Arrived() }()
		select {
		case n := <-got:
			got <- n
		case <-time.After(20 * time.Second): // does not come to pass
			t.Error("Arrived waits for the Read")
		}
		return len(p), nil
	}}}
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if n := <-got; n != 0 {
		t.Errorf("%d", n)
	}
}

// On a busy connection on which nothing has come, or that was closed, it says 0, and leaves what there is to say to the Read.
func TestArrivedDoesNotWait(t *testing.T) {
	client, server := connected(t)
	if err := client.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil { // of a read that should not be
		t.Fatal(err)
	}
	buffers := &countedBuffers{}
	c := newReadAhead(client, buffers.pools())
	says := func(want int) {
		t.Helper()
		c.step = 1
		if n := c.Arrived(); n != want || buffers.out != 0 {
			t.Errorf("%d bytes, %d buffers", n, buffers.out)
		}
	}
	says(0)
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if n, err := c.Read(p); n != 1 || err != nil {
		t.Errorf("%d bytes and %v", n, err)
	}
	client.Close()
	says(0)
	if _, err := c.Read(p); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v of a closed connection", err)
	}
}

func TestAheadOf(t *testing.T) {
	plain := readFunc{}
	c := newReadAhead(plain, newAheadBuffers())
	over := func(conn net.Conn) net.Conn { return tls.Client(conn, &tls.Config{ServerName: "a"}) }
	for conn, want := range map[net.Conn]*readAhead{
		c: c, over(c): c, over(over(c)): nil /* a proxy's TLS is between */, &plain: nil, over(plain): nil, nil: nil,
	} {
		if got := aheadOf(conn); got != want {
			t.Errorf("of %T: %p, want %p", conn, got, want)
		}
	}
}

// A watch of which much has come says so where that can be known: then much is read without OnWait.
func TestArrivedOfAWatch(t *testing.T) {
	const ample, rounds = 64 << 10, 100 // ample is streamwatcher's
	event := []byte(`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p","annotations":{"a":"` + strings.Repeat("x", 4000) + `"}}}}` + "\n")
	burst := bytes.Repeat(event, 100) // a loopback connection takes it before any of it is read
	type source struct{ more, sent chan struct{} }
	next := func(from source) {
		from.more <- struct{}{}
		select {
		case <-from.sent:
		case <-time.After(time.Second): // the system's buffers are smaller than a burst
		}
	}
	watches, remotes := make(chan source, 1), make(chan string, 4)
	handler := func(w http.ResponseWriter, r *http.Request) {
		if remotes <- r.RemoteAddr; !r.URL.Query().Has("watch") {
			answerWith(200, mediaJSON, emptyList)(w, r)
			return
		}
		w.Header().Set("Content-Type", mediaJSON)
		w.(http.Flusher).Flush()
		from := source{make(chan struct{}), make(chan struct{}, 2*rounds)}
		watches <- from
		for {
			select {
			case <-from.more:
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write(burst)
			w.(http.Flusher).Flush()
			from.sent <- struct{}{}
		}
	}
	ca := newAuthority(t, "ca")
	for _, tt := range []struct {
		name   string
		change func(*Config)
		most   int // that Arrived can say
	}{
		{"HTTP/1.1", nil, aheadSizes[2]},
		{"TLS", func(c *Config) { c.REST.CAData = ca.pem }, aheadSizes[2]},
		{"HTTP/2", func(c *Config) { c.REST.CAData, c.Protocol = ca.pem, HTTP2 }, 0},
		{"no syscall.Conn", func(c *Config) {
			c.REST.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return struct{ net.Conn }{conn}, err
			}
		}, aheadSizes[0] - 1}, // something of the buffer is handed out
	} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reused %v", tt.name, reused), func(t *testing.T) {
				var url string
				if tt.name == "TLS" || tt.name == "HTTP/2" {
					server, use := serveTLS(t, handler, &tls.Config{})
					use(ca.issue(t, "server"))
					url = server.URL
				} else {
					url = serve(t, handler).URL
				}
				client := func() *ListerWatcher[*corev1.Pod] {
					lw := newFor[*corev1.Pod](t, url, tt.change)
					if reused {
						if _, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{}); err != nil {
							t.Fatal(err)
						}
					}
					return lw
				}
				opened := func() source {
					if at := <-remotes; reused && at != <-remotes {
						t.Error("the list's connection is not reused")
					}
					return <-watches
				}

				ans, _, err := client().open(t.Context(), verbWatch, metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				body := newWatchBody(t.Context(), ans)
				defer body.Close()
				if body.conn != nil && body.conn.tryRead == nil { // so it is for each connection where the system is no Unix
					tt.most = aheadSizes[0] - 1
				}
				known, most := tt.most > ample, 0
				from := opened()
				for i := 0; i < 5 || known && most <= ample && i < rounds; i++ {
					next(from)
					for rest, p := burst, make([]byte, 4<<10); len(rest) > 0; most = max(most, body.Arrived()) {
						n, err := body.Read(p)
						if err != nil || !bytes.HasPrefix(rest, p[:n]) {
							t.Fatalf("wrong bytes %d from the end, or %v", len(rest), err)
						}
						rest = rest[n:]
					}
				}
				if most > tt.most || known && most <= ample || (body.conn == nil) != (tt.most == 0) {
					t.Errorf("%d bytes have arrived at most", most)
				}

				stream, err := client().Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Stop()
				most = 0
				since := 0 // the last wait
				stream.OnWait(func() { since = 0 })
				from = opened()
				for i := 0; i < 5 || known && most <= 3*ample && i < rounds; i++ {
					next(from)
					for range len(burst) / len(event) {
						if _, err := stream.Next(); err != nil {
							t.Fatal(err)
						}
						since += len(event)
						most = max(most, since)
					}
				}
				if known != (most > 3*ample) { // one window is two
					t.Errorf("%d bytes came at most from one wait to the next", most)
				}
			})
		}
	}
}
