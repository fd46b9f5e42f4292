package streamwatcher

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// "An event is returned as soon as its last byte can be known, not one event
// later": the pieces are written one at a time to a server's end of a pipe, and
// after each the test waits until the reader can do no more (virtual time).
func TestGzipEventsAreNotLate(t *testing.T) {
	oneMember := func(t *testing.T) (pieces [][]byte) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		for _, name := range []string{"a", "b", "c"} {
			if _, err := io.WriteString(z, podJSON(name, 300)+"\n"); err != nil {
				t.Fatal(err)
			}
			if err := z.Flush(); err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, bytes.Clone(b.Bytes()))
			b.Reset()
		}
		return pieces
	}
	members := func(flush bool) func(t *testing.T) (pieces [][]byte) {
		return func(t *testing.T) (pieces [][]byte) {
			for _, name := range []string{"a", "b", "c"} {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				if _, err := io.WriteString(z, podJSON(name, 300)); err != nil {
					t.Fatal(err)
				}
				if flush {
					if err := z.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
				pieces = append(pieces, b.Bytes())
			}
			return pieces
		}
	}
	// The trailer (8 bytes) of each member comes with the next event, the last one never.
	lateTrailer := func(t *testing.T) [][]byte {
		pieces := members(false)(t)
		var trailer []byte
		for i, p := range pieces {
			pieces[i], trailer = append(bytes.Clone(trailer), p[:len(p)-8]...), p[len(p)-8:]
		}
		return pieces
	}
	for name, make := range map[string]func(t *testing.T) [][]byte{
		"one member, flushed":                   oneMember,
		"a member an event, flushed":            members(true),
		"a member an event, not flushed":        members(false),
		"a member an event, trailer comes late": lateTrailer,
	} {
		t.Run(name, func(t *testing.T) {
			pieces := make(t)
			synctest.Test(t, func(t *testing.T) {
				server, client := net.Pipe()
				w := open(t, podConfig{Body: client, ContentType: typeJSON, ContentEncoding: "gzip"})
				names := make1chan(w)
				for i, piece := range pieces {
					if _, err := server.Write(piece); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					select {
					case got := <-names:
						if want := string(rune('a' + i)); got != want {
							t.Fatalf("got %s, want %s", got, want)
						}
					default:
						t.Fatalf("all bytes of event %d were sent and it was not returned", i)
					}
				}
				w.Stop()
				<-names
			})
		})
	}
}

// make1chan sends the names of w's events until it ends.
func make1chan[T any](w *StreamWatcher[T]) <-chan string {
	names := make(chan string, 100)
	go func() {
		defer close(names)
		for {
			ev, err := w.Next()
			if err != nil {
				return
			}
			names <- strings.Clone(ev.Object.Meta.Name)
		}
	}()
	return names
}

func TestDamagedGzip(t *testing.T) {
	good := testkit.GzipMember(t, podJSON("p", 500))
	change := func(i int, c byte) []byte {
		b := bytes.Clone(good)
		if i < 0 {
			i += len(b)
		}
		b[i] ^= c
		return b
	}
	for name, c := range map[string]struct {
		b      []byte
		want   string
		events int
	}{
		"not gzip":           {[]byte(podJSON("p", 0)), "not a gzip member", 0},
		"short and not gzip": {[]byte("{}"), "not a gzip member", 0},
		"other method":       {change(2, 1), "unknown way", 0},
		"reserved flag":      {change(3, 0x80), "unknown way", 0},
		"checksum":           {change(-8, 1), "does not match", 1},
		"length":             {change(-1, 1), "does not match", 1},
		"content":            {change(10, good[10]^7), "flate: corrupt", 0},
		"junk behind":        {append(bytes.Clone(good), "0123456789abc"...), "not a gzip member", 1},
	} {
		t.Run(name, func(t *testing.T) {
			events, end := drain(t, podConfig{Body: closer(bytes.NewReader(c.b)), ContentType: typeJSON, ContentEncoding: "gzip"})
			var e *Error
			if !errors.As(end, &e) || e.Reason != reason.Decode || !strings.Contains(e.Error(), c.want) || len(events) != c.events {
				t.Errorf("%d events, then %v; want %d and %q", len(events), end, c.events, c.want)
			}
		})
	}
	for i := 1; i < len(good); i++ {
		_, end := drain(t, podConfig{Body: closer(bytes.NewReader(good[:i])), ContentType: typeJSON, ContentEncoding: "gzip"})
		var e *Error
		if !errors.As(end, &e) || e.Reason != reason.Transport || !errors.Is(end, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d of %d: %v, want transport and io.ErrUnexpectedEOF", i, len(good), end)
		}
	}
}

// A server may call it either way, in any case.
func TestGzipNames(t *testing.T) {
	for _, coding := range []string{"gzip", "GZIP", " gzip", "x-gzip", "X-Gzip"} {
		have := cleanly(t, podConfig{Body: closer(bytes.NewReader(testkit.GzipMember(t, podJSON("p", 0)))), ContentType: typeJSON, ContentEncoding: coding})
		if len(have) != 1 || have[0].Meta.Name != "p" {
			t.Errorf("%q: got %v", coding, have)
		}
	}
}

// A decompression bomb is a frame over the limit like any other.
func TestGzipBomb(t *testing.T) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = io.WriteString(z, `{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"bomb"},"x":"`)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 24 {
		_, _ = z.Write(spaces)
	}
	_, _ = io.WriteString(z, `"}}`+podJSON("p", 0))
	_ = z.Close()

	w := open(t, podConfig{Body: closer(&b), ContentType: typeJSON, ContentEncoding: "gzip", MaxFrameBytes: 256 << 10})
	used := heapGrowth(func() {
		ev, err := w.Next()
		if err != nil || ev.Type != watch.Added || ev.Object.Meta.Name != "bomb" {
			t.Fatalf("%v, %v", ev, err)
		}
		if _, err := ev.Object.Decode(); !errors.As(err, new(*frame.TooLargeError)) {
			t.Errorf("got %v", err)
		}
	})
	if used > 4<<20 {
		t.Errorf("%d bytes allocated for a frame of 24 MiB over a limit of 256 KiB", used)
	}
	if ev, err := w.Next(); err != nil || ev.Object.Meta != podMeta("p") {
		t.Errorf("the event behind it: %v, %v", ev, err)
	}
}

func TestGzipBytesAreCounted(t *testing.T) {
	text := strings.Repeat(podJSON("p", 1000)+"\n", 20)
	b := testkit.GzipMember(t, text)
	var transfer Transfer
	for range 2 {
		cleanly(t, podConfig{Body: closer(bytes.NewReader(b)), ContentType: typeJSON, ContentEncoding: "gzip", Transfer: &transfer})
	}
	if transfer.WireBytes() != uint64(2*len(b)) || transfer.DecodedBytes() != uint64(2*len(text)) {
		t.Errorf("counted %d and %d bytes, want %d and %d", transfer.WireBytes(), transfer.DecodedBytes(), 2*len(b), 2*len(text))
	}
}
