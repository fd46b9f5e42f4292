package reflector

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// protobufEvent is an event of a pod as an API server frames it. A broken one does not decode.
func protobufEvent(t *testing.T, typ watch.EventType, m metav1.ObjectMeta, broken bool) []byte {
	t.Helper()
	pod, err := (&corev1.Pod{ObjectMeta: m}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if broken {
		pod = append(pod, 2<<3|2, 1, 0) // the spec, and in it a field with the number 0
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: pod}
	object, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	ev, err := (&metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: append([]byte(decode.Magic), object...)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(ev))), ev...)
}

// cutBody is a watch's body of which each piece has come at once; before the next one is read, asked is called.
type cutBody struct {
	pieces [][]byte
	rest   []byte
	asked  func()
	end    error
	sudden bool // the end does not show before it is read
}

func (b *cutBody) Arrived() int {
	if len(b.rest) > 0 || b.sudden && len(b.pieces) == 0 {
		return 1 << 20
	}
	return 0
}

func (b *cutBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if len(b.pieces) == 0 {
			return 0, b.end
		}
		b.asked()
		b.rest, b.pieces = b.pieces[0], b.pieces[1:]
	}
	n := copy(p[:min(len(p), 7000)], b.rest) // as chunks
	b.rest = b.rest[n:]
	return n, nil
}

func (*cutBody) Close() error { return nil }

// podNamed panics where a decoder of the caller's would, and counts how many objects are made by workers.
type podNamed struct {
	decode.Decoder[*corev1.Pod]
	byWorkers atomic.Int64
}

func (d *podNamed) Decode(enc decode.Encoding, raw []byte) (*corev1.Pod, error) {
	if strings.Contains(string(debug.Stack()), ".work(") {
		d.byWorkers.Add(1)
	}
	if strings.Contains(string(raw), "panic") {
		panic("a decoder of the caller's")
	}
	return d.Decoder.Decode(enc, raw)
}

// maxBurstFrame is from where an event is too large to hold.
const maxBurstFrame = 2 * batchBytes

// burstEvent is one event of a followed.
type burstEvent struct {
	typ watch.EventType
	m   metav1.ObjectMeta
}

func randomEvents(r *rand.Rand, n int) (events []burstEvent) {
	live := map[string]metav1.ObjectMeta{}
	for rv := 101; len(events) < n; rv++ {
		m := metav1.ObjectMeta{Name: fmt.Sprint("pod-", r.IntN(40)), Namespace: "ns", ResourceVersion: fmt.Sprint(rv)}
		switch r.IntN(30) {
		case 0:
			m.Name = fmt.Sprint("bad-", r.IntN(3))
		case 1:
			m.Name = fmt.Sprint("panic-", r.IntN(3))
		case 2:
			m.Name = fmt.Sprint("refused-", r.IntN(3))
		case 3:
			m.Name, m.Annotations = fmt.Sprint("large-", r.IntN(3)), map[string]string{"a": strings.Repeat("x", maxBurstFrame)}
		case 4: // for the line
			m.Name, m.Annotations = fmt.Sprint("long-", r.IntN(3)), map[string]string{"a": strings.Repeat("x", batchBytes)}
		}
		m.UID = types.UID("u-" + m.Name)
		before, ok := live[m.Name]
		typ := watch.Added
		switch {
		case ok && r.IntN(6) == 0:
			typ = watch.Deleted
			m.UID = before.UID
			delete(live, m.Name)
		case ok && r.IntN(12) == 0:
			m.UID += "+" // its DELETED was missed
			live[m.Name] = m
		case ok:
			typ, m.UID = watch.Modified, before.UID
			live[m.Name] = m
		default:
			live[m.Name] = m
		}
		switch r.IntN(25) {
		case 0:
			events = append(events, burstEvent{watch.Bookmark, metav1.ObjectMeta{ResourceVersion: m.ResourceVersion}})
			rv++
			m.ResourceVersion = fmt.Sprint(rv)
		case 1:
			events = append(events, burstEvent{typ, m}) // twice
		}
		events = append(events, burstEvent{typ, m})
	}
	return events
}

// followed is a watch that brings events, in protobuf, and what can be seen of it.
type followed struct {
	events []burstEvent
	// cut returns the bytes of the events in pieces; ends are where the events end.
	cut    func(stream []byte, ends []int) [][]byte
	sudden bool // of cutBody
	shape  lineShape
	as     Objects
	// initial: the events are those of a watch-list, and a bookmark with the mark follows. known is the newest resourceVersion that was
	// known before, and from which a watch starts.
	initial bool
	known   string
	// atWait is called with how many events have come whole, each time that more are waited for.
	atWait func(came int)
	accept func(*corev1.Pod) // may be nil

	r         *Reflector[*corev1.Pod]
	extended  bool // initial: what came kept the wait for the mark alive
	seen      []string
	byWorkers int64 // how many objects were made by workers, where that can be told
}

// randomCuts are up to so many bytes long, most of them shorter.
func randomCuts(seed uint64, longest int) func([]byte, []int) [][]byte {
	return func(stream []byte, _ []int) (pieces [][]byte) {
		r := rand.New(rand.NewPCG(seed, 1))
		for len(stream) > 0 {
			n := min(1+r.IntN(1+r.IntN(longest)), len(stream))
			pieces, stream = append(pieces, stream[:n]), stream[n:]
		}
		return pieces
	}
}

// cutEach has so many events in each piece.
func cutEach(n int) func([]byte, []int) [][]byte {
	return func(stream []byte, ends []int) (pieces [][]byte) {
		from := 0
		for i := n - 1; from < len(stream); i += n {
			to := ends[min(i, len(ends)-1)]
			pieces, from = append(pieces, stream[from:to]), to
		}
		return pieces
	}
}

func (f *followed) run(ctx context.Context, t *testing.T) {
	t.Helper()
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	f.r, err = New(Config[*corev1.Pod]{
		ListerWatcher: named[*corev1.Pod]{}, Objects: f.as,
		Accept: func(p *corev1.Pod) bool { // on Run's goroutine
			f.seen = append(f.seen, "accept "+p.Name+"@"+p.ResourceVersion)
			if f.accept != nil {
				f.accept(p)
			}
			return !strings.HasPrefix(p.Name, "refused")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := f.r
	r.shape, r.session.rv = f.shape, f.known
	mail := r.store.testSubscribe(100_000)

	var stream []byte
	var ends []int
	events := f.events
	if f.initial {
		events = append(slices.Clone(events), burstEvent{watch.Bookmark, metav1.ObjectMeta{ResourceVersion: "100000",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	}
	for _, ev := range events {
		stream = append(stream, protobufEvent(t, ev.typ, ev.m, strings.HasPrefix(ev.m.Name, "bad"))...)
		ends = append(ends, len(stream))
	}
	body, read := &cutBody{pieces: f.cut(stream, ends), end: io.EOF, sudden: f.sudden}, 0
	body.asked = func() {
		came, _ := slices.BinarySearch(ends, read+1) // whose end is at most read
		if f.atWait != nil {
			f.atWait(came)
		}
		read += len(body.pieces[0])
	}
	var decoder decode.Decoder[*corev1.Pod] = dec
	counted := &podNamed{Decoder: dec}
	if f.as == ObjectsPrivate {
		decoder = counted
	}
	sw, err := streamwatcher.New(streamwatcher.Config[*corev1.Pod]{
		Body: body, ContentType: "application/vnd.kubernetes.protobuf", Decoder: decoder, MaxFrameBytes: maxBurstFrame,
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt[*corev1.Pod]{sw: sw, start: f.known, opened: time.Now(), timer: time.NewTimer(time.Hour), unhook: func() bool { return true }}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if f.initial {
		in := r.newInitialEvents(ctx, "", a)
		rv, err := in.read(a)
		switch {
		case err == nil:
			in.takeEarly()
			f.seen = append(f.seen, fmt.Sprintf("%+v", in.commit(rv)))
		case ctx.Err() == nil:
			t.Fatal(err)
		default:
			in.abandon()
			f.seen = append(f.seen, "abandoned")
		}
		f.extended = !in.until.Equal(a.opened.Add(markWait))
		r.close(a)
	} else if err := r.follow(ctx, a); err == nil || ctx.Err() == nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	f.byWorkers = counted.byWorkers.Load()
	f.seen = append(f.seen, toldTo(r, mail)...)
	s := r.Stats()
	f.seen = append(f.seen, fmt.Sprint(s.ListItems, s.ListSkips, s.Events, s.Ignored, s.DecodeErrors, s.Panics, r.session.rv, a.brought, a.replays))
}

// "Nothing that can be seen depends on how the stream was cut into reads", nor on how many decode it; and "an event in it is in
// the store, and its resourceVersion counts, before the next event is waited for".
func TestBurstKeepsTheOrder(t *testing.T) {
	for seed := range uint64(6) {
		as := []Objects{ObjectsShared, ObjectsPrivate, ObjectsCompact}[seed%3]
		events := randomEvents(rand.New(rand.NewPCG(seed, 0)), 300)
		want := followed{events: events, cut: cutEach(1), shape: lineShape{workers: 1}, as: as, known: "100"}
		want.run(t.Context(), t)
		for _, shape := range []lineShape{{workers: 2, objects: 1}, {workers: 3, first: 5, objects: 4}, {workers: 4, objects: 16}} {
			waits := 0
			got := followed{events: events, cut: randomCuts(seed, 100_000), sudden: seed%2 == 1, shape: shape, as: as, known: "100"}
			got.atWait = func(came int) {
				waits++
				if rv := got.r.session.rv; came > 0 && rv != events[came-1].m.ResourceVersion {
					t.Fatalf("seed %d %+v: more is waited for at %s, and event %d of %s came", seed, shape, rv, came, events[came-1].m.ResourceVersion)
				}
			}
			got.run(t.Context(), t)
			for i := range want.seen {
				if i >= len(got.seen) || got.seen[i] != want.seen[i] {
					t.Fatalf("seed %d %v %+v: what came %d. differs from one goroutine's:\n got %q\nwant %q",
						seed, as, shape, i, got.seen[min(i, len(got.seen)-1)], want.seen[i])
				}
			}
			if len(got.seen) != len(want.seen) || waits < 5 || as == ObjectsPrivate && got.byWorkers < 50 {
				t.Errorf("seed %d %v %+v: %d things were seen, want %d; %d waits, %d objects by workers",
					seed, as, shape, len(got.seen), len(want.seen), waits, got.byWorkers)
			}
		}
	}
}

// The same of the initial events of a watch-list, changes among them.
func TestInitialEventsKeepTheOrder(t *testing.T) {
	for seed := range uint64(8) {
		as := []Objects{ObjectsShared, ObjectsPrivate, ObjectsCompact}[seed%3]
		known := []string{"", "100", "250"}[seed%3]
		events := randomEvents(rand.New(rand.NewPCG(seed, 9)), 300)
		want := followed{events: events, cut: cutEach(1), shape: lineShape{workers: 1}, as: as, initial: true, known: known}
		want.run(t.Context(), t)
		for _, shape := range []lineShape{{workers: 2, objects: 1}, {workers: 3, first: 5, objects: 4}, {workers: 4, objects: 16}} {
			got := followed{events: events, cut: randomCuts(seed, 100_000), sudden: seed%2 == 1, shape: shape, as: as, initial: true, known: known}
			got.atWait = func(came int) {
				if e := got.r.store.find(decode.Key{Namespace: "ns", Name: "pod-1"}); known == "" && came > 0 {
					last := ""
					for _, ev := range events[:came] {
						switch {
						case ev.m.Name != "pod-1":
						case ev.typ == watch.Deleted:
							last = ""
						default:
							last = ev.m.ResourceVersion
						}
					}
					if (e == nil) != (last == "") || e != nil && e.rv != last {
						t.Fatalf("seed %d %+v: more is waited for, and pod-1 is not the one of %q", seed, shape, last)
					}
				}
			}
			got.run(t.Context(), t)
			if known == "250" { // what was held until the mark has no order
				slices.Sort(got.seen)
				slices.Sort(want.seen)
			}
			if !slices.Equal(got.seen, want.seen) || as == ObjectsPrivate && got.byWorkers < 50 {
				i := 0
				for i < min(len(got.seen), len(want.seen)) && got.seen[i] == want.seen[i] {
					i++
				}
				t.Errorf("seed %d %v %+v: %d things were seen, want %d; they differ from %q on; %d objects by workers",
					seed, as, shape, len(got.seen), len(want.seen), got.seen[min(i, len(got.seen)-1)], got.byWorkers)
			}
		}
	}
}

// "An event that comes alone is decoded where it is read", and so are the first of a burst, of each.
func TestEventsThatComeAlone(t *testing.T) {
	events := randomEvents(rand.New(rand.NewPCG(1, 1)), 300)
	for _, c := range []struct {
		first, each int
		initial     bool
	}{{0, 1, false}, {1000, 300, false}, {4, 5, false}, {0, 1, true}, {1000, 301, true}, {4, 5, true}} {
		f := followed{events: events, cut: cutEach(c.each), shape: lineShape{workers: 4, first: c.first, objects: 4}, as: ObjectsPrivate, known: "100", initial: c.initial}
		f.run(t.Context(), t)
		if f.byWorkers != 0 {
			t.Errorf("%+v: %d objects were made by workers", c, f.byWorkers)
		}
	}
}

// When the context ends no further object is taken, and "nothing that came after it is applied": the resourceVersion is that
// of the last event that was.
func TestBurstIsGivenUp(t *testing.T) {
	history := randomEvents(rand.New(rand.NewPCG(2, 2)), 300)
	all := followed{events: history, cut: cutEach(1), shape: lineShape{workers: 1}, as: ObjectsShared, known: "100"}
	all.run(t.Context(), t)
	for stopAt := 1; stopAt < 150; stopAt += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := followed{events: history, cut: cutEach([]int{6, 300}[stopAt%2]), sudden: true, shape: lineShape{workers: 3, objects: 7}, as: ObjectsShared, known: "100"}
		accepted, at := 0, ""
		f.accept = func(p *corev1.Pod) {
			if accepted++; accepted == stopAt {
				cancel()
				at = p.ResourceVersion
			}
		}
		f.run(ctx, t)
		events := func(f *followed) []string {
			return slices.DeleteFunc(slices.Clone(f.seen), func(s string) bool { return !strings.Contains(s, "ED ns/") })
		}
		got, want := events(&f), events(&all)
		if accepted != stopAt || f.r.session.rv != at || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("stopped at the %d. object, of resourceVersion %s: %d were taken, up to %s; told were %q", stopAt, at, accepted, f.r.session.rv, got)
		}
	}
}

// A watch-list that was stopped in the midst is no list, though its mark was read.
func TestInitialEventsAreGivenUp(t *testing.T) {
	events := randomEvents(rand.New(rand.NewPCG(3, 3)), 200)
	for stopAt := 1; stopAt < 100; stopAt += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := followed{events: events, cut: cutEach([]int{6, 300}[stopAt%2]), sudden: true, shape: lineShape{workers: 3, objects: 7}, as: ObjectsShared, initial: true}
		accepted := 0
		f.accept = func(*corev1.Pod) {
			if accepted++; accepted == stopAt {
				cancel()
			}
		}
		f.run(ctx, t)
		if accepted != stopAt || !slices.Contains(f.seen, "abandoned") {
			t.Errorf("stopped at the %d. object: %d were taken; abandoned %v", stopAt, accepted, slices.Contains(f.seen, "abandoned"))
		}
	}
}

// "Only what is of the collection, and new, keeps the wait alive", in a burst too.
func TestRefusedInitialEventsDoNotKeepTheWaitAlive(t *testing.T) {
	for _, name := range []string{"refused", "bad", "pod"} {
		var events []burstEvent
		for i := range 100 {
			n := fmt.Sprint(name, "-", i)
			events = append(events, burstEvent{watch.Added, metav1.ObjectMeta{Name: n, Namespace: "ns", UID: types.UID(n), ResourceVersion: fmt.Sprint(200 + i)}})
		}
		f := followed{events: events, cut: cutEach(20), shape: lineShape{workers: 3, objects: 7}, as: ObjectsShared, initial: true}
		f.run(t.Context(), t)
		if f.extended != (name == "pod") {
			t.Errorf("%s: the wait is extended: %v", name, f.extended)
		}
	}
}

// "Its memory is bounded" also where large objects come among small ones: what the line holds for the next ones does
// not grow to the largest for each.
func TestLineForgetsLargeBuffers(t *testing.T) {
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}})
	if err != nil {
		t.Fatal(err)
	}
	r.shape = lineShape{workers: 2, objects: 16}
	in := r.newIntake(t.Context(), "")
	read := itemReader{dec: anyPod{}}
	for i := range 5000 {
		size := 500
		if i%37 == 0 { // in each of the places in turn
			size = 60_000
		}
		if err := in.Item(read.item(t, fmt.Sprintf("pod-%04d@%d+%d", i, i+1, size))); err != nil {
			t.Fatal(err)
		}
	}
	in.line.drain()
	for _, b := range in.line.free {
		held := 0
		for _, j := range b.jobs[:cap(b.jobs)] {
			held += cap(j.buf)
		}
		if held > 2*batchBytes {
			t.Errorf("a batch that is free holds %d bytes", held)
		}
	}
	if len(in.line.free) == 0 {
		t.Error("there is no batch that is free")
	}
	in.commit("5001")
}
