package streamwatcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

func jsonConfig(text string) podConfig {
	return podConfig{Body: closer(strings.NewReader(text)), ContentType: typeJSON}
}

func TestTransferEncodingAndLayoutChangeNothing(t *testing.T) {
	var events []string
	for i := range 50 {
		events = append(events, strings.Replace(podJSON(fmt.Sprintf("pod-%d", i), 300+i), "xxx", `\"\u00e9`, 1))
	}
	want := cleanly(t, jsonConfig(strings.Join(events, "\n")+"\n"))
	if len(want) != 50 || want[49].Meta.Name != "pod-49" || want[49].Err != "" {
		t.Fatalf("%d events, the last %v", len(want), want[len(want)-1])
	}
	pretty := func() string {
		var b bytes.Buffer
		for _, e := range events {
			if err := json.Indent(&b, []byte(e), "  ", "\t"); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	text := strings.Join(events, "\r\n")
	layouts := map[string]io.Reader{
		"no line breaks":     strings.NewReader(strings.Join(events, "")),
		"CRLF":               strings.NewReader(text),
		"empty lines around": strings.NewReader("\r\n\n \t" + strings.Join(events, "\n\n\n") + "\n \r\n"),
		"pretty":             strings.NewReader(pretty()),
		"pretty with CRLF":   strings.NewReader(strings.ReplaceAll(pretty(), "\n", "\r\n")),
		"one byte a chunk":   chunks(text, 1, "", "%x"),
		"one chunk":          chunks(text, len(text), "", "%x"),
		"chunk extensions":   chunks(text, 7, ";ext=\"v\"", "%x"),
		"upper-case hex":     chunks(text, 11, "", "%X"),
		"leading zeros":      chunks(text, 301, "", "%08x"),
	}
	for name, r := range layouts {
		t.Run(name, func(t *testing.T) {
			have := cleanly(t, podConfig{Body: closer(r), ContentType: typeJSON})
			if diff := cmp.Diff(want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// chunks is text in HTTP/1.1 chunks of size bytes, taken apart by net/http.
func chunks(text string, size int, extension, hex string) io.Reader {
	var b strings.Builder
	for len(text) > 0 {
		n := min(size, len(text))
		fmt.Fprintf(&b, hex+"%s\r\n%s\r\n", n, extension, text[:n])
		text = text[n:]
	}
	b.WriteString("0\r\n\r\n")
	return httputil.NewChunkedReader(strings.NewReader(b.String()))
}

func TestEnvelope(t *testing.T) {
	const object = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"u-p","resourceVersion":"7"}}`
	for _, text := range []string{
		`{"type":"ADDED","object":` + object + `}`,
		`{"object":` + object + `,"type":"ADDED"}`,
		`{"x":[{"type":"no","object":{}}],"type":"ADDED","y":"}","object":` + object + `,"z":null}`,
		`{"\u0074ype":"\u0041DDED","o\u0062ject":` + object + `}`,
		"{\n  \"type\" : \"ADDED\" ,\n  \"object\" :\n " + object + "\n}",
	} {
		have := cleanly(t, jsonConfig(text))
		if len(have) != 1 || have[0].Type != watch.Added || have[0].Meta != podMeta("p") || have[0].Object == nil || have[0].Object.Name != "p" {
			t.Errorf("%s: %v", text, have)
		}
	}
}

// "Unknown event types": passed on with their metadata.
func TestUnknownTypeIsPassedOn(t *testing.T) {
	have := cleanly(t, jsonConfig(strings.Replace(podJSON("p", 0), "ADDED", "RENAMED", 1)+podJSON("q", 0)))
	if len(have) != 2 || have[0].Type != "RENAMED" || have[0].Meta != podMeta("p") || have[1].Meta != podMeta("q") {
		t.Errorf("got %v", have)
	}
}

// An event that nests deeper than JSON may costs itself only: it has its metadata and does not decode.
func TestJSONFrameTooDeep(t *testing.T) {
	nest := strings.Repeat("[", frame.MaxDepth) + strings.Repeat("]", frame.MaxDepth)
	deep := strings.Replace(podJSON("deep", 0), `"metadata":`, `"odd":`+nest+`,"metadata":`, 1)
	for name, text := range map[string]string{
		"lines":    podJSON("first", 0) + "\n" + deep + "\n" + podJSON("small", 0) + "\n",
		"one line": podJSON("first", 0) + deep + podJSON("small", 0),
	} {
		t.Run(name, func(t *testing.T) {
			have := cleanly(t, podConfig{Body: closer(strings.NewReader(text)), ContentType: typeJSON})
			if len(have) != 3 || have[1].Meta != podMeta("deep") || !strings.Contains(have[1].Err, "nest deeper than 10000 levels") ||
				have[2].Meta != podMeta("small") || have[2].Object == nil {
				t.Errorf("got %v", have)
			}
		})
	}
}

// "A frame or item over the limit costs that item, not the stream."
func TestJSONFrameOverTheLimit(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{65535, 65536, 65537, limit - 1, limit, limit + 1, limit + 2, 4 * limit} {
		text := podJSON("big", size) + "\n" + podJSON("small", 0) + "\n"
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "half": iotest.HalfReader(strings.NewReader(text))} {
			t.Run(fmt.Sprintf("%d/%s", size, name), func(t *testing.T) {
				w := open(t, podConfig{Body: closer(r), ContentType: typeJSON, MaxFrameBytes: limit})
				ev, err := w.Next()
				if err != nil || ev.Type != watch.Added || ev.Object.Meta != podMeta("big") {
					t.Fatalf("%v, %v", ev, err)
				}
				pod, err := ev.Object.Decode()
				var tooLarge *frame.TooLargeError
				switch {
				case size <= limit && (err != nil || pod.Name != "big"):
					t.Errorf("within the limit: %v", err)
				case size > limit && (!errors.As(err, &tooLarge) || tooLarge.Size != int64(size) || tooLarge.Limit != limit):
					t.Errorf("over the limit: %v", err)
				}
				ev, err = w.Next()
				if err != nil || ev.Object.Meta != podMeta("small") {
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

// Of a frame over the limit the head is peeked; the type may stand behind it.
func TestHeadOfAnOversizedFrame(t *testing.T) {
	pad := strings.Repeat("x", 1000)
	cases := []struct {
		name, text string
		meta       decode.Meta
	}{
		{"type last", `{"object":{"kind":"Pod","metadata":{"name":"p","labels":{"a":"` + pad + `"}}},"type":"DELETED"}`, decode.Meta{Kind: "Pod", Name: "p"}},
		{"junk first", `{"x":"` + pad + `","object":{"kind":"Pod","metadata":{"name":"p"}},"type":"DELETED"}`, decode.Meta{}},
		{"cut in the name", `{"type":"DELETED","object":{"kind":"Pod","metadata":{"uid":"u","name":"` + pad + `"}}}`, decode.Meta{Kind: "Pod", UID: "u"}},
		{"object whole in the head", `{"type":"DELETED","object":{"kind":"Pod","metadata":{"name":"p"}},"x":"` + pad + `"}`, decode.Meta{Kind: "Pod", Name: "p"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conf := jsonConfig(c.text + podJSON("q", 0))
			conf.MaxFrameBytes = 250
			have := cleanly(t, conf)
			if len(have) != 2 || have[0].Type != watch.Deleted || have[0].Meta != c.meta || have[0].Err == "" || have[1].Meta != podMeta("q") {
				t.Errorf("got %v", have)
			}
		})
	}
}

func TestErrorTooLargeIsStillAnError(t *testing.T) {
	conf := jsonConfig(`{"type":"ERROR","object":{"kind":"Status","message":"` + strings.Repeat("x", 1000) + `"}}`)
	conf.MaxFrameBytes = 100
	have := cleanly(t, conf)
	if len(have) != 1 || have[0].Status == nil || have[0].Status.Code != 500 || !strings.Contains(have[0].Status.Message, "limit of 100") {
		t.Errorf("got %v", have)
	}
}

// "An object that does not decode is quarantined by key": the event has the key and
// the error, and the stream goes on.
func TestBadObjects(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		meta   decode.Meta
	}{
		"wrong field":      {`{"kind":"Pod","metadata":{"name":"p"},"spec":{"restartPolicy":7}}`, decode.Meta{Kind: "Pod", Name: "p"}},
		"wrong metadata":   {`{"kind":"Pod","metadata":{"name":"p","uid":7}}`, decode.Meta{Kind: "Pod", Name: "p"}},
		"null":             {`null`, decode.Meta{}},
		"a number":         {`7`, decode.Meta{}},
		"an array":         {`[{}]`, decode.Meta{}},
		"bad inner syntax": {`{"kind":"Pod","metadata":{"name":"p"},"spec":{,}}`, decode.Meta{Kind: "Pod", Name: "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			have := cleanly(t, jsonConfig(`{"type":"MODIFIED","object":`+c.object+`}`+podJSON("q", 0)))
			if len(have) != 2 || have[0].Type != watch.Modified || have[0].Err == "" || have[0].Meta != c.meta || have[1].Err != "" {
				t.Errorf("got %v", have)
			}
		})
	}
	have := cleanly(t, jsonConfig(`{"type":"ADDED"}`+podJSON("q", 0)))
	if len(have) != 2 || have[0].Err != errNoObject.Error() {
		t.Errorf("no object: %v", have)
	}
}

func TestBodiesThatAreNoWatch(t *testing.T) {
	for _, c := range []struct {
		name, text string
		offset     int64
		want       string
	}{
		{"html", "<!DOCTYPE html><html><body>Log in</body>" + strings.Repeat(" ", 5000), 0, `"<!DOCTYPE html><html><body>Log in</body>`},
		{"text behind an event", podJSON("p", 200) + "\nupstream timed out", 201, "upstream timed out"},
		{"array", "[{}]", 0, `"[{}]"`},
		{"binary", "\x00\x01\xff\xfe", 0, `"\x00\x01\xff\xfe"`},
		{"a Status", `{"kind":"Status","code":500}`, 0, "has no type"},
		{"empty type", `{"type":"","object":{}}`, 0, "has no type"},
		{"two types", ` {"type":"ADDED","object":{},"type":"ADDED"}`, 1, "two types"},
		{"two objects", `{"object":{},"object":{},"type":"ADDED"}`, 0, "two objects"},
		{"type is a number", `{"type":7}`, 8, "string should stand here"},
		{"brackets", `{"type":"ADDED","object":{"a":[}}`, 31, "closes nothing"},
		{"byte order mark", "\ufeff" + podJSON("p", 0), 0, "not a JSON watch event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, end := drain(t, jsonConfig(c.text))
			var e *Error
			if !errors.As(end, &e) || e.Reason != reason.Decode || !strings.Contains(e.Error(), c.want) {
				t.Fatalf("got %v, want reason decode and %q", end, c.want)
			}
			var syntax *frame.SyntaxError
			if !errors.As(end, &syntax) || syntax.Offset != c.offset {
				t.Errorf("got %v, want offset %d", end, c.offset)
			}
			if len(e.Error()) > 250 {
				t.Errorf("an error of %d bytes", len(e.Error()))
			}
		})
	}
}

// An event without end is given up, however many members it is made of.
func TestEventWithoutEnd(t *testing.T) {
	member := `,"x":"` + strings.Repeat("x", 4<<10) + `"`
	f := newFramer(frame.NewReader(io.MultiReader(strings.NewReader(`{"type":"ADDED"`), &repeat{text: []byte(member)})), 1<<10, nil)
	f.giveUp = 1 << 20
	var ev frameEvent
	if err := f.json(&ev); !errors.As(err, new(*frame.SyntaxError)) {
		t.Errorf("got %v", err)
	}
}

// "ERROR [is decoded] as Status, whatever [its] kind says", and "BOOKMARK is decoded as metadata".
func TestErrorAndBookmark(t *testing.T) {
	have := cleanly(t, jsonConfig(
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`+
			`{"type":"ERROR","object":{"kind":"Pod","status":"Failure","message":"m","code":500}}`+
			`{"type":"ERROR","object":{"kind":"Pod","metadata":{"name":"p"},"status":{"phase":"Running"}}}`+
			`{"type":"ERROR","object":null}{"type":"ERROR"}`+
			`{"type":"BOOKMARK","object":{"kind":"Status","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":7}}}`))
	if len(have) != 6 {
		t.Fatalf("got %v", have)
	}
	if s := have[0].Status; s == nil || s.Code != 410 || s.Reason != "Expired" {
		t.Errorf("a plain Status: %v", have[0])
	}
	if s := have[1].Status; s == nil || s.Message != "m" {
		t.Errorf("a Status that calls itself Pod: %v", have[1])
	}
	for _, g := range have[2:5] {
		if s := g.Status; s == nil || s.Code != 500 || s.Status != "Failure" || !strings.Contains(s.Message, "not a readable Status") {
			t.Errorf("an ERROR without a Status: %v", g)
		}
	}
	if g := have[5]; g.Type != watch.Bookmark || g.Meta != (decode.Meta{Kind: "Status", ResourceVersion: "9", InitialEventsEnd: true}) ||
		g.Err != errBookmarkObject.Error() || g.Status != nil {
		t.Errorf("bookmark: %v", g)
	}
	for _, g := range have[:5] {
		if g.Meta != (decode.Meta{}) || g.Err != errErrorObject.Error() {
			t.Errorf("an ERROR has an object: %v", g)
		}
	}
}
