package reflector

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// readyPod is a decoder that costs nothing: it returns what it was given.
type readyPod struct{ pod *corev1.Pod }

func (p readyPod) Decode(decode.Encoding, []byte) (*corev1.Pod, error) { return p.pod, nil }
func (readyPod) Encodings() []decode.Encoding                          { return []decode.Encoding{decode.JSON} }

// modified makes n MODIFIED events of known pods, as a watch brings them, and
// returns a function that deals the i'th.
func modified(t testing.TB, pods int) func(i int) {
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}})
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt[*corev1.Pod]{opened: time.Now()}
	rv := 1000
	next := func(name string, typ watch.EventType) *streamwatcher.Event[*corev1.Pod] {
		rv++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(rv)}}
		m := decode.Meta{Namespace: pod.Namespace, Name: name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
		return &streamwatcher.Event[*corev1.Pod]{Type: typ, Object: decode.NewObject(m, decode.JSON, nil, readyPod{pod})}
	}
	deal := func(ev *streamwatcher.Event[*corev1.Pod]) {
		if err := r.deal(a, ev); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		deal(next(fmt.Sprintf("pod-%05d", i), watch.Added))
	}
	const rounds = 64
	var events []*streamwatcher.Event[*corev1.Pod]
	for range rounds {
		for i := range pods {
			events = append(events, next(fmt.Sprintf("pod-%05d", i), watch.Modified))
		}
	}
	return func(i int) {
		ev := events[i%len(events)]
		if i >= len(events) { // once more from the start, as newer ones
			rv++
			ev.Object.Meta.ResourceVersion = strconv.Itoa(rv)
		}
		deal(ev)
	}
}

// BenchmarkEvent is what a MODIFIED of a known pod costs beside reading and decoding.
func BenchmarkEvent(b *testing.B) {
	deal := modified(b, 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		deal(i)
		i++
	}
}

// Beside the decoder's allocations an event of a known object costs its entry, and a copy of its
// resourceVersion for the session.
func TestEventAllocations(t *testing.T) {
	deal := modified(t, 100)
	i := 0
	if n := testing.AllocsPerRun(1000, func() { deal(i); i++ }); n > 2 {
		t.Errorf("a MODIFIED costs %v allocations beside reading and decoding, want at most 2", n)
	}
}

// podsOf300Nodes are pods with a label that names their node, and nothing else.
func podsOf300Nodes(n int) []*corev1.Pod {
	objects := make([]*corev1.Pod, n)
	for i := range objects {
		name := fmt.Sprintf("web-7d9c5b4f6d-%05d", i)
		objects[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
			ResourceVersion: strconv.Itoa(i + 1), Labels: map[string]string{"node": strconv.Itoa(i % 300)}}}
	}
	return objects
}

// "Memory: beside the objects about 140 bytes for each, and 40 for each value of an index."
func TestBytesBesideTheObjects(t *testing.T) {
	const n = 10_000
	objects := podsOf300Nodes(n)
	for _, tc := range []struct {
		store *Store[*corev1.Pod]
		want  int64
	}{
		{NewStore[*corev1.Pod](), 150},
		{NewStore(ByLabel[*corev1.Pod]("node")), 200},
	} {
		before := heap()
		for _, p := range objects {
			tc.store.testUpsert(decode.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, p)
		}
		if got := (heap() - before) / n; got > tc.want {
			t.Errorf("a store with %d indexes takes %d bytes beside each object, want at most %d", len(tc.store.indexes), got, tc.want)
		}
		runtime.KeepAlive(tc.store)
	}
	runtime.KeepAlive(objects)
}
