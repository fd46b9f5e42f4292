package streamwatcher

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf;stream=watch"
)

// answer is a recorded response of a kube-apiserver.
type answer struct {
	name                         string
	status                       int
	contentType, contentEncoding string
	chunked                      []byte // the body as on the wire
	body                         []byte // without the chunks
}

func readAnswer(t testing.TB, name string) answer {
	t.Helper()
	path := filepath.Join("testdata", "wire", name)
	head, err := os.ReadFile(path + ".head")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{name: name, status: resp.StatusCode,
		contentType: resp.Header.Get("Content-Type"), contentEncoding: resp.Header.Get("Content-Encoding")}
	if a.chunked, err = os.ReadFile(path + ".body"); err != nil {
		t.Fatal(err)
	}
	a.body = a.chunked
	if len(resp.TransferEncoding) > 0 {
		if a.body, err = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(a.chunked))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return a
}

// watches are the recorded answers that are watches.
func watches(t testing.TB) (all []answer) {
	t.Helper()
	heads, err := filepath.Glob(filepath.Join("testdata", "wire", "*.head"))
	if err != nil || len(heads) < 8 {
		t.Fatalf("recorded answers: %v, %v", heads, err)
	}
	for _, head := range heads {
		a := readAnswer(t, strings.TrimSuffix(filepath.Base(head), ".head"))
		if a.status == http.StatusOK {
			all = append(all, a)
		}
	}
	return all
}

// got is all that one event says.
type got struct {
	Type   watch.EventType
	Meta   decode.Meta
	Object *corev1.Pod
	Status *metav1.Status
	Err    string // of Decode
}

func (g got) String() string {
	b, _ := json.Marshal(g)
	return string(b)
}

func see(ev *Event[*corev1.Pod]) got {
	g := got{Type: ev.Type, Meta: ev.Object.Meta.Clone(), Status: ev.Status}
	pod, err := ev.Object.Decode()
	if err != nil {
		g.Err = err.Error()
	}
	g.Object = pod
	return g
}

// newPodDecoder compiles a decoder once for all tests.
var newPodDecoder = sync.OnceValues(decode.New[*corev1.Pod])

func podDecoder(t testing.TB) decode.Decoder[*corev1.Pod] {
	t.Helper()
	d, err := newPodDecoder()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type podConfig = Config[*corev1.Pod]

func open(t testing.TB, c podConfig) *StreamWatcher[*corev1.Pod] {
	t.Helper()
	if c.Decoder == nil {
		c.Decoder = podDecoder(t)
	}
	w, err := New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(w.Stop)
	return w
}

// drain returns all events and the error that ended them.
func drain(t testing.TB, c podConfig) (events []got, end error) {
	t.Helper()
	w := open(t, c)
	for {
		ev, err := w.Next()
		if err != nil {
			if _, again := w.Next(); again != err {
				t.Errorf("Next returned %v, then %v: an error should be sticky", err, again)
			}
			return events, err
		}
		events = append(events, see(ev))
	}
}

// cleanly drains a stream that must end with io.EOF.
func cleanly(t testing.TB, c podConfig) []got {
	t.Helper()
	events, end := drain(t, c)
	if end != io.EOF {
		t.Fatalf("after %d events the stream ended with %v, want io.EOF", len(events), end)
	}
	return events
}

func closer(r io.Reader) io.ReadCloser { return io.NopCloser(r) }

// reference decodes a body as client-go does.
func reference(t testing.TB, contentType string, r io.Reader) (events []got) {
	t.Helper()
	media, _, _ := strings.Cut(contentType, ";")
	info, ok := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatalf("client-go has no serializer for %s", media)
	}
	frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(r))
	decoder := restwatch.NewDecoder(
		streaming.NewDecoder(frames, info.StreamSerializer.Serializer),
		scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, nil))
	for {
		typ, obj, err := decoder.Decode()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatalf("client-go: event %d: %v", len(events), err)
		}
		g := got{Type: typ}
		switch o := obj.(type) {
		case *metav1.Status:
			g.Status = o
		case *corev1.Pod:
			g.Object = o
			g.Meta = decode.Meta{APIVersion: "v1", Kind: "Pod", Namespace: o.Namespace, Name: o.Name, UID: o.UID,
				ResourceVersion:  o.ResourceVersion,
				InitialEventsEnd: o.Annotations[metav1.InitialEventsAnnotationKey] == "true"}
		default:
			t.Fatalf("client-go: event %d is a %T", len(events), obj)
		}
		events = append(events, g)
	}
}

// podJSON is the text of an ADDED event whose object is padded so that the
// whole frame has size bytes.
func podJSON(name string, size int) string {
	format := `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"u-` +
		name + `","resourceVersion":"7","annotations":{"pad":"%s"}}}}`
	return fmt.Sprintf(format, name, strings.Repeat("x", max(0, size-len(fmt.Sprintf(format, name, "")))))
}

func podMeta(name string) decode.Meta {
	return decode.Meta{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name,
		UID: types.UID("u-" + name), ResourceVersion: "7"}
}

// podProtobuf is an event of type typ, whose whole message has about size bytes.
func podProtobuf(t testing.TB, typ, name string, size int) []byte {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.ResourceVersion = name, "default", "7"
	pod.UID = types.UID("u-" + name)
	build := func(pad int) []byte {
		pod.Annotations = map[string]string{"pad": strings.Repeat("x", pad)}
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return envelope(t, typ, "v1", "Pod", raw)
	}
	short := build(0)
	if size <= len(short) {
		return short
	}
	b := build(size - len(short))
	return build(size - len(short) - (len(b) - size)) // the lengths take some bytes too
}

// envelope is one frame's message: a WatchEvent with a runtime.Unknown in it.
func envelope(t testing.TB, typ, apiVersion, kind string, raw []byte) []byte {
	t.Helper()
	unknown := kruntime.Unknown{TypeMeta: kruntime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	u, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	ev := metav1.WatchEvent{Type: typ, Object: kruntime.RawExtension{Raw: append([]byte(decode.Magic), u...)}}
	b, err := ev.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// framed puts each message's length in front of it.
func framed(messages ...[]byte) []byte {
	var b []byte
	for _, m := range messages {
		n := len(m)
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		b = append(b, m...)
	}
	return b
}

// heapGrowth is how many bytes f leaves allocated beyond what was before, at most: the
// total allocated while it runs.
func heapGrowth(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
