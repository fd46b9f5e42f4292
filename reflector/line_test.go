package reflector

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// lineDecoder is decode's own with what goes wrong planted by name.
type lineDecoder struct{ decode.Decoder[*corev1.Pod] }

func (d lineDecoder) Decode(enc decode.Encoding, raw []byte) (*corev1.Pod, error) {
	if strings.Contains(string(raw), `"name":"panic`) {
		panic("a decoder of the caller's")
	}
	return d.Decoder.Decode(enc, raw)
}

// itemReader makes the objects of a list as a reader hands it on: its bytes and the strings of its metadata are in a buffer
// that is overwritten for the next one.
type itemReader struct {
	dec decode.Decoder[*corev1.Pod]
	buf []byte
}

func (i *itemReader) item(t *testing.T, text string) *decode.Object[*corev1.Pod] {
	t.Helper()
	name, rv, _ := strings.Cut(text, "@")
	rv, size, _ := strings.Cut(rv, "+")
	spec := `{}`
	if strings.HasPrefix(name, "bad") {
		spec = `7`
	}
	pad := 0
	_, _ = fmt.Sscan(size, &pad)
	i.buf = fmt.Appendf(i.buf[:0], `{"metadata":{"name":%q,"namespace":"ns","uid":"u-%s","resourceVersion":%q,"labels":{"pad":%q}},"spec":%s}`,
		name, name, rv, strings.Repeat("x", pad), spec)
	m, err := decode.Peek(decode.JSON, i.buf)
	if err != nil {
		t.Fatal(err)
	}
	o := decode.NewObject(m, decode.JSON, i.buf, i.dec)
	return &o
}

// toldTo is what a subscriber was told, and what is quarantined.
func toldTo(r *Reflector[*corev1.Pod], mail *mailbox[*corev1.Pod]) (seen []string) {
	for {
		ev, ok, _ := mail.popEvent()
		if !ok {
			break
		}
		text := ev.Type.String() + " " + ev.Key.String() + "@" + ev.ResourceVersion
		if ev.Object != nil && ev.Object.ResourceVersion != ev.ResourceVersion {
			text += " BUT its object is " + ev.Object.ResourceVersion
		}
		if ev.Old != nil {
			text += " before " + ev.Old.ResourceVersion
		}
		seen = append(seen, text)
	}
	for _, q := range r.Status().Quarantined {
		seen = append(seen, "quarantined "+q.Key.String()+"@"+q.ResourceVersion)
	}
	return seen
}

// listed runs one list through a reflector and returns all that can be seen of it.
func listed(t *testing.T, shape lineShape, as Objects, lists ...[]string) []string {
	t.Helper()
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	r, err := New(Config[*corev1.Pod]{
		ListerWatcher: named[*corev1.Pod]{},
		Objects:       as,
		Store:         NewStore(Index[*corev1.Pod]{Name: "pad", Values: func(p *corev1.Pod) []string { return []string{p.Labels["pad"][:1]} }}),
		Accept: func(p *corev1.Pod) bool { // on Run's goroutine, in order: it needs no lock
			seen = append(seen, "accept "+p.Name+"@"+p.ResourceVersion)
			return !strings.HasPrefix(p.Name, "refused")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.shape = shape
	mail := r.store.testSubscribe(100_000)
	read := itemReader{dec: lineDecoder{dec}}
	for i, items := range lists {
		in := r.newIntake(t.Context(), "")
		for _, text := range items {
			if err := in.Item(read.item(t, text)); err != nil {
				t.Fatal(err)
			}
			for j := range read.buf {
				read.buf[j] = '#'
			}
		}
		if err := in.refuses("1000000"); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			in.abandon()
		} else {
			in.commit("1000000")
		}
	}
	seen = append(seen, toldTo(r, mail)...)
	s := r.Stats()
	seen = append(seen, fmt.Sprint(s.ListItems, s.ListSkips, s.Ignored, s.DecodeErrors, s.Panics, r.session.heard))
	// What a commit deletes has no order.
	slices.SortStableFunc(seen, func(a, b string) int {
		if strings.HasPrefix(a, "DELETED") && strings.HasPrefix(b, "DELETED") {
			return strings.Compare(a, b)
		}
		return 0
	})
	return seen
}

// "The same list makes the same changes in the same order", however many decode it: whatever is in it, and for
// every size of batches.
func TestLineKeepsTheOrder(t *testing.T) {
	var first, second, third []string
	for i := range 150 {
		name := fmt.Sprintf("pod-%03d", (i*7)%150)
		switch i % 23 {
		case 3:
			name = "bad-" + name
		case 5:
			name = "panic-" + name
		case 8:
			name = "refused-" + name
		}
		size := 1 + (i*131)%3000
		if i%97 == 0 {
			size = batchBytes + 10 // decoded where it is read
		}
		first = append(first, fmt.Sprintf("%s@%d+%d", name, 1000+i, size))
		switch i % 5 {
		case 0, 1: // unchanged
			second = append(second, fmt.Sprintf("%s@%d+%d", name, 1000+i, size))
		case 2:
			second = append(second, fmt.Sprintf("%s@%d+%d", name, 5000+i, size))
		case 3: // a new version right behind the one before, and that again
			second = append(second, fmt.Sprintf("%s@%d+%d", name, 5000+i, size), fmt.Sprintf("%s@%d+%d", name, 6000+i, size),
				fmt.Sprintf("%s@%d+%d", name, 5000+i, size))
		}
		if i%4 == 0 {
			third = append(third, fmt.Sprintf("%s@%d+%d", name, 9000+i, size))
		}
	}
	for _, as := range []Objects{ObjectsShared, ObjectsPrivate, ObjectsCompact} {
		want := listed(t, lineShape{workers: 1}, as, first, second, third)
		for _, shape := range []lineShape{{workers: 2, objects: 1}, {workers: 2, first: 10, objects: 3}, {workers: 4, objects: 16}} {
			got := listed(t, shape, as, first, second, third)
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Fatalf("%v %+v: what came %d. differs from one goroutine's:\n got %q\nwant %q", as, shape, i, got[min(i, len(got)-1)], want[i])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%v %+v: %d things were seen, want %d", as, shape, len(got), len(want))
			}
		}
	}
}

// gate is a decoder whose goroutines wait until they are let go on.
type gate struct {
	open    chan struct{}
	waiting atomic.Int32
}

func (g *gate) Decode(decode.Encoding, []byte) (*corev1.Pod, error) {
	g.waiting.Add(1)
	<-g.open
	return &corev1.Pod{}, nil
}
func (*gate) Encodings() []decode.Encoding { return []decode.Encoding{decode.JSON} }

func gated(ctx context.Context, t *testing.T) (*gate, *Reflector[*corev1.Pod], *intake[*corev1.Pod], func(i int)) {
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}})
	if err != nil {
		t.Fatal(err)
	}
	r.shape = lineShape{workers: 3, objects: 4}
	g := &gate{open: make(chan struct{})}
	in := r.newIntake(ctx, "")
	return g, r, in, func(i int) {
		m := decode.Meta{Name: fmt.Sprint("pod-", i), UID: "u", ResourceVersion: fmt.Sprint(i + 1)}
		o := decode.NewObject(m, decode.JSON, []byte("{}"), decode.Decoder[*corev1.Pod](g))
		_ = in.Item(&o)
	}
}

// "Its memory is bounded": a reader that is faster than the decoders waits for them.
func TestLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r, in, item := gated(t.Context(), t)
		var read atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 100 {
				item(i)
				read.Add(1)
			}
			in.commit("1000")
		}()
		synctest.Wait()
		if want := int32(lineDepth*4 + 3); read.Load() != want {
			t.Errorf("%d items were read while none was decoded, want %d", read.Load(), want)
		}
		if n := g.waiting.Load(); n != 3 {
			t.Errorf("%d are decoded at a time, want 3", n)
		}
		if r.store.Len() != 0 || r.Status().ListedItems != int64(lineDepth*4+3) {
			t.Errorf("%d are stored, %d listed", r.store.Len(), r.Status().ListedItems)
		}
		close(g.open)
		<-done
		if r.store.Len() != 100 {
			t.Errorf("%d are stored, want 100", r.store.Len())
		}
	})
}

// "When it ends, what is in the line is given up": only what is being decoded at that moment is waited for.
func TestLineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g, r, in, item := gated(ctx, t)
		for i := range 4 * lineDepth {
			item(i)
		}
		synctest.Wait()
		cancel()
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() { close(g.open) })
		in.abandon()
		if d := time.Since(began); d > time.Millisecond {
			t.Errorf("it took %v", d)
		}
		if n := g.waiting.Load(); n != 3 || r.store.Len() != 0 {
			t.Errorf("%d were decoded, %d stored; want the 3 that were under way, and none", n, r.store.Len())
		}
		if err := in.Meta(metav1.ListMeta{}); err != nil {
			t.Error(err)
		}
	})
}
