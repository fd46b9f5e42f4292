package streamwatcher

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// fuzzLimit is a small frame limit, so that fuzzing meets frames over it.
const fuzzLimit = 4 << 10

// outcome is what a stream comes to: its events in words, and how it ended.
type outcome struct {
	Events []string
	Reason reason.Reason
	Byte   int64 // of a syntax error
	End    string
}

// bounded runs a stream of size bytes: what is allocated, decoded objects among it, is in proportion to them.
func bounded(t *testing.T, c podConfig, size int) (o outcome) {
	t.Helper()
	if used := heapGrowth(func() { o = run(t, c) }); used > 2<<20+1024*uint64(size) {
		t.Fatalf("%d bytes allocated for a stream of %d", used, size)
	}
	return o
}

// run reads a stream to its end and checks what holds for any bytes.
func run(t *testing.T, c podConfig) outcome {
	c.MaxFrameBytes = fuzzLimit
	w := open(t, c)
	defer w.Stop()
	var o outcome
	for {
		ev, err := w.Next()
		if err != nil {
			o.End = err.Error()
			if err == io.EOF {
				return o
			}
			var e *Error
			if !errors.As(err, &e) || e.Reason != reason.Decode && e.Reason != reason.Transport {
				t.Fatalf("the stream ended with %v, reason %v", err, e)
			}
			if e.Reason == reason.Transport && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("the reader never failed, and the stream ended with %v", err)
			}
			o.Reason = e.Reason
			if syntax := (*frame.SyntaxError)(nil); errors.As(err, &syntax) {
				o.Byte = syntax.Offset
			}
			return o
		}
		if ev.Type == "" {
			t.Fatal("an event without a type")
		}
		if (ev.Type == "ERROR") != (ev.Status != nil) {
			t.Fatalf("type %s, status %v", ev.Type, ev.Status)
		}
		if len(ev.Object.Raw) > fuzzLimit {
			t.Fatalf("an object of %d bytes over the limit", len(ev.Object.Raw))
		}
		pod, err := ev.Object.Decode()
		if errors.Is(err, decode.ErrLine) {
			continue // no event, or one that comes again
		}
		if (pod == nil) == (err == nil) {
			t.Fatalf("Decode: %v, %v", pod, err)
		}
		line := string(ev.Type) + " " + ev.Object.Meta.Key().String() + " " + ev.Object.Meta.ResourceVersion + " " + string(ev.Object.Raw)
		if ev.Status != nil {
			line += ev.Status.Message
		}
		o.Events = append(o.Events, line)
	}
}

func fuzzConfig(r io.Reader, contentType, encoding string) podConfig {
	return podConfig{Body: closer(r), ContentType: contentType, ContentEncoding: encoding}
}

func FuzzJSONFrames(f *testing.F) {
	for _, a := range watches(f) {
		if a.contentType == typeJSON && a.contentEncoding == "" && len(a.body) < 20000 {
			f.Add(a.body)
		}
	}
	for _, s := range []string{podJSON("p", 0), podJSON("p", 0) + "\r\n" + podJSON("big", fuzzLimit+1) + podJSON("q", 0), "<html>", "{}", " \n",
		`{"type":"ERROR","object":null}{"object":{},"type":"BOOKMARK"}`, `{"type":"\u0041","object":[}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { bounded(t, fuzzConfig(bytes.NewReader(b), typeJSON, ""), len(b)) })
}

func FuzzProtobufFrames(f *testing.F) {
	for _, a := range watches(f) {
		if a.contentType == typeProtobuf && len(a.body) < 20000 {
			f.Add(a.body)
		}
	}
	p := podProtobuf(f, "ADDED", "p", 0)
	f.Add(framed(p, podProtobuf(f, "MODIFIED", "big", fuzzLimit+1), p))
	f.Add(framed(p[:len(p)-9], envelope(f, "ERROR", "v1", "Status", []byte("\x1a\x01m")), envelope(f, "BOOKMARK", "v1", "Pod", nil)))
	f.Add([]byte("\x00\x00\x00\x07\x0a\x05ADDED<html>"))
	f.Fuzz(func(t *testing.T, b []byte) { bounded(t, fuzzConfig(bytes.NewReader(b), typeProtobuf, ""), len(b)) })
}

// FuzzCuts: the same bytes in other pieces are the same events and the same end.
func FuzzCuts(f *testing.F) {
	events := podJSON("a", 300) + "\n" + podJSON("big", fuzzLimit+1) + podJSON("b", 200)
	p := podProtobuf(f, "ADDED", "p", 0)
	f.Add([]byte(events), uint8(0), uint16(77))
	f.Add(framed(p, podProtobuf(f, "MODIFIED", "big", fuzzLimit+1), p), uint8(1), uint16(300))
	f.Add(testkit.GzipMember(f, events), uint8(2), uint16(20))
	f.Add([]byte("<html>"), uint8(1), uint16(2))
	for _, text := range oddLines {
		f.Add([]byte(text), uint8(0), uint16(50))
	}
	f.Fuzz(func(t *testing.T, b []byte, mode uint8, cut uint16) {
		contentType, encoding := typeJSON, ""
		switch mode % 3 {
		case 1:
			contentType = typeProtobuf
		case 2:
			encoding = "gzip"
		}
		i := int(cut) % (len(b) + 1)
		want := run(t, fuzzConfig(bytes.NewReader(b), contentType, encoding))
		for name, r := range map[string]io.Reader{
			"one byte a read": iotest.OneByteReader(bytes.NewReader(b)),
			"in two":          io.MultiReader(bytes.NewReader(b[:i]), bytes.NewReader(b[i:])),
			"data with error": iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(b))),
		} {
			want, have := want, run(t, fuzzConfig(r, contentType, encoding))
			if want.Reason == reason.Decode {
				// The error quotes what has come so far.
				want.End, have.End = "", ""
			}
			if want.Reason != "" { // the event that the end is in may have come out
				if n := min(len(want.Events), len(have.Events)); max(len(want.Events), len(have.Events)) == n+1 {
					want.Events, have.Events = slices.Concat(want.Events[:n]), slices.Concat(have.Events[:n])
				}
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Fatalf("%s (-whole +cut):\n%s", name, diff)
			}
		}
	})
}
