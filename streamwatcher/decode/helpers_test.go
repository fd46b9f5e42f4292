package decode

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http/httputil"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// wire returns the objects of a recorded JSON watch.
func wire(t testing.TB, name string) (objects []json.RawMessage) {
	t.Helper()
	chunked, err := os.ReadFile(filepath.Join("..", "testdata", "wire", name+".body"))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(httputil.NewChunkedReader(bytes.NewReader(chunked)))
	for {
		var ev struct{ Object json.RawMessage }
		if err := dec.Decode(&ev); err == io.EOF {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, ev.Object)
	}
}

// clientGo decodes as client-go's clients do.
func clientGo(t testing.TB, media string, raw []byte) runtime.Object {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatalf("no serializer for %s", media)
	}
	obj, _, err := scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, nil).Decode(raw, nil, nil)
	if err != nil {
		t.Fatalf("client-go: %v", err)
	}
	return obj
}

// enveloped is o in protobuf as a server sends it.
func enveloped(t testing.TB, apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	b, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(Magic), b...)
}

func mustNew[T any](t testing.TB) Decoder[T] {
	t.Helper()
	d, err := New[T]()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func metaOf(o metav1.Object, apiVersion, kind string) Meta {
	return Meta{APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion:  o.GetResourceVersion(),
		InitialEventsEnd: o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"}
}

// clientGoDecode is clientGo with the decoder made once.
func clientGoDecode(t testing.TB, media string) func(raw []byte) runtime.Object {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatalf("no serializer for %s", media)
	}
	dec := scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, nil)
	return func(raw []byte) runtime.Object {
		obj, _, err := dec.Decode(raw, nil, nil)
		if err != nil {
			t.Fatalf("client-go: %v", err)
		}
		return obj
	}
}

// perRun returns how many allocations, and bytes of them, f makes: the medians, as under the race
// detector a sync.Pool now and then forgets what it was given.
func perRun(runs int, f func()) (allocs, size float64) {
	counts, sizes := make([]float64, runs), make([]float64, runs)
	var before, after goruntime.MemStats
	for i := range runs {
		goruntime.ReadMemStats(&before)
		f()
		goruntime.ReadMemStats(&after)
		counts[i], sizes[i] = float64(after.Mallocs-before.Mallocs), float64(after.TotalAlloc-before.TotalAlloc)
	}
	slices.Sort(counts)
	slices.Sort(sizes)
	return counts[runs/2], sizes[runs/2]
}
