package streamwatcher

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httputil"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
)

// plain is a recorded body as client-go's decoders are to see it.
func (a answer) plain(t testing.TB) io.Reader {
	t.Helper()
	if a.contentEncoding != "gzip" {
		return bytes.NewReader(a.body)
	}
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func (a answer) config(r io.Reader) podConfig {
	return podConfig{Body: closer(r), ContentType: a.contentType, ContentEncoding: a.contentEncoding}
}

// want is what client-go makes of a recorded body. A bookmark's object is not
// compared: it goes through no decoder here.
func (a answer) want(t testing.TB) []got {
	events := reference(t, a.contentType, a.plain(t))
	for i, ev := range events {
		if ev.Type == watch.Bookmark {
			events[i].Object, events[i].Err = nil, errBookmarkObject.Error()
		}
		if ev.Type == watch.Error {
			events[i].Err = errErrorObject.Error()
		}
	}
	return events
}

func TestRecordedAnswersGiveWhatClientGoGives(t *testing.T) {
	counts := map[string]int{}
	for _, a := range watches(t) {
		t.Run(a.name, func(t *testing.T) {
			want := a.want(t)
			have := cleanly(t, a.config(httputil.NewChunkedReader(bytes.NewReader(a.chunked))))
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("events differ (-client-go +ours):\n%s", diff)
			}
			counts[a.name] = len(have)
		})
	}
	// The recorded answers hold something to compare.
	for name, least := range map[string]int{"watch-churn-json": 5, "watch-churn-proto": 5, "watchlist-json": 5,
		"watchlist-proto": 5, "watchlist-json-gzip": 5, "watch-expired-json": 1, "watch-expired-proto": 1} {
		if counts[name] < least {
			t.Errorf("%s has %d events, want at least %d", name, counts[name], least)
		}
	}
}

// Both encodings of one history give equal objects: the server wrote them at the
// same time from the same pods.
func TestEncodingsAgree(t *testing.T) {
	for _, pair := range [][2]string{
		{"watch-churn-json", "watch-churn-proto"},
		{"watchlist-json", "watchlist-proto"},
		{"watchlist-json", "watchlist-json-gzip"},
		{"watch-expired-json", "watch-expired-proto"},
	} {
		t.Run(pair[1], func(t *testing.T) {
			a, b := readAnswer(t, pair[0]), readAnswer(t, pair[1])
			one := cleanly(t, a.config(bytes.NewReader(a.body)))
			two := cleanly(t, b.config(bytes.NewReader(b.body)))
			for i := range min(len(one), len(two)) {
				if one[i].Type == watch.Bookmark || two[i].Type == watch.Bookmark {
					continue // each watch got its bookmarks when it got them
				}
				if diff := cmp.Diff(one[i], two[i]); diff != "" {
					t.Errorf("event %d differs (-%s +%s):\n%s", i, pair[0], pair[1], diff)
				}
			}
		})
	}
}

func TestCutsChangeNothing(t *testing.T) {
	cuts := map[string]func(io.Reader) io.Reader{
		"one byte a read":      iotest.OneByteReader,
		"half reads":           iotest.HalfReader,
		"error with last data": iotest.DataErrReader,
		"one byte, error with last data": func(r io.Reader) io.Reader {
			return iotest.DataErrReader(iotest.OneByteReader(r))
		},
	}
	for _, a := range watches(t) {
		want := cleanly(t, a.config(bytes.NewReader(a.body)))
		for name, cut := range cuts {
			t.Run(a.name+"/"+name, func(t *testing.T) {
				if diff := cmp.Diff(want, cleanly(t, a.config(cut(bytes.NewReader(a.body))))); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestEveryCut cuts the recorded bytes in two at every offset, of long bodies at
// every 31st. What is compared is metadata and raw bytes; the objects are functions of these.
func TestEveryCut(t *testing.T) {
	for name, step := range map[string]int{"watch-expired-json": 1, "watch-expired-proto": 1,
		"watchlist-sharded": 31, "watchlist-proto": 31, "watchlist-json-gzip": 31} {
		a := readAnswer(t, name)
		want := rawEvents(t, a.config(bytes.NewReader(a.body)))
		for i := 0; i < len(a.body); i += step {
			r := io.MultiReader(bytes.NewReader(a.body[:i]), bytes.NewReader(a.body[i:]))
			if diff := cmp.Diff(want, rawEvents(t, a.config(r))); diff != "" {
				t.Fatalf("%s cut at %d:\n%s", name, i, diff)
			}
		}
	}
}

// rawEvents is a cheaper drain: the type and raw bytes of each event.
func rawEvents(t testing.TB, c podConfig) (events []string) {
	t.Helper()
	w := open(t, c)
	for {
		ev, err := w.Next()
		if err == io.EOF {
			return events
		}
		if err != nil {
			t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, string(ev.Type)+" "+ev.Object.Meta.Key().String()+" "+string(ev.Object.Raw))
	}
}
