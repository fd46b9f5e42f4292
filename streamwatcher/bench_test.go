package streamwatcher

import (
	"bytes"
	"testing"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// endless is a body that has text over and over.
type endless struct {
	text []byte
	next int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.next:])
	e.next = (e.next + n) % len(e.text)
	return n, nil
}

func (*endless) Close() error { return nil }

// noDecoder takes any bytes for an object, and makes nothing of them.
type noDecoder struct{}

func (noDecoder) Decode(decode.Encoding, []byte) (int, error) { return 0, nil }
func (noDecoder) Encodings() []decode.Encoding {
	return []decode.Encoding{decode.Protobuf, decode.JSON}
}

// specimens is a stream of MODIFIED events of pods, without an end.
func specimens(t testing.TB, contentType string) (body *endless, mean int) {
	t.Helper()
	mediaType := specimen.JSON
	if contentType == typeProtobuf {
		mediaType = specimen.Protobuf
	}
	events, err := specimen.Events(mediaType, specimen.Pods(200))
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Join(events, nil)
	return &endless{text: text}, len(text) / len(events)
}

// BenchmarkNext is an event without decoding: framing and the peek. "skipped" is an event that
// nobody decodes, so that the end of a JSON object has to be looked for.
func BenchmarkNext(b *testing.B) {
	for _, contentType := range []string{typeJSON, typeProtobuf} {
		for _, decoded := range []bool{true, false} {
			enc, use := "json", "skipped"
			if contentType == typeProtobuf {
				enc = "protobuf"
			}
			if decoded {
				use = "decoded"
			}
			b.Run("encoding="+enc+"/"+use, func(b *testing.B) {
				body, mean := specimens(b, contentType)
				w, err := New(Config[int]{Body: body, ContentType: contentType, Decoder: noDecoder{}})
				if err != nil {
					b.Fatal(err)
				}
				defer w.Stop()
				b.SetBytes(int64(mean))
				b.ReportAllocs()
				for b.Loop() {
					ev, err := w.Next()
					if err != nil {
						b.Fatal(err)
					}
					if decoded {
						_, _ = ev.Object.Decode()
					}
				}
			})
		}
	}
}
