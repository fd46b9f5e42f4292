package reflector

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
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
