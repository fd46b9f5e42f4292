package listwatch

import (
	"bytes"
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	samples "github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// podList encodes pods as the body of a list.
func podList(t *testing.T, enc decode.Encoding, items []corev1.Pod) []byte {
	t.Helper()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: items}
	if enc == decode.JSON {
		list.TypeMeta = metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}
		raw, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := kruntime.Unknown{TypeMeta: kruntime.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Raw: raw}
	if raw, err = unknown.Marshal(); err != nil {
		t.Fatal(err)
	}
	return append([]byte(decode.Magic), raw...)
}

// discard decodes each item and keeps none.
type discard struct {
	t    *testing.T
	last *corev1.Pod
}

func (d *discard) Meta(metav1.ListMeta) error { return nil }
func (d *discard) Item(o *decode.Object[*corev1.Pod]) (err error) {
	if d.last, err = o.Decode(); err != nil {
		d.t.Error(err)
	}
	return nil
}

// L4: managedFields and last-applied can be dropped in the decoder, never
// allocated: a pod that has them then costs what one costs that has not.
func TestDroppedFieldsAreNeverAllocated(t *testing.T) {
	const items = 40
	var heavy, light []corev1.Pod
	for _, pod := range samples.Pods(items) {
		pod.Annotations[lastApplied] = strings.Repeat("x", 3000)
		pod.ManagedFields = slices.Repeat(pod.ManagedFields, 10)
		heavy = append(heavy, *pod.DeepCopy())
		pod.ManagedFields = nil
		delete(pod.Annotations, lastApplied)
		light = append(light, *pod)
	}
	if n := slices.IndexFunc(heavy, func(p corev1.Pod) bool { return len(p.ManagedFields) == 0 }); n >= 0 {
		t.Fatalf("specimen %d has no managedFields", n)
	}
	drops := newFor[*corev1.Pod](t, "http://host", func(c *Config) {
		c.Decode.Drop = []string{"metadata.managedFields", "metadata.annotations[" + lastApplied + "]"}
	})
	keeps := newFor[*corev1.Pod](t, "http://host", nil)
	for _, enc := range []decode.Encoding{decode.JSON, decode.Protobuf} {
		cost := func(lw *ListerWatcher[*corev1.Pod], body []byte) (bytesMade uint64, last *corev1.Pod) {
			sink := &discard{t: t}
			bytesMade = math.MaxUint64
			for range 10 { // the least: a pool may be empty at any time
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := readBody(lw, enc, bytes.NewReader(body), sink); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				bytesMade = min(bytesMade, after.TotalAlloc-before.TotalAlloc)
			}
			return bytesMade, sink.last
		}
		with, without := podList(t, enc, heavy), podList(t, enc, light)
		all, kept := cost(keeps, with)
		dropped, slim := cost(drops, with)
		least, _ := cost(drops, without)
		if len(kept.ManagedFields) == 0 || kept.Annotations[lastApplied] == "" {
			t.Errorf("%v: without Drop the fields are gone", enc)
		}
		if _, there := slim.Annotations[lastApplied]; len(slim.ManagedFields) > 0 || there || len(slim.Annotations) == 0 {
			t.Errorf("%v: with Drop a pod has %d managedFields, annotations %v", enc, len(slim.ManagedFields), slim.Annotations)
		}
		t.Logf("%v: %d bytes with the fields, %d dropped, %d without", enc, all, dropped, least)
		// A quarter of the difference is for the pool of the race detector, which loses what is put into it at random.
		if dropped > least+(all-least)/4 {
			t.Errorf("%v: %d pods cost %d bytes with the dropped fields on the wire, %d without, %d where they are kept", enc, items, dropped, least, all)
		}
		if all < 2*least {
			t.Errorf("%v: %d pods cost %d bytes, and %d without the fields: the test tells nothing", enc, items, all, least)
		}
	}
}
