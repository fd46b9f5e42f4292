package reflector

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// An event that its line is not all of comes twice, the first time in half, and is counted once: in a watch-list as an
// item, as a skipped one, as an event and under its cause, and on a watch as an event and under its cause.
func TestHalvesCountOnce(t *testing.T) {
	stored, changed, old := podAt("b", 5, corev1.PodPending), podAt("b", 7, corev1.PodRunning), podAt("b", 4, corev1.PodPending)
	gone := podAt("never", 3, corev1.PodPending)
	node := podAt("n", 6, corev1.PodPending)
	node.Kind = "Node"
	other := podAt("a", 6, corev1.PodPending)
	for _, c := range []struct {
		name         string
		typ          watch.EventType
		pod          *corev1.Pod
		items, skips uint64 // of the watch-list
		ignored      string // the cause
		onWatch      string
	}{
		{"new", watch.Added, other, 1, 0, "", ""},
		{"in the store", watch.Added, stored, 1, 1, "", "duplicate"},
		{"changed", watch.Modified, changed, 1, 0, "", ""},
		{"older than what is stored", watch.Modified, old, 1, 0, "", "stale"},
		{"of another kind", watch.Added, node, 1, 0, "foreign", "foreign"},
		{"ended", watch.Deleted, changed, 0, 0, "", ""},
		{"ended, and was never there", watch.Deleted, gone, 0, 0, "", ""},
		{"ended, of another kind", watch.Deleted, node, 0, 0, "foreign", "foreign"},
		{"told again of what ended", watch.Added, podAt("c", 2, corev1.PodPending), 0, 0, "stale", "stale"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, watchList := range []bool{true, false} {
				f := feed(t, Config[*corev1.Pod]{Kind: "Pod"})
				f.give(watch.Added, stored)
				f.give(watch.Deleted, podAt("c", 3, corev1.PodPending))
				before := f.r.Stats()
				half, whole := f.halves(c.typ, c.pod)
				in := &initialEvents[*corev1.Pod]{intake: f.r.newIntake(t.Context(), "")}
				in.line.off, in.hold = true, in.holdEarly
				tell := func(ev *streamwatcher.Event[*corev1.Pod]) {
					if watchList {
						in.tell(ev, &f.a.gone)
					} else if err := f.r.deal(f.a, ev); err != nil {
						t.Fatal(err)
					}
				}
				tell(half)
				after := f.r.Stats()
				if after.ListItems != before.ListItems || after.ListSkips != before.ListSkips ||
					!maps.Equal(after.Events, before.Events) || !maps.Equal(after.Ignored, before.Ignored) {
					t.Errorf("watch-list %t: half was counted: %d items, %d skips, events %v, ignored %v", watchList,
						after.ListItems-before.ListItems, after.ListSkips, after.Events, after.Ignored)
				}
				tell(whole)
				after = f.r.Stats()
				want, cause := [2]uint64{}, c.onWatch
				if watchList {
					want, cause = [2]uint64{c.items, c.skips}, c.ignored
				}
				if got := [2]uint64{after.ListItems - before.ListItems, after.ListSkips - before.ListSkips}; got != want {
					t.Errorf("watch-list %t: items and skips %v, want %v", watchList, got, want)
				}
				if n := after.Events[string(c.typ)] - before.Events[string(c.typ)]; n != 1 {
					t.Errorf("watch-list %t: %d events, want 1", watchList, n)
				}
				causes := slices.Collect(maps.Keys(after.Ignored))
				if cause == "" && len(causes) != 0 || cause != "" && (!slices.Equal(causes, []string{cause}) || after.Ignored[cause] != 1) {
					t.Errorf("watch-list %t: ignored %v, want one %q", watchList, after.Ignored, cause)
				}
			}
		})
	}
}
