package bench

import (
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// encoding is one that both sides can read, with the content type that a server
// gives a watch in it.
type encoding struct{ name, mediaType, watchType string }

var encodings = []encoding{
	{"json", specimen.JSON, specimen.JSON},
	{"protobuf", specimen.Protobuf, specimen.Protobuf + ";stream=watch"},
}

// eventBytes is the mean length of an event.
func (e encoding) eventBytes() int { return meanBytes()[e.name] }

var meanBytes = sync.OnceValue(func() map[string]int {
	out := make(map[string]int)
	for _, e := range encodings {
		if s, err := specimen.NewStream(e.mediaType, 100, false); err == nil {
			out[e.name] = s.MeanBytes()
		}
	}
	return out
})

// decodePods is how many pods the events in memory are of. All versions of them
// are larger than the caches of a processor.
const decodePods = 2_000

func newStream(t testing.TB, enc encoding, pods int) *specimen.Stream {
	t.Helper()
	s, err := specimen.NewStream(enc.mediaType, pods, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// source is one way to read pods from a watch body. next returns pod k of
// the stream as the source has it, and keeps it as a store would until the pod's next version.
type source[T any] struct {
	name string
	open func(t testing.TB, body io.ReadCloser, enc encoding) (next func(number int) (T, error), stop func())
}

var (
	noManagedFields = decode.Config{Drop: []string{"metadata.managedFields"}}
	slimFields      = decode.Config{NumbersOf: &corev1.Pod{}}

	sources = []source[*corev1.Pod]{
		{implPrivate, nodewatchSource[*corev1.Pod](decode.Config{}, false)},
		{"nodewatch-private-dropped", nodewatchSource[*corev1.Pod](noManagedFields, false)},
		{implNodewatch, nodewatchSource[*corev1.Pod](noManagedFields, true)},
		{implClientGo, openClientGo},
		{"client-go-decoder", openClientGoDecoder},
	}
	slimSources = []source[*slimPod]{
		{"nodewatch-slim-private", nodewatchSource[*slimPod](slimFields, false)},
		{"nodewatch-slim", nodewatchSource[*slimPod](slimFields, true)},
	}
)

// slimPod is what an agent wants to know of a pod: ten fields.
type slimPod struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName           string `json:"nodeName"`
		ServiceAccountName string `json:"serviceAccountName"`
	} `json:"spec"`
	Status struct {
		Phase  string `json:"phase"`
		PodIP  string `json:"podIP"`
		HostIP string `json:"hostIP"`
	} `json:"status"`
}

// slimOf is what a slimPod has of a pod.
func slimOf(p *corev1.Pod) *slimPod {
	s := &slimPod{}
	s.Metadata.Name, s.Metadata.Namespace, s.Metadata.UID = p.Name, p.Namespace, string(p.UID)
	s.Metadata.ResourceVersion, s.Metadata.Labels = p.ResourceVersion, p.Labels
	s.Spec.NodeName, s.Spec.ServiceAccountName = p.Spec.NodeName, p.Spec.ServiceAccountName
	s.Status.Phase, s.Status.PodIP, s.Status.HostIP = string(p.Status.Phase), p.Status.PodIP, p.Status.HostIP
	return s
}

// nodewatchSource decodes private objects, or updates of the known ones as a reflector does.
func nodewatchSource[T any](cfg decode.Config, shared bool) func(testing.TB, io.ReadCloser, encoding) (func(int) (T, error), func()) {
	return func(t testing.TB, body io.ReadCloser, enc encoding) (func(int) (T, error), func()) {
		t.Helper()
		dec, err := decode.NewWith[T](cfg)
		if err != nil {
			t.Fatal(err)
		}
		sw, err := streamwatcher.New(streamwatcher.Config[T]{Body: body, ContentType: enc.watchType, Decoder: dec})
		if err != nil {
			t.Fatal(err)
		}
		known := make([]T, decodePods)
		parts := make([]decode.Parts, decodePods)
		return func(number int) (T, error) {
			ev, err := sw.Next()
			if err != nil {
				var zero T
				return zero, err
			}
			k := number % decodePods
			if shared {
				known[k], parts[k], err = ev.Object.DecodeShared(known[k], parts[k])
			} else {
				known[k], err = ev.Object.Decode()
			}
			return known[k], err
		}, sw.Stop
	}
}

// keep returns next with a store of what it returned last of each pod.
func keep(next func() (*corev1.Pod, error)) func(int) (*corev1.Pod, error) {
	known := make([]*corev1.Pod, decodePods)
	return func(number int) (pod *corev1.Pod, err error) {
		pod, err = next()
		known[number%decodePods] = pod
		return pod, err
	}
}

// openClientGo is what a client-go informer reads from: decoder, goroutine and channel.
func openClientGo(t testing.TB, body io.ReadCloser, enc encoding) (func(int) (*corev1.Pod, error), func()) {
	t.Helper()
	sw := watch.NewStreamWatcher(clientGoDecoder(body, enc.mediaType), apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "bench"))
	return keep(func() (*corev1.Pod, error) {
		ev, ok := <-sw.ResultChan()
		if !ok {
			return nil, io.EOF
		}
		return podOf(ev.Object)
	}), sw.Stop
}

// openClientGoDecoder is the same without the goroutine and the channel.
func openClientGoDecoder(t testing.TB, body io.ReadCloser, enc encoding) (func(int) (*corev1.Pod, error), func()) {
	t.Helper()
	dec := clientGoDecoder(body, enc.mediaType)
	return keep(func() (*corev1.Pod, error) {
		_, obj, err := dec.Decode()
		if err != nil {
			return nil, err
		}
		return podOf(obj)
	}), dec.Close
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
	const pods, n = 20, 3 * 20
	for _, enc := range encodings {
		want := make([]*corev1.Pod, n)
		numbers := newStream(t, enc, pods)
		next, stop := openClientGoDecoder(t, newStream(t, enc, pods).Reader(), enc)
		defer stop()
		for k := range want {
			var err error
			if want[k], err = next(numbers.Number(k)); err != nil {
				t.Fatal(err)
			}
		}
		for _, src := range sources {
			t.Run(enc.name+"/"+src.name, func(t *testing.T) {
				fields := loopback.Dropped
				if src.name == implPrivate || src.name == implClientGo || src.name == "client-go-decoder" {
					fields = loopback.Kept
				}
				next, stop := src.open(t, newStream(t, enc, pods).Reader(), enc)
				defer stop()
				for k := range want {
					got, err := next(numbers.Number(k))
					if err != nil {
						t.Fatalf("event %d: %v", k, err)
					}
					samePod(t, got, withFields(want[k], fields))
				}
			})
		}
		for _, src := range slimSources {
			t.Run(enc.name+"/"+src.name, func(t *testing.T) {
				next, stop := src.open(t, newStream(t, enc, pods).Reader(), enc)
				defer stop()
				for k := range want {
					got, err := next(numbers.Number(k))
					if err != nil {
						t.Fatalf("event %d: %v", k, err)
					}
					if diff := cmp.Diff(slimOf(want[k]), got); diff != "" {
						t.Fatalf("event %d (-want +got):\n%s", k, diff)
					}
				}
			})
		}
	}
}

// BenchmarkDecode: one operation is one event of a known pod, framed and decoded.
func BenchmarkDecode(b *testing.B) {
	for _, enc := range encodings {
		stream := sync.OnceValue(func() *specimen.Stream { return newStream(b, enc, decodePods) })
		for _, src := range sources {
			benchmarkDecode(b, stream, enc, src)
		}
		for _, src := range slimSources {
			benchmarkDecode(b, stream, enc, src)
		}
	}
}

func benchmarkDecode[T any](b *testing.B, newStream func() *specimen.Stream, enc encoding, src source[T]) {
	b.Run("encoding="+enc.name+"/impl="+src.name, func(b *testing.B) {
		live, stream := liveStore(), newStream().Again()
		next, stop := src.open(b, stream.Reader(), enc)
		defer stop()
		k := 0
		one := func() {
			if _, err := next(stream.Number(k)); err != nil {
				b.Fatal(err)
			}
			k++
		}
		for range decodePods {
			one() // from here on the pods are known
		}
		b.SetBytes(int64(stream.MeanBytes()))
		b.ReportAllocs()
		before := cpu(b)
		for b.Loop() {
			one()
		}
		b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		runtime.KeepAlive(live)
	})
}

// liveStore keeps pods alive for the rest of the process, as in a program that has
// a store: with a small heap the collector runs so often that it hides what is measured.
var liveStore = sync.OnceValue(func() []*corev1.Pod { return specimen.Pods(benchPods - decodePods) })
