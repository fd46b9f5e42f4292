package reflector

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// L3: a relist of unchanged objects: "what kept UID and RV is untouched (no
// event, no decode, no allocation)".
func TestUnchangedItemsCostNothing(t *testing.T) {
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}})
	if err != nil {
		t.Fatal(err)
	}
	m := decode.Meta{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "a", UID: "u", ResourceVersion: "7"}
	first := decode.NewObject(m, decode.JSON, nil, anyPod{})
	in := r.newIntake(t.Context(), "")
	if err := in.Item(&first); err != nil {
		t.Fatal(err)
	}
	in.commit("100")
	in.rep = r.store.beginReplace()
	again := decode.NewObject(m, decode.JSON, nil, noPod{t})
	if n := testing.AllocsPerRun(100, func() { _ = in.Item(&again) }); n != 0 {
		t.Errorf("an unchanged item costs %v allocations", n)
	}
	if s := r.Stats(); s.ListSkips != s.ListItems-1 || s.ListSkips < 100 {
		t.Errorf("%d items, %d skips", s.ListItems, s.ListSkips)
	}
}

// sharesMemory reports whether part lies within whole.
func sharesMemory(part, whole string) bool {
	p, w := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(whole)))
	return p >= w && p < w+uintptr(len(whole))
}

// anyPod decodes everything to an empty pod; noPod must not be asked.
type anyPod struct{}

func (anyPod) Decode(decode.Encoding, []byte) (*corev1.Pod, error) { return &corev1.Pod{}, nil }
func (anyPod) Encodings() []decode.Encoding                        { return []decode.Encoding{decode.JSON} }

type noPod struct{ t *testing.T }

func (p noPod) Decode(decode.Encoding, []byte) (*corev1.Pod, error) {
	p.t.Error("an unchanged item was decoded")
	return nil, nil
}
func (noPod) Encodings() []decode.Encoding { return nil }

// Quarantine holds copies: an error that is kept for long must not keep the
// page or the frame of the object alive.
func TestQuarantineCopiesItsKey(t *testing.T) {
	page := strings.Repeat("x", 1<<20)
	o := newObserved("n", "pods", StateListing)
	o.quarantine(decode.Meta{Namespace: page[:3], Name: page[3:9], ResourceVersion: page[9:12]}, fmt.Errorf("no"))
	for _, q := range o.statusCopy().Quarantined {
		for what, s := range map[string]string{"namespace": q.Key.Namespace, "name": q.Key.Name, "rv": q.ResourceVersion} {
			if sharesMemory(s, page) {
				t.Errorf("the %s is a part of the page", what)
			}
		}
	}
	since := o.statusCopy().Quarantined[0].Since
	o.quarantine(decode.Meta{Namespace: "xxx", Name: "xxxxxx", ResourceVersion: "2"}, fmt.Errorf("still not"))
	if q := o.statusCopy().Quarantined[0]; !q.Since.Equal(since) || q.ResourceVersion != "2" || q.Err.Error() != "still not" {
		t.Errorf("a second bad version: %+v, want it since %v", q, since)
	}
	o.quarantine(decode.Meta{}, fmt.Errorf("too large"))
	if n := len(o.statusCopy().Quarantined); n != 1 {
		t.Errorf("%d quarantined, want only what has a name", n)
	}
}

// keeping is a log handler that keeps records and writes them later.
type keeping struct {
	slog.Handler
	records *[]slog.Record
}

func (keeping) Enabled(context.Context, slog.Level) bool { return true }

func (k keeping) Handle(_ context.Context, r slog.Record) error {
	*k.records = append(*k.records, r.Clone())
	return nil
}

// Log records are kept by some handlers: what they say is not the reader's memory.
func TestLogHasCopies(t *testing.T) {
	var records []slog.Record
	f := feed(t, Config[*corev1.Pod]{})
	f.r.log = slog.New(keeping{slog.DiscardHandler, &records}) // without the reflector's own attributes
	f.give(watch.Added, podAt("b", 1, corev1.PodPending))
	for _, text := range []string{
		`{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"7"},"spec":7}`,
		`{"kind":"Pod","metadata":{"name":"b","namespace":"shop","uid":"uid-b","resourceVersion":"8"},"spec":7}`,
	} {
		raw := []byte(text)
		m, err := decode.Peek(decode.JSON, raw)
		if err != nil {
			t.Fatal(err)
		}
		typ := watch.Modified
		if m.Name == "b" {
			typ = watch.Deleted
		}
		if err := f.r.deal(f.a, &streamwatcher.Event[*corev1.Pod]{Type: typ, Object: decode.NewObject(m, decode.JSON, raw, f.dec)}); err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			raw[i] = '#'
		}
	}
	var said []string
	for _, r := range records {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "key" || a.Key == "rv" {
				said = append(said, a.Value.String())
			}
			return true
		})
	}
	if got, want := strings.Join(said, " "), "a 7 shop/b 8"; got != want {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// A refusal is told in full when it changes, and again after an hour.
func TestDenialIsToldOnce(t *testing.T) {
	var log strings.Builder
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	refusal := func(verb, user string) error {
		e := listwatch.FromStatus(&metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: fmt.Sprintf("User %q cannot", user)})
		e.Verb = verb
		return fmt.Errorf("wrapped: %w", e)
	}
	for i, c := range []struct {
		err    error
		denial bool
		lines  int
	}{
		{refusal("list", "a"), true, 1}, {refusal("list", "a"), true, 0},
		{refusal("list", "b"), true, 1}, {refusal("watch", "b"), true, 1}, {refusal("watch", "b"), true, 0},
		{&fault{reason.Forbidden, fmt.Errorf("of some other ListerWatcher")}, false, 0},
	} {
		log.Reset()
		if got := r.denied(t.Context(), c.err, time.Second); got != c.denial || strings.Count(log.String(), "\n") != c.lines {
			t.Errorf("%d: %v, log %q; want %v and %d lines", i, got, log.String(), c.denial, c.lines)
		}
	}
	log.Reset()
	r.denial.at = r.denial.at.Add(-denialRepeat)
	if r.denied(t.Context(), refusal("watch", "b"), 0); log.Len() == 0 {
		t.Error("not told again after an hour")
	}
}

// halves returns an event of obj whose first line looks like all of it, and the event as it comes again, whole.
func (f *fed[T]) halves(typ watch.EventType, obj any) (half, whole *streamwatcher.Event[T]) {
	f.t.Helper()
	m, raw := f.text(obj)
	cut := bytes.LastIndexByte(raw[:len(raw)-1], '}') + 1
	return &streamwatcher.Event[T]{Type: typ, Object: decode.NewLine(m, raw[:cut], f.dec)},
		&streamwatcher.Event[T]{Type: typ, Object: decode.NewObject(m, decode.JSON, raw, f.dec)}
}

// Of an event that is not whole nothing is applied, not even its metadata: it comes again, or the stream ends with it.
func TestHalfAnEventIsNone(t *testing.T) {
	pod := podAt("a", 7, corev1.PodRunning)
	for _, as := range []Objects{ObjectsShared, ObjectsPrivate, ObjectsCompact} {
		f := feed(t, Config[*corev1.Pod]{Objects: as})
		m := f.r.store.testSubscribe(10)
		f.give(watch.Added, podAt("a", 6, corev1.PodPending))
		_, _, _ = m.pop()
		half, whole := f.halves(watch.Deleted, pod)
		if err := f.r.deal(f.a, half); err != nil || f.r.store.Len() != 1 || f.a.gone.hold("uid-a", "7") {
			t.Errorf("%v: after half a DELETED: %v, %d objects", as, err, f.r.store.Len())
		}
		if err := f.r.deal(f.a, whole); err != nil {
			t.Fatal(err)
		}
		ev, ok, _ := m.popEvent()
		if !ok || ev.Type != Deleted || ev.FinalStateUnknown || ev.Object.Status.Phase != corev1.PodRunning {
			t.Errorf("%v: event %+v", as, ev)
		}
		if s := f.r.Stats(); s.DecodeErrors != 0 {
			t.Errorf("%v: %d objects did not decode", as, s.DecodeErrors)
		}
	}
}

// It is the same in a watch-list.
func TestHalfAnInitialEventIsNone(t *testing.T) {
	f := feed(t, Config[*corev1.Pod]{})
	f.give(watch.Added, podAt("b", 5, corev1.PodPending))
	m := f.r.store.testSubscribe(10)
	_, _, _ = m.pop()
	in := &initialEvents[*corev1.Pod]{intake: f.r.newIntake(t.Context(), "")}
	in.line.off, in.hold = true, in.holdEarly
	added, addedWhole := f.halves(watch.Added, podAt("a", 6, corev1.PodPending))
	deleted, deletedWhole := f.halves(watch.Deleted, podAt("b", 7, corev1.PodRunning))
	for _, ev := range []*streamwatcher.Event[*corev1.Pod]{added, deleted} {
		in.event(ev, &f.a.gone)
	}
	if s := f.r.Stats(); s.DecodeErrors != 0 || len(in.heard) != 0 || len(f.r.Status().Quarantined) != 0 || in.bad != nil || f.r.store.Len() != 1 {
		t.Errorf("after halves: %d did not decode, heard %q, quarantined %v, bad %v, %d objects",
			s.DecodeErrors, in.heard, f.r.Status().Quarantined, in.bad, f.r.store.Len())
	}
	in.event(addedWhole, &f.a.gone)
	in.event(deletedWhole, &f.a.gone)
	in.commit("7")
	var told []string
	for {
		ev, ok, _ := m.popEvent()
		if !ok {
			break
		}
		told = append(told, fmt.Sprint(ev.Type, ev.Key.Name, ev.FinalStateUnknown))
	}
	if got, want := strings.Join(told, " "), "ADDEDafalse DELETEDbfalse SYNCEDfalse"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// "A changed UID under one name is DELETE(old) then ADD(new)": also where the new one is not accepted the old one is gone.
func TestUnacceptedObjectTakesTheName(t *testing.T) {
	f := feed(t, Config[*corev1.Pod]{Accept: func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodFailed }})
	f.give(watch.Added, podAt("a", 1, corev1.PodPending))
	other := podAt("a", 3, corev1.PodFailed)
	other.UID = "another"
	f.give(watch.Added, other)
	if f.r.store.Len() != 0 {
		t.Error("the object that lost its name is still there")
	}
}
