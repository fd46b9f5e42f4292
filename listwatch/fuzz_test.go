package listwatch

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Small, so that small inputs get over it: the fuzzer is slow with large ones.
const fuzzItemLimit = 512

func fuzzLister(f *testing.F) *ListerWatcher[*corev1.Pod] {
	lw, err := New[*corev1.Pod](Config{REST: &rest.Config{Host: "http://host"}, Resource: pods, MaxItemBytes: fuzzItemLimit})
	if err != nil {
		f.Fatal(err)
	}
	return lw
}

// counter is a Sink that looks at nothing.
type counter struct{ metas, items int }

func (c *counter) Meta(metav1.ListMeta) error             { c.metas++; return nil }
func (c *counter) Item(*decode.Object[*corev1.Pod]) error { c.items++; return nil }

// readBody reads a list as List does, without a server.
func readBody(lw *ListerWatcher[*corev1.Pod], enc decode.Encoding, src io.Reader, sink Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	l := lw.newListReader(&attempt{}, sink, src)
	if enc == decode.Protobuf {
		err := l.protobuf()
		return l.meta, err
	}
	err := l.json()
	return l.meta, err
}

// checkList reads body in three ways, which must agree, and compares with want, what
// apimachinery makes of it, where both accept it.
func checkList(t *testing.T, lw *ListerWatcher[*corev1.Pod], enc decode.Encoding, body []byte, want *corev1.PodList) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	counted := &counter{}
	_, err := readBody(lw, enc, bytes.NewReader(body), counted)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20+1<<10*uint64(len(body)) {
		t.Errorf("%d bytes allocated for a body of %d", grown, len(body))
	}

	sink := &recorder[*corev1.Pod]{}
	meta, err2 := readBody(lw, enc, iotest.OneByteReader(bytes.NewReader(body)), sink)
	if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() || len(sink.items) != counted.items || len(sink.meta) != counted.metas {
		t.Fatalf("in one piece: %d items, %v; byte by byte: %d items, %v", counted.items, err, len(sink.items), err2)
	}
	if len(sink.meta) > 1 || err == nil && len(sink.meta) != 1 {
		t.Errorf("metadata handed on %d times", len(sink.meta))
	}
	if err != nil || want == nil {
		return
	}
	if !apiequality.Semantic.DeepEqual(meta, want.ListMeta) {
		t.Errorf("metadata is %+v, apimachinery says %+v", meta, want.ListMeta)
	}
	if len(sink.items) != len(want.Items) {
		t.Fatalf("%d items, apimachinery has %d", len(sink.items), len(want.Items))
	}
	for i, item := range sink.items {
		if sink.errs[i] != nil {
			continue // null, or too large
		}
		pod := want.Items[i]
		pod.TypeMeta = metav1.TypeMeta{}
		if !reflect.DeepEqual(item, &pod) {
			t.Errorf("item %d is\n%+v, apimachinery says\n%+v", i, item, &pod)
		}
		if h := sink.heads[i]; h.Name != pod.Name || h.Namespace != pod.Namespace || h.UID != pod.UID || h.ResourceVersion != pod.ResourceVersion {
			t.Errorf("item %d: metadata is %+v, the object has %+v", i, h, pod.ObjectMeta)
		}
	}
}

func FuzzListJSON(f *testing.F) {
	for _, name := range []string{"list-empty-json", "error-forbidden"} {
		_, body := specimen(f, name)
		f.Add(body)
	}
	f.Add([]byte("{\n  \"kind\": \"PodList\",\n  \"metadata\": {\n    \"continue\": \"x\", \"remainingItemCount\": 7\n  },\n  \"items\": [\n    {\n      \"metadata\": {\"name\": \"a\", \"uid\": \"u\\u00e9\"}\n    }\n  ]\n}\n"))
	f.Add([]byte(`{"kind":"Table","rows":[{"object":{"metadata":{"name":"a"}}}]}`))
	f.Add([]byte(`{"items":[{"metadata":{"name":"a"}},null,7],"kind":"PodList","metadata":{"resourceVersion":"5"}}`))
	f.Add([]byte(`{"kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"x":"` + strings.Repeat("x", 2*fuzzItemLimit) + `"}}]}`))
	lw := fuzzLister(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		want := &corev1.PodList{}
		if kjson.UnmarshalCaseSensitivePreserveInts(body, want) != nil {
			want = nil
		}
		checkList(t, lw, decode.JSON, body, want)
	})
}

func FuzzListProtobuf(f *testing.F) {
	small := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "large", Annotations: map[string]string{"x": strings.Repeat("x", fuzzItemLimit)}}},
	}}
	raw, err := small.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	message, err := (&kruntime.Unknown{TypeMeta: kruntime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte(decode.Magic), message...))
	f.Add([]byte("k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x0b\x0a\x03\x12\x015\x12\x04\x0a\x02\x0a\x00"))
	f.Add([]byte("k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\xff\xff\xff\xff\x3f\x12\xff\xff\xff\xff\x07"))
	lw := fuzzLister(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		var want *corev1.PodList
		if message, ok := bytes.CutPrefix(body, []byte(decode.Magic)); ok {
			var envelope kruntime.Unknown
			list := &corev1.PodList{}
			if envelope.Unmarshal(message) == nil && list.Unmarshal(envelope.Raw) == nil {
				want = list
			}
		}
		checkList(t, lw, decode.Protobuf, body, want)
	})
}

func FuzzStatusBody(f *testing.F) {
	for _, name := range []string{"error-forbidden", "error-list-rv-too-large", "error-continue-expired", "error-unauthorized", "list-empty-json"} {
		_, body := specimen(f, name)
		f.Add(body, mediaJSON, 500)
	}
	f.Add([]byte("<html><script>x</script><h1>Bad <b>Gateway"), "text/html", 502)
	f.Add([]byte("k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x09\x12\x07Failure"), mediaProtobuf, 406)
	known := map[reason.Reason]bool{}
	for _, r := range reason.All() {
		known[r] = true
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string, code int) {
		s := parseStatus(body)
		if s != nil && bytes.HasPrefix(body, []byte("{")) {
			want := &metav1.Status{}
			if err := json.Unmarshal(body, want); err != nil {
				t.Errorf("a Status of what encoding/json refuses: %v", err)
			}
		}
		e := &Error{Reason: classify(code, s), Verb: "list", Resource: pods, Code: code, APIStatus: s}
		if s != nil {
			e.User = refusedUser(e.Reason, s)
			e.hint = nodeHint("pods", e.User, "")
			if from := FromStatus(s); !known[from.Reason] || from.RetryAfter < 0 {
				t.Errorf("FromStatus is %+v", from)
			}
		} else if text := snippet(body, contentType); text != "" {
			e.Err = io.ErrUnexpectedEOF
			if len(text) > maxSnippet+len("...") {
				t.Errorf("snippet of %d bytes", len(text))
			}
		}
		if !known[e.Reason] {
			t.Errorf("reason is %q", e.Reason)
		}
		if e.Status().Status == "" && s == nil {
			t.Errorf("Status() is %+v", e.Status())
		}
		text := e.Error()
		if len(text) > 4*maxMessage || strings.ContainsFunc(text, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) {
			t.Errorf("text of %d bytes: %q", len(text), text)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, header := range []string{"", "2", "99999", "-1", "abc", "007", "Mon, 30 Nov 2026 07:11:12 GMT", "99999999999999999999", "9223372036854775807"} {
		f.Add(header, "Mon, 30 Nov 2026 07:11:02 GMT")
	}
	now := time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header, date string) {
		got := parseRetryAfter(header, date, now)
		if got < 0 {
			t.Errorf("%q: %s", header, got)
		}
		digits := strings.TrimSpace(header)
		seconds, ok := new(big.Int).SetString(digits, 10)
		if ok && strings.Trim(digits, "0123456789") == "" {
			want := time.Duration(math.MaxInt64 / int64(time.Second) * int64(time.Second))
			if seconds.IsInt64() && seconds.Int64() < int64(want/time.Second) {
				want = time.Duration(seconds.Int64()) * time.Second
			}
			if got != want {
				t.Errorf("%q: %s, want %s", header, got, want)
			}
			return
		}
		if _, err := http.ParseTime(digits); err != nil && got != 0 {
			t.Errorf("%q is neither seconds nor a date, and gives %s", header, got)
		}
	})
}
