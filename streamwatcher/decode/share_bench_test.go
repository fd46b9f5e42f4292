package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// managed is dropped by those who care for memory.
var managed = []string{"metadata.managedFields"}

// modified returns what a status update by the kubelet makes of a pod: a condition changes,
// with the managed fields' time and the resourceVersion.
func modified(pod *corev1.Pod, round int) *corev1.Pod {
	return modifiedAt(pod, round, pod.Status.StartTime.Add(time.Duration(round)*13*time.Second))
}

func modifiedAt(pod *corev1.Pod, round int, at time.Time) *corev1.Pod {
	p, now := pod.DeepCopy(), metav1.NewTime(at)
	p.ResourceVersion = strconv.Itoa(5_000_000 + round)
	p.ManagedFields[2].Time = &now
	c := &p.Status.Conditions[round%len(p.Status.Conditions)]
	c.LastTransitionTime = now
	if round%2 == 0 {
		c.Status = corev1.ConditionFalse
	}
	return p
}

// A stream is the encoded versions of one pod after the other, of which no two are the same.
type stream struct {
	raws [][]byte
	at   [][]int // in each, where the times stand that change
	enc  Encoding
	n    int
}

// clock is a time that stands nowhere else in a specimen.
var clock = time.Date(2027, 10, 11, 10, 0, 0, 0, time.UTC)

func newStream(t testing.TB, enc Encoding, pods []*corev1.Pod, encode func(*corev1.Pod) []byte) *stream {
	s := &stream{enc: enc}
	mark := []byte(clock.Format(time.RFC3339))
	if enc == Protobuf {
		mark = binary.AppendUvarint(nil, uint64(clock.Unix()))
	}
	for i, pod := range pods {
		raw := encode(modifiedAt(pod, i, clock))
		var at []int
		for from := 0; ; {
			k := bytes.Index(raw[from:], mark)
			if k < 0 {
				break
			}
			at = append(at, from+k)
			from += k + len(mark)
		}
		if len(at) != 2 {
			t.Fatalf("the time stands in %d places", len(at))
		}
		s.raws, s.at = append(s.raws, raw), append(s.at, at)
	}
	return s
}

// next returns which pod changed, and its version.
func (s *stream) next() (pod int, raw []byte) {
	pod = s.n % len(s.raws)
	s.n++
	raw = s.raws[pod]
	for _, at := range s.at[pod] {
		if s.enc == Protobuf { // three bytes of the number
			raw[at], raw[at+1], raw[at+2] = byte(s.n)|0x80, byte(s.n>>7)|0x80, byte(s.n>>14)|0x80
			continue
		}
		for k, n := len("2027-10-11T10:00:0"), s.n; k > 10; k-- { // seconds, minutes and hours up to 10
			if c := raw[at+k]; c != ':' && c != 'T' {
				if k != 11 {
					raw[at+k], n = '0'+byte(n%6), n/6
				}
			}
		}
	}
	return pod, raw
}

// BenchmarkModified is one MODIFIED event of a pod of which the store has the version before.
func BenchmarkModified(b *testing.B) {
	const known = 500
	live := specimen.Pods(10_000)
	slim := mustNewWith[*slimPod](b, Config{NumbersOf: &corev1.Pod{}})
	pods := mustNewWith[*corev1.Pod](b, Config{Drop: managed})
	for _, enc := range []Encoding{Protobuf, JSON} {
		stream := func(b *testing.B) *stream {
			return newStream(b, enc, live[:known], func(pod *corev1.Pod) []byte { return both(b, pod)[enc] })
		}
		b.Run(fmt.Sprintf("enc=%v/type=pod/impl=nodewatch", enc), func(b *testing.B) { benchModified(b, pods, stream(b)) })
		b.Run(fmt.Sprintf("enc=%v/type=slim/impl=nodewatch", enc), func(b *testing.B) { benchModified(b, slim, stream(b)) })
		b.Run(fmt.Sprintf("enc=%v/type=slim/impl=nodewatch-private", enc), func(b *testing.B) { benchPrivate(b, slim, stream(b)) })
		b.Run(fmt.Sprintf("enc=%v/type=pod/impl=nodewatch-private", enc), func(b *testing.B) { benchPrivate(b, pods, stream(b)) })
		b.Run(fmt.Sprintf("enc=%v/type=pod/impl=client-go", enc), func(b *testing.B) {
			decode := clientGoDecode(b, map[Encoding]string{Protobuf: specimen.Protobuf, JSON: specimen.JSON}[enc])
			s := newStream(b, enc, live[:known], func(pod *corev1.Pod) []byte {
				if enc == JSON {
					return both(b, pod)[JSON]
				}
				return enveloped(b, "v1", "Pod", pod)
			})
			b.ReportAllocs()
			for b.Loop() {
				_, raw := s.next()
				decode(raw)
			}
		})
	}
	runtime.KeepAlive(live)
}

func benchModified[T any](b *testing.B, d Decoder[T], s *stream) {
	store, parts := make([]T, len(s.raws)), make([]Parts, len(s.raws))
	shared := d.(Sharer[T])
	update := func() {
		i, raw := s.next()
		t, p, err := shared.DecodeShared(s.enc, raw, store[i], parts[i])
		if err != nil {
			b.Fatal(err)
		}
		store[i], parts[i] = t, p
	}
	for range s.raws {
		update()
	}
	b.ReportAllocs()
	for b.Loop() {
		update()
	}
}

func benchPrivate[T any](b *testing.B, d Decoder[T], s *stream) {
	b.ReportAllocs()
	for b.Loop() {
		_, raw := s.next()
		if _, err := d.Decode(s.enc, raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRest reports the heap that a pod of 10,000 in a store takes, with all that
// is there for it: parts and tables included, managed fields dropped.
func BenchmarkRest(b *testing.B) {
	pods := specimen.Pods(10_000)
	for _, enc := range []Encoding{Protobuf, JSON} {
		for _, updates := range []int{0, 100} {
			b.Run(fmt.Sprintf("enc=%v/updates=%d", enc, updates), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(restBytes(b, enc, pods, updates), "B/pod")
				}
			})
		}
	}
	runtime.KeepAlive(pods)
}

// restBytes returns the heap that each of the pods takes in a store, after some updates of each.
func restBytes(t testing.TB, enc Encoding, pods []*corev1.Pod, updates int) float64 {
	raws := make([][]byte, len(pods))
	for i, pod := range pods {
		raws[i] = both(t, pod)[enc]
	}
	before := heap()
	d := mustNewWith[*corev1.Pod](t, Config{Drop: managed}).(Sharer[*corev1.Pod])
	store, parts := make([]*corev1.Pod, len(pods)), make([]Parts, len(pods))
	update := func(i int, raw []byte) {
		var err error
		if store[i], parts[i], err = d.DecodeShared(enc, raw, store[i], parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		update(i, raws[i])
	}
	for round := range updates {
		for i, pod := range pods {
			if (i+round)%10 == 0 || round == updates-1 { // each ten times, and all at last
				update(i, both(t, modified(pod, round))[enc])
			}
		}
	}
	after := heap()
	runtime.KeepAlive(store)
	runtime.KeepAlive(parts)
	runtime.KeepAlive(raws)
	runtime.KeepAlive(d)
	return float64(after-before) / float64(len(pods))
}

// heap returns how many bytes are live.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // the pools of sync let go of things at the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
