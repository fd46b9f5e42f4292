package specimen

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

var mediaTypes = []string{JSON, Protobuf}

// decoder reads events as client-go does.
func decoder(mediaType string, body io.ReadCloser) *restwatch.Decoder {
	info := Serializer(mediaType)
	return restwatch.NewDecoder(
		streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(body), info.StreamSerializer.Serializer),
		scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion),
	)
}

// apimachineryList is the body of a LIST that answers with the pods, as apimachinery writes it.
func apimachineryList(mediaType string, pods []*corev1.Pod, resourceVersion string) ([]byte, error) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: resourceVersion}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(Serializer(mediaType).Serializer, corev1.SchemeGroupVersion), list)
	if err != nil {
		return nil, fmt.Errorf("specimen: encoding a list as %s: %w", mediaType, err)
	}
	return body, nil
}

func newStream(t *testing.T, mediaType string, pods int, stamped bool) *Stream {
	t.Helper()
	s, err := NewStream(mediaType, pods, stamped)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStream: the events are whole versions of their pods, each with its own
// resourceVersion and times, and only what the package comment names differs from the listed pod.
func TestStream(t *testing.T) {
	t.Parallel()
	const pods = 60
	var both [2][]*corev1.Pod
	for m, mediaType := range mediaTypes {
		s := newStream(t, mediaType, pods, false)
		dec := decoder(mediaType, s.Reader())
		times, ids := map[metav1.Time]int{}, map[string]bool{}
		for k := range 3 * pods {
			typ, obj, err := dec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			pod, was := obj.(*corev1.Pod), Pod(s.Number(k))
			if typ != watch.Modified || pod.Name != was.Name || pod.UID != was.UID {
				t.Fatalf("%s: event %d is %s of %s, want MODIFIED of %s", mediaType, k, typ, pod.Name, was.Name)
			}
			if want := strconv.Itoa(FirstUpdate + k); pod.ResourceVersion != want {
				t.Errorf("%s: event %d has the resourceVersion %s, want %s", mediaType, k, pod.ResourceVersion, want)
			}
			if !equality.Semantic.DeepEqual(pod.Spec, was.Spec) {
				t.Errorf("%s: the spec changed: %s", mediaType, cmp.Diff(was.Spec, pod.Spec))
			}
			wrote := 0
			for i, e := range pod.ManagedFields {
				if !e.Time.Equal(was.ManagedFields[i].Time) {
					wrote++
					times[*e.Time]++
				}
			}
			if wrote != 1 {
				t.Errorf("%s: event %d has %d new managedFields entries, want 1", mediaType, k, wrote)
			}
			for i, c := range pod.Status.ContainerStatuses {
				if c.ContainerID == was.Status.ContainerStatuses[i].ContainerID {
					continue
				}
				if ids[c.ContainerID] {
					t.Errorf("%s: the container ID %s came twice", mediaType, c.ContainerID)
				}
				ids[c.ContainerID] = true
			}
			if equality.Semantic.DeepEqual(pod.Status, was.Status) && equality.Semantic.DeepEqual(pod.Labels, was.Labels) && cmp.Equal(pod.Annotations, was.Annotations) {
				// A pod that is ready again has only new times of its conditions, which are in status.
				t.Errorf("%s: event %d changes nothing", mediaType, k)
			}
			both[m] = append(both[m], pod)
		}
		if len(times) != 3*pods || len(ids) == 0 {
			t.Errorf("%s: %d different times and %d new containers in %d events", mediaType, len(times), len(ids), 3*pods)
		}
	}
	if !equality.Semantic.DeepEqual(both[0], both[1]) {
		t.Error("the two encodings have different events")
	}
}

// TestStreamMix: the shares are those of the package comment.
func TestStreamMix(t *testing.T) {
	t.Parallel()
	count := map[change]int{}
	for i := range 2_000 {
		count[mix[i*7%len(mix)]]++
	}
	want := map[change]int{readiness: 1200, restart: 400, sandbox: 100, annotation: 200, label: 100}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Error(diff)
	}
}

func TestStreamNumber(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 10, 500, 997, 10_000} {
		s, seen, neighbours := &Stream{pods: n, stride: stride(n)}, map[int]bool{}, 0
		for k := range n {
			seen[s.Number(k)] = true
			if k > 0 && s.Number(k)/podsPerReplicaSet == s.Number(k-1)/podsPerReplicaSet {
				neighbours++
			}
		}
		if len(seen) != n {
			t.Errorf("%d pods: a round has %d of them", n, len(seen))
		}
		if n >= 500 && neighbours > 0 {
			t.Errorf("%d pods: %d neighbours are of one ReplicaSet", n, neighbours)
		}
	}
	if _, err := NewStream(JSON, 0, false); err == nil {
		t.Error("a stream of no pods was made")
	}
}

func TestStreamSizes(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string][2]int{JSON: {9_000, 10_300}, Protobuf: {6_000, 7_000}} {
		if mean := newStream(t, mediaType, 200, false).MeanBytes(); mean < want[0] || mean > want[1] {
			t.Errorf("%s: %d bytes an event, want %d to %d", mediaType, mean, want[0], want[1])
		}
	}
}

// TestStamp: a stamped event says when it was made.
func TestStamp(t *testing.T) {
	t.Parallel()
	for _, mediaType := range mediaTypes {
		before := time.Now().UnixNano()
		body := newStream(t, mediaType, 3, true).Append(nil)
		_, obj, err := decoder(mediaType, io.NopCloser(bytes.NewReader(body))).Decode()
		if err != nil {
			t.Fatal(err)
		}
		stamp := obj.(*corev1.Pod).Annotations[SentAnnotation]
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || at < before || at > time.Now().UnixNano() {
			t.Errorf("%s: stamped %q, %v; want a time since %d", mediaType, stamp, err, before)
		}
	}
}

// TestCollection: it is List, and the initial events are those of the watch protocol.
func TestCollection(t *testing.T) {
	t.Parallel()
	for _, mediaType := range mediaTypes {
		for _, n := range []int{0, 1, 2*podsPerPiece + 3} {
			t.Run(fmt.Sprint(mediaType, n), func(t *testing.T) {
				t.Parallel()
				c, err := NewList(mediaType, n, "42")
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if _, err := c.WriteTo(&got); err != nil || got.Len() != c.Len() {
					t.Fatalf("wrote %d of %d bytes: %v", got.Len(), c.Len(), err)
				}
				obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), got.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				list := obj.(*corev1.PodList)
				if list.ResourceVersion != "42" || len(list.Items) != n {
					t.Fatalf("%d items at %s, want %d at 42", len(list.Items), list.ResourceVersion, n)
				}
				for i := range list.Items {
					if !equality.Semantic.DeepEqual(&list.Items[i], Pod(i)) {
						t.Fatalf("pod %d differs: %s", i, cmp.Diff(Pod(i), &list.Items[i]))
					}
				}
				if n == 0 {
					return // apimachinery writes "items":null or [] by the kind of nil
				}
				want, err := apimachineryList(mediaType, Pods(n), "42")
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(bytes.TrimSpace(got.Bytes()), bytes.TrimSpace(want)) {
					t.Errorf("%d bytes, not the %d that apimachinery writes", got.Len(), len(want))
				}
			})
		}
		t.Run("initial events "+mediaType, func(t *testing.T) {
			t.Parallel()
			c, err := NewInitialEvents(mediaType, 300, "42")
			if err != nil {
				t.Fatal(err)
			}
			var body bytes.Buffer
			if _, err := c.WriteTo(&body); err != nil {
				t.Fatal(err)
			}
			dec := decoder(mediaType, io.NopCloser(&body))
			for i := range 300 {
				typ, obj, err := dec.Decode()
				if err != nil || typ != watch.Added || !equality.Semantic.DeepEqual(obj, Pod(i)) {
					t.Fatalf("event %d: %s of %v, %v", i, typ, obj, err)
				}
			}
			typ, obj, err := dec.Decode()
			if err != nil || typ != watch.Bookmark {
				t.Fatalf("the last event is %s: %v", typ, err)
			}
			if m := obj.(*corev1.Pod); m.ResourceVersion != "42" || m.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("the bookmark is %v", m.ObjectMeta)
			}
		})
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	for _, mediaType := range mediaTypes {
		body, err := Expired(mediaType)
		if err != nil {
			t.Fatal(err)
		}
		typ, obj, err := decoder(mediaType, io.NopCloser(bytes.NewReader(body))).Decode()
		if s, ok := obj.(*metav1.Status); err != nil || typ != watch.Error || !ok || s.Code != 410 {
			t.Errorf("%s: %s of %v, %v", mediaType, typ, obj, err)
		}
	}
}
