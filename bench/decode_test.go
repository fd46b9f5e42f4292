package bench

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// encodings are what both sides can read, with the content type that a server
// gives a watch in it.
var encodings = []struct{ name, mediaType, watchType string }{
	{"json", specimen.JSON, specimen.JSON},
	{"protobuf", specimen.Protobuf, specimen.Protobuf + ";stream=watch"},
}

// liveStore keeps 10,000 pods alive for the rest of the process.
var liveStore = sync.OnceValue(func() []*corev1.Pod { return specimen.Pods(10_000) })

// replay is a body that has data over and over, without an end.
type replay struct {
	data []byte
	next int
}

func (r *replay) Read(p []byte) (int, error) {
	n := copy(p, r.data[r.next:])
	r.next = (r.next + n) % len(r.data)
	return n, nil
}

func (r *replay) Close() error { return nil }

// source is one way to read pods from a watch body; next returns the next one.
type source struct {
	name string
	open func(t testing.TB, body io.ReadCloser, mediaType, watchType string) (next func() (*corev1.Pod, error), stop func())
}

var sources = []source{
	{"nodewatch", openNodewatch},
	{"client-go", openClientGo},
	{"client-go-decoder", openClientGoDecoder},
}

func openNodewatch(t testing.TB, body io.ReadCloser, _, watchType string) (func() (*corev1.Pod, error), func()) {
	t.Helper()
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	sw, err := streamwatcher.New(streamwatcher.Config[*corev1.Pod]{Body: body, ContentType: watchType, Decoder: dec})
	if err != nil {
		t.Fatal(err)
	}
	return func() (*corev1.Pod, error) {
		ev, err := sw.Next()
		if err != nil {
			return nil, err
		}
		return ev.Object.Decode()
	}, sw.Stop
}

// openClientGo is what a client-go informer reads from: decoder, goroutine and channel.
func openClientGo(t testing.TB, body io.ReadCloser, mediaType, _ string) (func() (*corev1.Pod, error), func()) {
	t.Helper()
	sw := watch.NewStreamWatcher(clientGoDecoder(body, mediaType), apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "bench"))
	return func() (*corev1.Pod, error) {
		ev, ok := <-sw.ResultChan()
		if !ok {
			return nil, io.EOF
		}
		return podOf(ev.Object)
	}, sw.Stop
}

// openClientGoDecoder is the same without the goroutine and the channel.
func openClientGoDecoder(t testing.TB, body io.ReadCloser, mediaType, _ string) (func() (*corev1.Pod, error), func()) {
	t.Helper()
	dec := clientGoDecoder(body, mediaType)
	return func() (*corev1.Pod, error) {
		_, obj, err := dec.Decode()
		if err != nil {
			return nil, err
		}
		return podOf(obj)
	}, dec.Close
}

// clientGoDecoder is put together as rest.Request.Watch does it.
func clientGoDecoder(body io.ReadCloser, mediaType string) *restwatch.Decoder {
	info := specimen.Serializer(mediaType)
	frames := info.StreamSerializer.Framer.NewFrameReader(body)
	return restwatch.NewDecoder(
		streaming.NewDecoder(frames, info.StreamSerializer.Serializer),
		scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion),
	)
}

// TestSourcesAgree: what the benchmark compares reads the same pods.
func TestSourcesAgree(t *testing.T) {
	pods := specimen.Pods(60)
	for _, enc := range encodings {
		events, err := specimen.Events(enc.mediaType, pods)
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range sources {
			t.Run(enc.name+"/"+src.name, func(t *testing.T) {
				next, stop := src.open(t, &replay{data: bytes.Join(events, nil)}, enc.mediaType, enc.watchType)
				defer stop()
				for i := range 2 * len(pods) { // twice: the replay has no seam
					got, err := next()
					if err != nil {
						t.Fatalf("event %d: %v", i, err)
					}
					samePod(t, got, pods[i%len(pods)])
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, enc := range encodings {
		events, err := specimen.Events(enc.mediaType, specimen.Pods(500))
		if err != nil {
			b.Fatal(err)
		}
		body := bytes.Join(events, nil)
		for _, src := range sources {
			b.Run("encoding="+enc.name+"/impl="+src.name, func(b *testing.B) {
				live := liveStore()
				b.SetBytes(int64(len(body) / len(events)))
				b.ReportAllocs()
				next, stop := src.open(b, &replay{data: body}, enc.mediaType, enc.watchType)
				defer stop()
				for b.Loop() {
					if _, err := next(); err != nil {
						b.Fatal(err)
					}
				}
				runtime.KeepAlive(live)
			})
		}
	}
}
