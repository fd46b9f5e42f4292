package streamwatcher

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// carrier is an error that knows its reason, as an HTTP layer may have one.
type carrier struct{ error }

func (c carrier) Unwrap() error            { return c.error }
func (carrier) FaultReason() reason.Reason { return reason.ServerError }

func TestHowAStreamEnds(t *testing.T) {
	one := podJSON("p", 200)
	pb := framed(podProtobuf(t, "ADDED", "p", 200))
	reset := errors.New("connection reset by peer")
	then := func(err error) io.Reader { return io.MultiReader(strings.NewReader(one+"\n"), iotest.ErrReader(err)) }
	for _, c := range []struct {
		name        string
		r           io.Reader
		contentType string
		events      int
		want        reason.Reason // "" is io.EOF
		is          error
	}{
		{"nothing", strings.NewReader(""), typeJSON, 0, "", io.EOF},
		{"only blanks", strings.NewReader("\n \r\n"), typeJSON, 0, "", io.EOF},
		{"between events", strings.NewReader(one), typeJSON, 1, "", io.EOF},
		{"behind a line break", strings.NewReader(one + "\r\n"), typeJSON, 1, "", io.EOF},
		{"inside an event", strings.NewReader(one + one[:100]), typeJSON, 1, reason.Transport, io.ErrUnexpectedEOF},
		{"one byte of an event", strings.NewReader(one + "\n{"), typeJSON, 1, reason.Transport, io.ErrUnexpectedEOF},
		{"nothing, protobuf", bytes.NewReader(nil), typeProtobuf, 0, "", io.EOF},
		{"between, protobuf", bytes.NewReader(pb), typeProtobuf, 1, "", io.EOF},
		{"in a length", bytes.NewReader(append(bytes.Clone(pb), 0, 0)), typeProtobuf, 1, reason.Transport, io.ErrUnexpectedEOF},
		{"behind a length", bytes.NewReader(append(bytes.Clone(pb), 0, 0, 1, 0)), typeProtobuf, 1, reason.Transport, io.ErrUnexpectedEOF},
		{"inside, protobuf", bytes.NewReader(append(bytes.Clone(pb), pb[:60]...)), typeProtobuf, 1, reason.Transport, io.ErrUnexpectedEOF},
		{"in a chunk", then(io.ErrUnexpectedEOF), typeJSON, 1, reason.Transport, io.ErrUnexpectedEOF},
		{"reset", then(reset), typeJSON, 1, reason.Transport, reset},
		{"cancelled", then(fmt.Errorf("read: %w", context.Canceled)), typeJSON, 1, reason.Stopped, context.Canceled},
		{"context's deadline", then(context.DeadlineExceeded), typeJSON, 1, reason.Deadline, context.DeadlineExceeded},
		{"connection's deadline", then(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), typeJSON, 1, reason.Deadline, os.ErrDeadlineExceeded},
		{"an error with a reason", then(fmt.Errorf("read: %w", carrier{reset})), typeJSON, 1, reason.ServerError, reset},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed := &closeCounter{Reader: c.r}
			events, end := drain(t, podConfig{Body: closed, ContentType: c.contentType})
			if len(events) != c.events || !errors.Is(end, c.is) {
				t.Errorf("%d events, then %v; want %d, then %v", len(events), end, c.events, c.is)
			}
			if got, _ := reason.Of(end); got != c.want || c.want == "" && end != io.EOF {
				t.Errorf("reason %q (%v), want %q", got, end, c.want)
			}
			if strings.Contains(c.name, "inside") && !strings.Contains(end.Error(), "cut off") {
				t.Errorf("%v does not say that the body was cut off", end)
			}
			if n := closed.n.Load(); n != 1 {
				t.Errorf("the body was closed %d times", n)
			}
		})
	}
}

// E5: the body ends in the middle of an event, of a chunk, of a chunk header, as
// net/http shows it. "A part of an event at the end is dropped."
func TestBodyCutAnywhere(t *testing.T) {
	text := podJSON("a", 200) + "\n" + podJSON("b", 200) + "\n"
	var wire strings.Builder
	for len(text) > 0 {
		n := min(128, len(text))
		fmt.Fprintf(&wire, "%x\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	wire.WriteString("0\r\n\r\n")
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	whole := head + wire.String()
	d := podDecoder(t)
	seen := map[int]bool{}
	for cut := len(head); cut <= len(whole); cut++ {
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(whole[:cut])), nil)
		if err != nil {
			t.Fatal(err)
		}
		events, end := drain(t, podConfig{Body: resp.Body, ContentType: resp.Header.Get("Content-Type"), Decoder: d})
		for i, ev := range events {
			if want := string(rune('a' + i)); ev.Meta != podMeta(want) || ev.Err != "" {
				t.Fatalf("cut at %d: event %d is %v", cut, i, ev)
			}
		}
		seen[len(events)] = true
		if cut == len(whole) {
			if end != io.EOF || len(events) != 2 {
				t.Errorf("the whole body: %d events, %v", len(events), end)
			}
		} else if r, _ := reason.Of(end); r != reason.Transport {
			t.Errorf("cut at %d: %v, want transport", cut, end)
		}
	}
	if len(seen) != 3 {
		t.Errorf("numbers of events seen: %v, want 0, 1 and 2", seen)
	}
}

type closeCounter struct {
	io.Reader
	n atomic.Int32
}

func (c *closeCounter) Close() error { c.n.Add(1); return nil }

func TestNewRefuses(t *testing.T) {
	d := podDecoder(t)
	jsonOnly, err := decode.New[*jsonPod]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config[*jsonPod]{Body: closer(nil), ContentType: typeProtobuf, Decoder: jsonOnly}); err == nil || !strings.Contains(err.Error(), "decoder does not read") {
		t.Errorf("protobuf for a type without it: %v", err)
	}
	for _, c := range []struct {
		name   string
		config podConfig
		want   string
		decode bool
	}{
		{"no body", podConfig{ContentType: typeJSON, Decoder: d}, "Config.Body", false},
		{"no decoder", podConfig{Body: closer(nil), ContentType: typeJSON}, "Config.Decoder", false},
		{"limit", podConfig{Body: closer(nil), ContentType: typeJSON, Decoder: d, MaxFrameBytes: -1}, "MaxFrameBytes is -1", false},
		{"huge limit", podConfig{Body: closer(nil), ContentType: typeJSON, Decoder: d, MaxFrameBytes: 2 << 30}, "MaxFrameBytes", false},
		{"html", podConfig{Body: closer(nil), ContentType: "text/html; charset=utf-8", Decoder: d}, `no watch: content type "text/html; charset=utf-8"`, true},
		{"cbor", podConfig{Body: closer(nil), ContentType: "application/cbor-seq", Decoder: d}, `"application/cbor-seq"`, true},
		{"no type", podConfig{Body: closer(nil), Decoder: d}, "no Content-Type", true},
		{"brotli", podConfig{Body: closer(nil), ContentType: typeJSON, ContentEncoding: "br", Decoder: d}, `Content-Encoding "br"`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := New(c.config)
			if w != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want an error with %q", err, c.want)
			}
			if r, ok := reason.Of(err); ok != c.decode || ok && r != reason.Decode {
				t.Errorf("reason %q, %v", r, ok)
			}
		})
	}
	for _, contentType := range []string{"application/json", "Application/JSON; charset=utf-8", "application/json;stream=watch",
		"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf;stream=watch", " application/vnd.kubernetes.protobuf ; x"} {
		if _, err := New(podConfig{Body: closer(nil), ContentType: contentType, ContentEncoding: "identity", Decoder: d}); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
	}
}

type jsonPod struct{ Spec struct{ NodeName string } }

// pipe is a body whose other end a test writes, in virtual time.
func pipe(t *testing.T, c podConfig) (server net.Conn, w *StreamWatcher[*corev1.Pod]) {
	server, c.Body = net.Pipe()
	if c.ContentType == "" {
		c.ContentType = typeJSON
	}
	return server, open(t, c)
}

// write returns when the other end has read all.
func write(conn net.Conn, text string) { _, _ = io.WriteString(conn, text) }

// "A watch that is silent is cut", with the idle limit counted from the last byte that came.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var causes []error
		c := podConfig{}
		var server net.Conn
		c.Abort = func(cause error) { causes = append(causes, cause); server.Close() }
		server, w := pipe(t, c)
		w.SetIdleTimeout(30 * time.Second)
		start := time.Now()
		go func() {
			for _, piece := range []string{podJSON("p", 0)[:50], podJSON("p", 0)[50:], "\n"} {
				time.Sleep(29 * time.Second)
				_, _ = io.WriteString(server, piece)
			}
		}()
		if ev, err := w.Next(); err != nil || ev.Object.Meta.Name != "p" {
			t.Fatalf("%v, %v", ev, err)
		}
		_, err := w.Next()
		if took := time.Since(start); took != 3*29*time.Second+30*time.Second {
			t.Errorf("cut after %v", took)
		}
		var e *Error
		if !errors.As(err, &e) || e.Reason != reason.Idle || !strings.Contains(e.Error(), "no byte for 30s") || e.Offset == 0 {
			t.Errorf("got %v", err)
		}
		if got := time.Since(w.LastByte()); got != 30*time.Second {
			t.Errorf("last byte %v ago", got)
		}
		if len(causes) != 1 || !strings.Contains(causes[0].Error(), "no byte for 30s") {
			t.Errorf("Abort was called with %v", causes)
		}
	})
}

// "A slow caller never trips it": M4's handler blocks 5 s with an idle limit of 2 s.
func TestSlowCallerIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := pipe(t, podConfig{})
		w.SetIdleTimeout(2 * time.Second)
		go func() {
			for range 5 {
				_, _ = io.WriteString(server, podJSON("p", 0))
			}
			server.Close()
		}()
		for i := range 5 {
			if _, err := w.Next(); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
			time.Sleep(5 * time.Second)
		}
		if _, err := w.Next(); err != io.EOF {
			t.Errorf("the end: %v", err)
		}
	})
}

func TestIdleLimitCanChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := pipe(t, podConfig{})
		w.SetIdleTimeout(time.Hour)
		go write(server, podJSON("p", 0))
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
		w.SetIdleTimeout(time.Minute) // shorter than what is armed
		start := time.Now()
		if _, err := w.Next(); time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}

		server, w = pipe(t, podConfig{})
		w.SetIdleTimeout(time.Minute)
		go write(server, podJSON("p", 0))
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
		w.SetIdleTimeout(0)
		time.AfterFunc(24*time.Hour, func() { server.Close() })
		if _, err := w.Next(); err != io.EOF {
			t.Errorf("without a limit: %v", err)
		}
	})
}

func TestStopEndsABlockedNext(t *testing.T) {
	for name, abort := range map[string]bool{"by closing": false, "by Abort": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := podConfig{}
				var server net.Conn
				aborts := 0
				if abort {
					c.Abort = func(error) { aborts++; server.Close() }
				}
				server, w := pipe(t, c)
				w.SetIdleTimeout(time.Hour)
				ended := make(chan error)
				go func() {
					_, err := w.Next()
					ended <- err
				}()
				synctest.Wait()
				var stops sync.WaitGroup
				for range 3 {
					stops.Go(w.Stop)
				}
				err := <-ended
				stops.Wait()
				var e *Error
				if !errors.As(err, &e) || e.Reason != reason.Stopped {
					t.Errorf("got %v", err)
				}
				if _, again := w.Next(); again != err {
					t.Errorf("then %v", again)
				}
				if w.body.armed {
					t.Error("the watchdog's timer still runs")
				}
				if abort && aborts != 1 {
					t.Errorf("Abort was called %d times", aborts)
				}
			})
		})
	}
}

func TestStopBeforeNext(t *testing.T) {
	body := &closeCounter{Reader: strings.NewReader(podJSON("p", 0))}
	w := open(t, podConfig{Body: body, ContentType: typeJSON})
	w.Stop()
	w.Stop()
	if _, err := w.Next(); !errors.As(err, new(*Error)) || err.(*Error).Reason != reason.Stopped {
		t.Errorf("got %v", err)
	}
	if n := body.n.Load(); n != 1 {
		t.Errorf("the body was closed %d times", n)
	}
}

// D11's ends, and Stop, over real HTTP: net/http's body is what counts.
func TestOverHTTP(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", typeJSON)
		_, _ = io.WriteString(rw, podJSON("p", 0)+"\n")
		rw.(http.Flusher).Flush()
		switch r.URL.Path {
		case "/end":
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/hold":
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	defer close(hold)
	client := server.Client()
	get := func(t *testing.T, ctx context.Context, path string) *StreamWatcher[*corev1.Pod] {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, podConfig{Body: resp.Body, ContentType: resp.Header.Get("Content-Type")})
		if ev, err := w.Next(); err != nil || ev.Object.Meta.Name != "p" {
			t.Fatalf("%v, %v", ev, err)
		}
		return w
	}
	wantEnd := func(t *testing.T, w *StreamWatcher[*corev1.Pod], want reason.Reason) {
		t.Helper()
		_, err := w.Next()
		if got, _ := reason.Of(err); got != want {
			t.Errorf("got %v, want reason %q", err, want)
		}
	}
	t.Run("end", func(t *testing.T) {
		if _, err := get(t, t.Context(), "/end").Next(); err != io.EOF {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cut", func(t *testing.T) { wantEnd(t, get(t, t.Context(), "/cut"), reason.Transport) })
	t.Run("stop", func(t *testing.T) {
		w := get(t, t.Context(), "/hold")
		go w.Stop()
		wantEnd(t, w, reason.Stopped)
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := get(t, ctx, "/hold")
		go cancel()
		wantEnd(t, w, reason.Stopped)
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		w := get(t, ctx, "/hold")
		wantEnd(t, w, reason.Deadline)
	})
	t.Run("idle", func(t *testing.T) {
		w := get(t, t.Context(), "/hold")
		w.SetIdleTimeout(20 * time.Millisecond)
		wantEnd(t, w, reason.Idle)
	})
	client.CloseIdleConnections()
}

func TestTransferIsShared(t *testing.T) {
	var transfer Transfer
	text := podJSON("p", 5000)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			w, err := New(podConfig{Body: closer(strings.NewReader(text)), ContentType: typeJSON, Decoder: podDecoder(t), Transfer: &transfer})
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Stop()
			for err == nil {
				_, err = w.Next()
			}
		})
	}
	all.Wait()
	if want := uint64(4 * len(text)); transfer.WireBytes() != want || transfer.DecodedBytes() != want {
		t.Errorf("%d and %d bytes, want %d", transfer.WireBytes(), transfer.DecodedBytes(), want)
	}
}

// "Between two events at most 1 MiB is held": when the stream waits behind a
// huge event, the memory of that event is garbage.
func TestHugeEventIsNotHeldWhileWaiting(t *testing.T) {
	const size = 16 << 20
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, c := range map[string]struct {
		event       []byte
		contentType string
	}{
		"JSON":     {[]byte(podJSON("p", size)), typeJSON},
		"protobuf": {framed(podProtobuf(t, "ADDED", "p", size)), typeProtobuf},
	} {
		t.Run(name, func(t *testing.T) {
			var waiting uint64
			atWait := readFunc(func([]byte) (int, error) { waiting = live(); return 0, io.EOF })
			before := live()
			w := open(t, podConfig{Body: closer(io.MultiReader(bytes.NewReader(c.event), atWait)), ContentType: c.contentType})
			if ev, err := w.Next(); err != nil || len(ev.Object.Raw) < size-1000 {
				t.Fatalf("%v, %v", ev, err)
			}
			if _, err := w.Next(); err != io.EOF {
				t.Fatal(err)
			}
			if waiting > before+2<<20 {
				t.Errorf("%d bytes held while waiting", waiting-before)
			}
			runtime.KeepAlive(c.event)
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Next without Decode makes one string an event, of name, UID and resourceVersion.
func TestAllocationsOfNext(t *testing.T) {
	for name, c := range map[string]struct {
		event       []byte
		contentType string
	}{
		"JSON":     {[]byte(podJSON("p", 9000) + "\n"), typeJSON},
		"protobuf": {framed(podProtobuf(t, "MODIFIED", "p", 6000)), typeProtobuf},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, podConfig{Body: closer(&repeat{text: c.event}), ContentType: c.contentType})
			n := testing.AllocsPerRun(200, func() {
				if _, err := w.Next(); err != nil {
					t.Fatal(err)
				}
			})
			if n > 1 {
				t.Errorf("%v allocations an event, want 1", n)
			}
		})
	}
}

// repeat is a body without end.
type repeat struct {
	text []byte
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// The watchdog's timer is armed once and then left alone: a caller sets the limit before
// each event, as the reflector does, which must not cost a timer each.
func TestIdleLimitThatStaysIsFree(t *testing.T) {
	w := open(t, podConfig{Body: closer(&repeat{text: []byte(podJSON("p", 40<<10) + "\n")}), ContentType: typeJSON})
	for i := range 20 {
		w.SetIdleTimeout(time.Minute)
		if i > 0 && !w.body.armed {
			t.Fatalf("event %d: the watchdog was disarmed", i)
		}
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
	}
}
