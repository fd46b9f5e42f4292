package listwatch

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samples "github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// knownItems is a sink that knows every item already.
type knownItems struct{ items int }

func (*knownItems) Meta(metav1.ListMeta) error { return nil }

func (c *knownItems) Item(o *decode.Object[*corev1.Pod]) error {
	if o.Meta.Name != "" && o.Meta.Kind == "Pod" {
		c.items++
	}
	return nil
}

// knownList is the body of a list of n pods.
func knownList(t testing.TB, mediaType string, n int) []byte {
	t.Helper()
	list, err := samples.NewList(mediaType, n, "5")
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if _, err := list.WriteTo(&body); err != nil {
		t.Fatal(err)
	}
	return body.Bytes()
}

// "What kept UID and RV is untouched (no event, no decode, no allocation)": an item that nobody decodes costs
// no allocation to be found and peeked.
func TestListOfKnownItemsAllocatesNothing(t *testing.T) {
	lw := newFor[*corev1.Pod](t, "http://127.0.0.1:1", nil)
	a := &attempt{}
	for _, mediaType := range []string{samples.JSON, samples.Protobuf} {
		allocations := func(n int) float64 {
			body := knownList(t, mediaType, n)
			return testing.AllocsPerRun(3, func() {
				sink := &knownItems{}
				l := lw.newListReader(a, sink, bytes.NewReader(body))
				read := l.json
				if mediaType == samples.Protobuf {
					read = l.protobuf
				}
				if err := read(); err != nil || sink.items != n {
					t.Fatalf("%d items, %v", sink.items, err)
				}
			})
		}
		if few, many := allocations(100), allocations(400); many-few > 5 {
			t.Errorf("%s: %v allocations for 100 items, %v for 400", mediaType, few, many)
		}
	}
}

// BenchmarkListKnown is a relist of which every item is known: framing and the peek.
func BenchmarkListKnown(b *testing.B) {
	const n = 200
	lw := newFor[*corev1.Pod](b, "http://127.0.0.1:1", nil)
	a := &attempt{}
	for name, mediaType := range map[string]string{"json": samples.JSON, "protobuf": samples.Protobuf} {
		b.Run("encoding="+name, func(b *testing.B) {
			body := knownList(b, mediaType, n)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				l := lw.newListReader(a, &knownItems{}, bytes.NewReader(body))
				read := l.json
				if mediaType == samples.Protobuf {
					read = l.protobuf
				}
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
		})
	}
}
