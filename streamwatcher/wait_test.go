package streamwatcher

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// arrivals is a body that comes in pieces, and an Arrived. What is done with it is noted: a "read" of it, and by
// the test a "wait" and the names of events.
type arrivals struct {
	pieces [][]byte
	says   []int // what Arrived says before each read; the last one from then on
	reads  int
	log    []string
	came   int // bytes
}

func (b *arrivals) Arrived() int {
	if len(b.says) == 0 {
		return 0
	}
	return b.says[min(b.reads, len(b.says)-1)]
}

func (b *arrivals) Read(p []byte) (n int, err error) {
	b.log = append(b.log, "read")
	b.reads++
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	n = copy(p, b.pieces[0])
	b.came += n
	if b.pieces[0] = b.pieces[0][n:]; len(b.pieces[0]) == 0 {
		b.pieces = b.pieces[1:]
	}
	return n, nil
}

func (*arrivals) Close() error { return nil }

// pods is n events, each as it is sent in that encoding.
func pods(t testing.TB, contentType string, n int) (events [][]byte) {
	for i := range n {
		name := fmt.Sprint("p", i)
		if contentType == typeJSON {
			events = append(events, []byte(podJSON(name, 0)+"\n"))
		} else {
			events = append(events, framed(podProtobuf(t, "ADDED", name, 0)))
		}
	}
	return events
}

// compressed is pieces of one gzip stream, of which each holds an event.
func compressed(t testing.TB, events [][]byte) (pieces [][]byte) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, ev := range events {
		_, err := z.Write(ev)
		if err := errors.Join(err, z.Flush()); err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, bytes.Clone(b.Bytes()))
		b.Reset()
	}
	return pieces
}

// follow notes events and waits until the stream ends.
func follow(w *StreamWatcher[*corev1.Pod], b *arrivals, onWait func()) (end error) {
	w.OnWait(func() {
		b.log = append(b.log, "wait")
		if onWait != nil {
			onWait()
		}
	})
	for {
		ev, err := w.Next()
		if err != nil {
			return err
		}
		b.log = append(b.log, strings.Clone(ev.Object.Meta.Name))
	}
}

// "Before it waits for bytes": before a read, once, and never where the body has ample bytes.
func TestOnWait(t *testing.T) {
	ev := pods(t, typeProtobuf, 5)
	for _, tt := range []struct {
		name string
		says []int
		want string
	}{
		{"no Arrived", []int{ample}, "wait read p0 wait read p1 wait read wait read p2 p3 p4 wait read"},
		{"little", []int{0, ample - 1}, "wait read p0 wait read p1 wait read wait read p2 p3 p4 wait read"},
		{"ample", []int{ample, ample, ample + 1, 1 << 20}, "read p0 read p1 read read p2 p3 p4 read"},
		{"now and then", []int{ample, ample - 1, ample, 0, ample}, "read p0 wait read p1 read wait read p2 p3 p4 read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &arrivals{says: tt.says, pieces: [][]byte{ev[0], slices.Concat(ev[1], ev[2][:3]), ev[2][3:9], slices.Concat(ev[2][9:], ev[3], ev[4])}}
			var body io.ReadCloser = b
			if tt.name == "no Arrived" {
				body = struct{ io.ReadCloser }{b}
			}
			w := open(t, podConfig{Body: body, ContentType: typeProtobuf})
			if err := follow(w, b, nil); err != io.EOF {
				t.Fatal(err)
			}
			if got := strings.Join(b.log, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// However the stream is cut, before it waits Next has returned all that came.
func TestOnWaitIsBehindWhatCame(t *testing.T) {
	for seed := range uint64(120) {
		contentType, coding := []string{typeJSON, typeProtobuf}[seed%2], []string{"", "gzip"}[seed/2%2]
		events := pods(t, contentType, 12)
		if coding == "gzip" {
			events = compressed(t, events)
		}
		body := slices.Concat(events...)
		b := &arrivals{}
		r := rand.New(rand.NewPCG(seed, 0))
		for rest := body; len(rest) > 0; {
			n := min(1+r.IntN(1+r.IntN(600)), len(rest))
			b.pieces, rest = append(b.pieces, rest[:n]), rest[n:]
		}
		returned := func() int { return strings.Count(strings.Join(b.log, " "), "p") }
		err := follow(open(t, podConfig{Body: b, ContentType: contentType, ContentEncoding: coding}), b, func() {
			whole, at := 0, 0
			for _, ev := range events {
				if at+len(bytes.TrimSuffix(ev, []byte("\n"))) <= b.came {
					whole++
				}
				at += len(ev)
			}
			// Whether the last bytes of a deflate block are needed is gzip's affair.
			if n := returned(); n < whole || coding == "" && n > whole {
				t.Errorf("seed %d, %s %s: it waits after %d events came, and %d were returned", seed, contentType, coding, whole, n)
			}
		})
		log := strings.Join(b.log, " ")
		if waits := strings.Count(log, "wait read"); waits != b.reads || waits != strings.Count(log, "wait") {
			t.Errorf("seed %d: not each read has its wait: %s", seed, log)
		}
		if b.came != len(body) || returned() != len(events) {
			t.Errorf("seed %d: %v after %s", seed, err, log)
		}
	}
}

// "By Next, on its goroutine": who calls Next can recover what panics in f.
func TestOnWaitIsCalledByNext(t *testing.T) {
	w := open(t, podConfig{Body: &arrivals{}, ContentType: typeProtobuf})
	w.OnWait(func() { panic("in f") })
	defer func() {
		if r := recover(); r != "in f" {
			t.Errorf("recovered %v", r)
		}
	}()
	_, _ = w.Next()
}

// What takes its time in f is no silence of the server.
func TestOnWaitIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := pipe(t, podConfig{})
		defer server.Close()
		w.SetIdleTimeout(2 * time.Second)
		var last time.Time
		w.OnWait(func() {
			time.Sleep(time.Hour)
			last = time.Now()
		})
		go func() {
			for i := range 3 {
				time.Sleep(time.Second)
				write(server, podJSON(fmt.Sprint("p", i), 0)+"\n")
			}
		}()
		for i := range 3 {
			if ev, err := w.Next(); err != nil || ev.Object.Meta.Name != fmt.Sprint("p", i) {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		_, err := w.Next()
		if r, _ := reason.Of(err); r != reason.Idle || time.Since(last) != 2*time.Second {
			t.Errorf("%v, %v after it began to wait", err, time.Since(last))
		}
	})
}

// More is about the event after the last one, as far as its bytes are in the window or ample are in the body.
func TestMore(t *testing.T) {
	ev := pods(t, typeProtobuf, 2)
	for _, tt := range []struct {
		name  string
		next  []byte // what came with the first event
		whole bool
	}{
		{"nothing", nil, false},
		{"a part of the length", ev[1][:3], false},
		{"the length", ev[1][:4], false},
		{"a part", ev[1][:9], false},
		{"all but a byte", ev[1][:len(ev[1])-1], false},
		{"all", ev[1], true},
		{"more than that", slices.Concat(ev[1], ev[0][:3]), true},
		{"no length", []byte("\xff\xff\xff\xff...."), false},
	} {
		for _, coding := range []string{"", "gzip"} {
			for _, says := range []int{0, ample - 1, ample} {
				b := &arrivals{says: []int{says}, pieces: [][]byte{slices.Concat(ev[0], tt.next)}}
				if coding == "gzip" {
					b.pieces = compressed(t, b.pieces)
				}
				w := open(t, podConfig{Body: b, ContentType: typeProtobuf, ContentEncoding: coding})
				if got := w.More(); got != (says >= ample) {
					t.Errorf("before the first event, with %d in the body: %v", says, got)
				}
				if _, err := w.Next(); err != nil {
					t.Fatal(err)
				}
				reads := b.reads
				if got, want := w.More(), tt.whole || says >= ample; got != want || b.reads != reads {
					t.Errorf("%s of the next event came, with %d in the body, %q: %v after %d reads", tt.name, says, coding, got, b.reads-reads)
				}
			}
		}
	}
}

// In JSON it is not known, and after an error there is no more.
func TestNoMore(t *testing.T) {
	for _, contentType := range []string{typeJSON, typeProtobuf} {
		all := slices.Concat(pods(t, contentType, 3)...)
		b := &arrivals{says: []int{ample}, pieces: [][]byte{all}}
		w := open(t, podConfig{Body: b, ContentType: contentType})
		for range 3 {
			if _, err := w.Next(); err != nil || w.More() != (contentType == typeProtobuf) {
				t.Errorf("%s: More is %v, %v", contentType, w.More(), err)
			}
		}
		if _, err := w.Next(); err != io.EOF || w.More() {
			t.Errorf("%s: More is %v after %v", contentType, w.More(), err)
		}

		w = open(t, podConfig{Body: &arrivals{pieces: [][]byte{all}}, ContentType: contentType})
		_, err := w.Next()
		w.Stop() // with events in the window
		if _, ended := w.Next(); err != nil || ended == nil || w.More() {
			t.Errorf("%s: More is %v after %v and %v", contentType, w.More(), err, ended)
		}
	}
}

// Once the stream has ended nothing is waited for, and there is no more; it can end in f, and while a read waits.
func TestOnWaitAndStop(t *testing.T) {
	event := pods(t, typeProtobuf, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		for _, inside := range []bool{true, false} {
			server, client := net.Pipe()
			w := open(t, podConfig{Body: client, ContentType: typeProtobuf})
			waits := 0
			w.OnWait(func() {
				if waits++; inside && waits == 2 {
					w.Stop()
				}
			})
			go func() {
				write(server, string(event))
				if !inside {
					synctest.Wait() // until the second read waits
					w.Stop()
				}
			}()
			if _, err := w.Next(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_, err := w.Next()
				if r, _ := reason.Of(err); r != reason.Stopped || waits != 2 || w.More() {
					t.Errorf("stopped inside %v: %v, f was called %d times, More %v", inside, err, waits, w.More())
				}
			}
			server.Close()
		}
	})
}
