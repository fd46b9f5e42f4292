package streamwatcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// use is what is done with an event before the next one is asked for.
type use func(ev *Event[*corev1.Pod]) error

var uses = map[string]use{
	"decoded": func(ev *Event[*corev1.Pod]) error {
		_, err := ev.Object.Decode()
		return err
	},
	"left alone": func(*Event[*corev1.Pod]) error { return nil },
	"of a copy": func(ev *Event[*corev1.Pod]) error {
		o := ev.Object
		_, err := o.Decode()
		return err
	},
}

// word is what is said of an event: its type, key and resourceVersion.
func word(typ watch.EventType, m decode.Meta) string {
	return fmt.Sprintf("%s %s %s", typ, m.Key(), m.ResourceVersion)
}

// readUsing reads a stream to its end. What turns out to be no event when it is decoded is left out.
func readUsing(t *testing.T, r io.Reader, use use) (events []string, end error) {
	t.Helper()
	w := open(t, podConfig{Body: closer(r), ContentType: typeJSON, MaxFrameBytes: fuzzLimit})
	for {
		ev, err := w.Next()
		if err != nil {
			return events, err
		}
		say := word(ev.Type, ev.Object.Meta)
		if ev.Type != watch.Bookmark && ev.Type != watch.Error {
			if errors.Is(use(ev), decode.ErrLine) {
				continue
			}
		}
		events = append(events, say)
	}
}

// byBrackets reads a stream as if there were no lines.
func byBrackets(b []byte) (events []string, end error) {
	f := newFramer(frame.NewReader(bytes.NewReader(b)), fuzzLimit, func(s string) string { return s })
	for {
		if c, err := f.r.SkipSpace(); err != nil {
			return events, err
		} else if c != '{' {
			return events, f.notAnEvent("not a JSON watch event")
		}
		var ev frameEvent
		if err := f.jsonMembers(&ev); err != nil {
			return events, err
		}
		events = append(events, word(ev.typ, ev.meta))
	}
}

// sameAsByBrackets: lines are a faster way to the same events. One difference is allowed: of a line that is not one event
// it may be noticed late, so that its event comes out before the error.
func sameAsByBrackets(t *testing.T, b []byte) {
	t.Helper()
	all, wantEnd := byBrackets(b)
	for name, use := range uses {
		want := slices.Clone(all)
		for how, r := range map[string]io.Reader{"whole": bytes.NewReader(b), "in halves": iotest.HalfReader(bytes.NewReader(b))} {
			have, end := readUsing(t, r, use)
			if name == "left alone" {
				// What goes on behind its line comes out twice.
				want, have = slices.Compact(want), slices.Compact(have)
			}
			if wantEnd != io.EOF && len(have) == len(want)+1 {
				have = have[:len(want)]
			}
			if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(have, "\n")); diff != "" {
				t.Fatalf("%s, %s (-by brackets +by lines):\n%s", name, how, diff)
			}
			if (wantEnd == io.EOF) != (end == io.EOF) {
				t.Fatalf("%s, %s: the end: %v; by brackets %v", name, how, end, wantEnd)
			}
			var syntax, wantSyntax *frame.SyntaxError
			if errors.As(end, &syntax) != errors.As(wantEnd, &wantSyntax) || syntax != nil && syntax.Offset != wantSyntax.Offset {
				t.Fatalf("%s, %s: the end: %v; by brackets %v", name, how, end, wantEnd)
			}
		}
	}
}

// oddLines are streams in which lines are not what they look like.
var oddLines = map[string]string{
	"two events in a line":      podJSON("p", 0) + podJSON("q", 0) + "\n" + podJSON("r", 0) + "\n",
	"no line break at the end":  podJSON("p", 0) + "\n" + podJSON("q", 0),
	"CRLF":                      podJSON("p", 0) + "\r\n" + podJSON("q", 0) + "\r\n",
	"blanks at the end":         podJSON("p", 0) + " \t \n\n \n" + podJSON("q", 0) + "\n",
	"a break within an event":   strings.Replace(podJSON("p", 0), "}}}}", "}}\n}}", 1) + "\n" + podJSON("q", 0) + "\n",
	"a break behind brackets":   strings.Replace(podJSON("p", 0), `"metadata"`, "\"x\":{\"y\":{}}\n,\"metadata\"", 1) + "\n" + podJSON("q", 0) + "\n",
	"a bracket too many":        podJSON("p", 0) + "}\n" + podJSON("q", 0) + "\n",
	"a bracket too few":         podJSON("p", 0)[:len(podJSON("p", 0))-1] + "\n" + podJSON("q", 0) + "\n",
	"a part missing":            podJSON("p", 200)[:150] + podJSON("q", 0) + "\n" + podJSON("r", 0) + "\n",
	"a break in a string":       strings.Replace(podJSON("p", 300), "xx", "}}\n", 1) + "\n" + podJSON("q", 0) + "\n",
	"a control byte":            strings.Replace(podJSON("p", 300), "xx", "\x01", 1) + "\n" + podJSON("q", 0) + "\n",
	"more members behind":       strings.Replace(podJSON("p", 0), "}}}}", `}}},"x":{"y":{}}}`, 1) + "\n" + podJSON("q", 0) + "\n",
	"another type behind":       strings.Replace(podJSON("p", 0), "}}}}", `}}},"type":"DELETED","z":{}}`, 1) + "\n" + podJSON("q", 0) + "\n",
	"another object behind":     strings.Replace(podJSON("p", 0), "}}}}", `}}},"object":{"metadata":{"name":"s"}}}`, 1) + "\n" + podJSON("q", 0) + "\n",
	"over the limit":            podJSON("p", fuzzLimit+1) + "\n" + podJSON("q", fuzzLimit) + "\n",
	"text behind":               podJSON("p", 0) + "\n" + "<html>\n",
	"not an object":             `{"type":"ADDED","object":[{}]}` + "\n" + podJSON("q", 0) + "\n",
	"wrong metadata":            `{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":7}}}` + "\n" + podJSON("q", 0) + "\n",
	"metadata is none":          `{"type":"ADDED","object":{"kind":"Pod","metadata":[]}}` + "\n" + podJSON("q", 0) + "\n",
	"does not decode":           `{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":7}}}` + "\n" + podJSON("q", 0) + "\n",
	"a bookmark among the rest": podJSON("p", 0) + "\n" + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}` + "\n" + podJSON("q", 0) + "\n",
}

func TestOddLines(t *testing.T) {
	for name, text := range oddLines {
		t.Run(name, func(t *testing.T) { sameAsByBrackets(t, []byte(text)) })
	}
}

// FuzzLines: what comes by lines is what comes by brackets.
func FuzzLines(f *testing.F) {
	for _, a := range watches(f) {
		if a.contentType == typeJSON && a.contentEncoding == "" && len(a.body) < 20000 {
			f.Add(a.body)
		}
	}
	for _, text := range oddLines {
		f.Add([]byte(text))
	}
	f.Fuzz(sameAsByBrackets)
}

// An event on a line that has more behind it is not taken for all of it when nobody decodes it.
func TestEventsThatNobodyDecodes(t *testing.T) {
	events, end := readUsing(t, strings.NewReader(oddLines["two events in a line"]), uses["left alone"])
	want := []string{word("ADDED", podMeta("p")), word("ADDED", podMeta("q")), word("ADDED", podMeta("r"))}
	if diff := cmp.Diff(want, events); diff != "" || end != io.EOF {
		t.Errorf("%v\n%s", end, diff)
	}
}

// An event with a line break behind brackets comes out whole, once as far as decoding goes, also where its
// first line came alone.
func TestEventThatGoesOnBehindItsLine(t *testing.T) {
	for _, name := range []string{"a break within an event", "a break behind brackets"} {
		text := oddLines[name]
		cut := strings.IndexByte(text, '\n') + 1
		for how, r := range map[string]io.Reader{
			"at once":      strings.NewReader(text),
			"line by line": io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:])),
		} {
			var have []string
			w := open(t, podConfig{Body: closer(r), ContentType: typeJSON})
			for {
				ev, err := w.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if pod, err := ev.Object.Decode(); err == nil {
					have = append(have, pod.Name)
				} else if !errors.Is(err, decode.ErrLine) {
					t.Errorf("%s, %s: %v", name, how, err)
				}
			}
			if want := []string{"p", "q"}; !slices.Equal(have, want) {
				t.Errorf("%s, %s: %v, want %v", name, how, have, want)
			}
		}
	}
}

// Consumers of watch.Interface see no error for an event that comes again, and one for what ends the stream.
func TestWatchOfOddLines(t *testing.T) {
	for name, want := range map[string][]watch.EventType{
		"a break within an event": {watch.Added, watch.Added},
		"a control byte":          {watch.Error},
	} {
		text := oddLines[name]
		cut := strings.IndexByte(text, '\n') + 1
		r := io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:]))
		w := AsWatch(open(t, podConfig{Body: closer(r), ContentType: typeJSON}))
		var have []watch.EventType
		for ev := range w.ResultChan() {
			have = append(have, ev.Type)
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
}

// A line that is not one event ends the stream with what is wrong with it, whoever looked first.
func TestBrokenLine(t *testing.T) {
	text := podJSON("p", 0) + "\n" + strings.Replace(podJSON("q", 300), "xx", "\x01\x02", 1) + "\n" + podJSON("r", 0) + "\n"
	at := int64(strings.IndexByte(text, '\x01'))
	for name, use := range uses {
		_, end := readUsing(t, strings.NewReader(text), use)
		var e *Error
		var syntax *frame.SyntaxError
		if !errors.As(end, &e) || e.Reason != reason.Decode || !errors.As(end, &syntax) || syntax.Offset != at {
			t.Errorf("%s: the stream ended with %v, want a SyntaxError at %d", name, end, at)
		}
	}
	w := open(t, jsonConfig(text))
	if _, err := w.Next(); err != nil {
		t.Fatal(err)
	}
	ev, err := w.Next()
	if err != nil {
		t.Fatal(err)
	}
	if pod, err := ev.Object.Decode(); pod != nil || !errors.As(err, new(*frame.SyntaxError)) {
		t.Errorf("decoding it: %v, %v", pod, err)
	}
}

// Two types or objects in one event end the stream, also where the event was handed on with the first.
func TestTwiceInALine(t *testing.T) {
	for _, name := range []string{"another type behind", "another object behind"} {
		for how, use := range uses {
			events, end := readUsing(t, strings.NewReader(oddLines[name]), use)
			if len(events) != 1 || events[0] != word("ADDED", podMeta("p")) || !errors.As(end, new(*frame.SyntaxError)) {
				t.Errorf("%s, %s: %v, then %v", name, how, events, end)
			}
		}
	}
}

// "An event is returned as soon as its last byte can be known": an event that is whole is not
// held back for the line break behind it, and that of a line not for the next line.
func TestLineIsNotWaitedForInVain(t *testing.T) {
	errLater := errors.New("more was asked for")
	for name, text := range map[string]string{
		"line break":           podJSON("p", 0) + "\n" + podJSON("q", 0) + "\n",
		"no line break":        podJSON("p", 0) + "\n" + podJSON("q", 0),
		"half of a line break": podJSON("p", 0) + "\r\n" + podJSON("q", 0) + "\r",
		"never a line break":   podJSON("p", 0) + podJSON("q", 0),
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, podConfig{Body: closer(io.MultiReader(iotest.OneByteReader(strings.NewReader(text)), iotest.ErrReader(errLater))), ContentType: typeJSON})
			for _, name := range []string{"p", "q"} {
				ev, err := w.Next()
				if err != nil || ev.Object.Meta != podMeta(name) {
					t.Fatalf("%v, %v, want the event of %s", ev, err, name)
				}
			}
			if _, err := w.Next(); !errors.Is(err, errLater) {
				t.Errorf("behind them: %v", err)
			}
		})
	}
}

// No allocation for an event but what decoding makes: framing and the peek have none, whether or
// not an event is decoded.
func TestNextAllocations(t *testing.T) {
	for _, contentType := range []string{typeJSON, typeProtobuf} {
		for _, decoded := range []bool{true, false} {
			body, _ := specimens(t, contentType)
			w, err := New(Config[int]{Body: body, ContentType: contentType, Decoder: noDecoder{}})
			if err != nil {
				t.Fatal(err)
			}
			next := func() {
				ev, err := w.Next()
				if err != nil || ev.Object.Meta.Name == "" {
					t.Fatal(ev, err)
				}
				if decoded {
					_, _ = ev.Object.Decode()
				}
			}
			for range 200 {
				next() // until the window has its size
			}
			if n := testing.AllocsPerRun(500, next); n > 0 {
				t.Errorf("%s, decoded %v: %v allocations an event, want 0", contentType, decoded, n)
			}
			w.Stop()
		}
	}
}
