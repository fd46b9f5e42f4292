package streamwatcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

func protobufConfig(b []byte) podConfig {
	return podConfig{Body: closer(bytes.NewReader(b)), ContentType: typeProtobuf}
}

func TestProtobufFrameOverTheLimit(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{limit - 1, limit, limit + 1, 4 * limit} {
		big := podProtobuf(t, "MODIFIED", "big", size)
		if len(big) != size {
			t.Fatalf("the test made a message of %d bytes, not %d", len(big), size)
		}
		b := framed(big, podProtobuf(t, "ADDED", "small", 0))
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(b), "half": iotest.HalfReader(bytes.NewReader(b))} {
			t.Run(fmt.Sprintf("%d/%s", size, name), func(t *testing.T) {
				c := protobufConfig(nil)
				c.Body, c.MaxFrameBytes = closer(r), limit
				w := open(t, c)
				ev, err := w.Next()
				if err != nil || ev.Type != watch.Modified || ev.Object.Meta != podMeta("big") {
					t.Fatalf("%v, %v", ev, err)
				}
				pod, err := ev.Object.Decode()
				var tooLarge *frame.TooLargeError
				switch {
				case size <= limit && (err != nil || pod.Name != "big"):
					t.Errorf("within the limit: %v", err)
				case size > limit && (!errors.As(err, &tooLarge) || tooLarge.Size != int64(size)):
					t.Errorf("over the limit: %v", err)
				}
				if ev, err = w.Next(); err != nil || ev.Object.Meta != podMeta("small") {
					t.Fatalf("the event behind it: %v, %v", ev, err)
				}
				if pod, err := ev.Object.Decode(); err != nil || pod.Name != "small" {
					t.Errorf("the event behind it: %v", err)
				}
				if _, err := w.Next(); err != io.EOF {
					t.Errorf("the end: %v", err)
				}
			})
		}
	}
}

// "A length prefix is checked before anything is allocated."
func TestLengthsThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		b    string
		want string
	}{
		"JSON":           {podJSON("p", 0), `text where a protobuf watch event should begin: the body goes on with "{\"type\"`},
		"pretty JSON":    {"{\n  \"type\"", "text where"},
		"html":           {"<html><body>Log in", `<html><body>Log in`},
		"newlines":       {"\n\n\r\n{}", "text where"},
		"gzip":           {"\x1f\x8b\x08\x00\x00\x00", "gzip that the response headers do not name"},
		"garbage":        {"\xff\xff\xff\xff\x00", "no length"},
		"1 GiB and more": {"\x40\x00\x00\x01\x00", "no length"},
		"no prefix":      {"k8s\x00\x0a\x00", "no length"},
	} {
		t.Run(name, func(t *testing.T) {
			var end error
			used := heapGrowth(func() { _, end = drain(t, protobufConfig([]byte(c.b))) })
			var e *Error
			if !errors.As(end, &e) || e.Reason != reason.Decode || !strings.Contains(e.Error(), c.want) {
				t.Fatalf("got %v, want reason decode and %q", end, c.want)
			}
			if used > 1<<20 {
				t.Errorf("%d bytes allocated", used)
			}
		})
	}
	// A length that could be, and ten bytes: they are waited for, nothing more.
	for _, length := range []string{"\x01\xe0\x00\x00", "\x30\x00\x00\x00"} {
		var end error
		used := heapGrowth(func() { _, end = drain(t, protobufConfig([]byte(length+"0123456789"))) })
		var e *Error
		if !errors.As(end, &e) || e.Reason != reason.Transport || !errors.Is(end, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", end)
		}
		if used > 1<<20 {
			t.Errorf("%d bytes allocated for %d that came", used, 14)
		}
	}
}

// A frame that is whole costs at most itself, when it says what it is.
func TestBadProtobufObjects(t *testing.T) {
	event := func(typ string, raw []byte) []byte {
		b, err := (&metav1.WatchEvent{Type: typ, Object: kruntime.RawExtension{Raw: raw}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := podProtobuf(t, "ADDED", "p", 0)
	for name, message := range map[string][]byte{
		"no envelope":          event("ADDED", []byte("abc")),
		"JSON as the object":   event("ADDED", []byte(`{"kind":"Pod"}`)),
		"no object":            event("ADDED", nil),
		"garbage metadata":     envelope(t, "ADDED", "v1", "Pod", []byte("\x0a\x02\x08\x01")),
		"garbage behind":       envelope(t, "ADDED", "v1", "Pod", []byte("\x0a\x00\x12\x05ab")),
		"message cut":          good[:len(good)-20],
		"object is no message": []byte("\x0a\x05ADDED\x10\x01"),
	} {
		t.Run(name, func(t *testing.T) {
			have := cleanly(t, protobufConfig(framed(message, good)))
			if len(have) != 2 || have[0].Type != watch.Added || have[0].Err == "" || have[1].Meta != podMeta("p") || have[1].Err != "" {
				t.Errorf("got %v", have)
			}
		})
	}
	for name, message := range map[string][]byte{"empty": nil, "no type": good[7:], "type cut": []byte("\x0a\x05ADD"), "garbage": []byte("\xff\xff")} {
		_, end := drain(t, protobufConfig(framed(good, message)))
		var syntax *frame.SyntaxError
		if !errors.As(end, &syntax) || syntax.Offset != int64(len(good)+4) {
			t.Errorf("%s: %v, want a SyntaxError at the second frame", name, end)
		}
	}
}

func TestProtobufErrorAndBookmark(t *testing.T) {
	status := &metav1.Status{Status: "Failure", Reason: "Expired", Code: 410, Message: "too old"}
	raw, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Name = "p"
	podRaw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	mark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	markRaw, err := mark.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	have := cleanly(t, protobufConfig(framed(
		envelope(t, "ERROR", "v1", "Status", raw),
		envelope(t, "ERROR", "v1", "Pod", raw),
		envelope(t, "ERROR", "v1", "Pod", podRaw),
		[]byte("\x0a\x05ERROR"),
		envelope(t, "BOOKMARK", "v1", "Pod", append(markRaw, "\x12\x01\xff"...)))))
	if len(have) != 5 {
		t.Fatalf("got %v", have)
	}
	for _, g := range have[:2] {
		if g.Status == nil || g.Status.Code != 410 || g.Status.Reason != "Expired" || g.Err != errErrorObject.Error() {
			t.Errorf("a Status: %v", g)
		}
	}
	for _, g := range have[2:4] {
		if g.Status == nil || g.Status.Code != 500 || !strings.Contains(g.Status.Message, "not a readable Status") {
			t.Errorf("no Status: %v", g)
		}
	}
	if g := have[4]; g.Meta != (decode.Meta{APIVersion: "v1", Kind: "Pod", ResourceVersion: "9", InitialEventsEnd: true}) || g.Err != errBookmarkObject.Error() {
		t.Errorf("bookmark: %v", g)
	}
}

func TestProtobufErrorTooLargeIsStillAnError(t *testing.T) {
	status := &metav1.Status{Status: "Failure", Message: strings.Repeat("x", 1000)}
	raw, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c := protobufConfig(framed(envelope(t, "ERROR", "v1", "Status", raw)))
	c.MaxFrameBytes = 100
	have := cleanly(t, c)
	if len(have) != 1 || have[0].Status == nil || have[0].Status.Code != 500 || !strings.Contains(have[0].Status.Message, "limit of 100") {
		t.Errorf("got %v", have)
	}
}

// An envelope says how its object is encoded.
func TestJSONInAnEnvelope(t *testing.T) {
	u := kruntime.Unknown{TypeMeta: kruntime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ContentType: "application/json",
		Raw: []byte(`{"metadata":{"name":"p","namespace":"default","uid":"u-p","resourceVersion":"7"}}`)}
	b, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	ev := metav1.WatchEvent{Type: "ADDED", Object: kruntime.RawExtension{Raw: append([]byte(decode.Magic), b...)}}
	message, err := ev.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	have := cleanly(t, protobufConfig(framed(message)))
	if len(have) != 1 || have[0].Meta != podMeta("p") || have[0].Object == nil || have[0].Object.Name != "p" {
		t.Errorf("got %v", have)
	}
}
