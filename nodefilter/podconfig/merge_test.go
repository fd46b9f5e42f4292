package podconfig

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompare: what is an update, what a graceful deletion, what only a new status, what nothing.
func TestCompare(t *testing.T) {
	t.Parallel()
	base := testPod("a", "1", annotated("x", "1"))
	ending := edited(base, terminating)
	cpu := func(q string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "img:1", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"cpu": resource.MustParse(q)}}}}
		}
	}
	started := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) { s := metav1.NewTime(at); p.Status.StartTime = &s }
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name              string
		old, new          *corev1.Pod
		improved, kubelet Op
	}{
		{"the same object", base, base, 0, 0},
		{"a copy", base, base.DeepCopy(), 0, 0},
		{"spec", base, edited(base, image("img:2")), Update, Update},
		{"spec in place", base, func() *corev1.Pod { p := base.DeepCopy(); p.Spec.Containers[0].Image = "img:2"; return p }(), Update, Update},
		{"restartPolicy", base, edited(base, func(p *corev1.Pod) { p.Spec.RestartPolicy = "Never" }), Update, Update},
		{"spec and status", base, edited(base, image("img:2"), phase("Running")), Update, Update},
		{"labels", base, edited(base, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} }), Update, Update},
		{"annotation", base, edited(base, annotated("x", "2")), Update, Update},
		{"annotation more", base, edited(base, annotated("y", "2")), Update, Update},
		{"annotation less", base, edited(base, func(p *corev1.Pod) { p.Annotations = nil }), Update, Update},
		{"annotation of another name", base, edited(base, func(p *corev1.Pod) { p.Annotations = map[string]string{"z": "1"} }), Update, Update},
		{"config.hash", base, edited(base, annotated("kubernetes.io/config.hash", "f")), Update, Update},
		{"config.source", base, edited(base, annotated("kubernetes.io/config.source", "file")), 0, 0},
		{"config.seen", base, edited(base, annotated("kubernetes.io/config.seen", "now")), 0, 0},
		{"config.mirror", base, edited(base, annotated("kubernetes.io/config.mirror", "f")), 0, 0},
		{"config.source less", edited(base, annotated("kubernetes.io/config.source", "file")), base, 0, 0},
		{"status", base, edited(base, phase("Running")), Reconcile, Reconcile},
		{"deletion", base, edited(base, terminating), Delete, Delete},
		{"deletion and spec", base, edited(base, terminating, image("img:2")), Delete, Delete},
		{"status of an ending pod", ending, edited(ending, phase("Failed")), Reconcile, Reconcile},
		{"labels of an ending pod", ending, edited(ending, func(p *corev1.Pod) { p.Labels = nil }), Delete, Delete},
		{"grace shortened", ending, edited(ending, func(p *corev1.Pod) { g := int64(0); p.DeletionGracePeriodSeconds = &g }), Delete, Delete},
		{"resourceVersion", base, edited(base, func(p *corev1.Pod) { p.ResourceVersion = "7" }), 0, 0},
		{"generation", base, edited(base, func(p *corev1.Pod) { p.Generation = 7 }), 0, 0},
		{"owner", base, edited(base, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "rs"}} }), 0, 0},
		{"finalizer", base, edited(base, func(p *corev1.Pod) { p.Finalizers = []string{"f"} }), 0, 0},
		{"managedFields", base, edited(base, func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{}} }), 0, 0},
		// Where the kubelet takes a form for a change.
		{"1 and 1000m", edited(base, cpu("1")), edited(base, cpu("1000m")), 0, Update},
		{"1 and 2", edited(base, cpu("1")), edited(base, cpu("2")), Update, Update},
		{"nil and an empty list", base, edited(base, func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{} }), 0, Update},
		{"one instant", edited(base, started(noon)), edited(base, started(noon.In(time.FixedZone("x", 3600)))), 0, Reconcile},
		{"two instants", edited(base, started(noon)), edited(base, started(noon.Add(time.Second))), Reconcile, Reconcile},
		{"nil and no labels", edited(base, func(p *corev1.Pod) { p.Labels = nil }), edited(base, func(p *corev1.Pod) { p.Labels = map[string]string{} }), 0, Update},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Improved.compare(c.old, c.new); got != c.improved {
				t.Errorf("improved: %s, want %s", got, c.improved)
			}
			if got := KubeletCompatible.compare(c.old, c.new); got != c.kubelet {
				t.Errorf("as the kubelet: %s, want %s", got, c.kubelet)
			}
		})
	}
}

// TestOrder: "Changes of one source come in the kubelet's order: REMOVE, ADD, UPDATE, DELETE, RECONCILE."
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, b := range []Behaviour{Improved, KubeletCompatible} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := newTestSource(APIServerSource)
				r := run(t, Config{Sources: []Producer{api}, Behaviour: b})
				v, w, x, y := testPod("v", "1"), testPod("w", "2"), testPod("x", "3"), testPod("y", "4")
				u := testPod("u", "0")
				api.changes <- first(v, w, x, y, u)
				r.want("ADD api initial v@1 w@2 x@3 y@4 u@0")
				api.changes <- set(edited(y, phase("Running")), edited(x, terminating), edited(w, image("i")), testPod("v", "5"), u)
				r.want("REMOVE api v@1", "ADD api v@5", "UPDATE api w@2", "DELETE api x@3", "RECONCILE api y@4")
				api.changes <- set()
				r.want("REMOVE api u@0 v@5 w@2 x@3 y@4")
			})
		})
	}
}

// TestDelta: a change of one pod is about that pod; what a source said is gone
// is removed by UID, or by name where it gives none, with the last version known.
func TestDelta(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api}})
		a, b := testPod("a", "1"), testPod("b", "2")
		api.changes <- first(a, b)
		r.want("ADD api initial a@1 b@2")
		a2 := edited(a, func(p *corev1.Pod) { p.ResourceVersion = "9" })
		api.changes <- changed(a2)
		r.want() // nothing that a node cares for
		api.changes <- gone(a)
		synctest.Wait()
		if u := <-r.Updates(); line(u) != "REMOVE api a@1" || u.Pods[0] != a2 {
			t.Errorf("%s, resourceVersion %q", line(u), u.Pods[0].ResourceVersion)
		}
		api.changes <- gone(a) // a second time
		api.changes <- Change{Gone: []Gone{{Namespace: "default", Name: "b"}}}
		r.want("REMOVE api b@2")
		if st := r.Status(); st.UnknownGone != 1 || st.Sources[0].Merged != 0 {
			t.Errorf("%+v", st)
		}
		// A delta can remove and add one name.
		api.changes <- changed(testPod("c", "3"))
		r.want("ADD api c@3")
		api.changes <- Change{Gone: []Gone{{UID: "3"}}, Pods: []*corev1.Pod{testPod("c", "4")}}
		r.want("REMOVE api c@3", "ADD api c@4")
	})
}

// TestSlowConsumer: what came while the consumer did not look is merged into
// what it has to know.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	a, b, z := testPod("a", "1"), testPod("b", "2"), testPod("z", "26")
	for _, c := range []struct {
		name    string
		changes []Change
		want    []string
	}{
		{"came and went", []Change{changed(b), gone(b)}, nil},
		{"went and came back as it was", []Change{gone(a), changed(a)}, nil},
		{"went and came back changed", []Change{gone(a), changed(edited(a, image("i")))}, []string{"UPDATE api a@1"}},
		{"came and changed", []Change{changed(b), changed(edited(b, image("i")))}, []string{"ADD api b@2"}},
		{"changed and changed back", []Change{changed(edited(a, image("i"))), changed(a)}, nil},
		{"changed and its status", []Change{changed(edited(a, image("i"))), changed(edited(a, image("i"), phase("Running")))}, []string{"UPDATE api a@1"}},
		{"status and changed", []Change{changed(edited(a, phase("Running"))), changed(edited(a, image("i")))}, []string{"UPDATE api a@1"}},
		{"changed and ends", []Change{changed(edited(a, image("i"))), changed(edited(a, terminating))}, []string{"DELETE api a@1"}},
		{"ends and is gone", []Change{changed(edited(a, terminating)), gone(a)}, []string{"REMOVE api a@1"}},
		{"replaced under its name", []Change{gone(a), changed(testPod("a", "9"))}, []string{"REMOVE api a@1", "ADD api a@9"}},
		{"replaced twice", []Change{changed(testPod("a", "8")), changed(testPod("a", "9"))}, []string{"REMOVE api a@1", "ADD api a@9"}},
		{"a full state without it", []Change{changed(b), set(z)}, []string{"REMOVE api a@1"}},
		{"a UID under another name", []Change{changed(testPod("c", "1"))}, []string{"REMOVE api a@1", "ADD api c@1"}},
		{"two pods that change names", []Change{set(testPod("a", "2"), testPod("b", "1"), z)}, []string{"REMOVE api a@1", "ADD api a@2 b@1"}},
		{"the order within a change, offered twice", []Change{changed(edited(z, phase("Running")), edited(a, image("i"))), changed(edited(a, image("j")))},
			[]string{"UPDATE api a@1", "RECONCILE api z@26"}},
		{"two changes", []Change{changed(edited(a, phase("Running"))), changed(b)}, []string{"RECONCILE api a@1", "ADD api b@2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := newTestSource(APIServerSource)
				r := run(t, Config{Sources: []Producer{api}})
				api.changes <- first(a, z)
				r.want("ADD api initial a@1 z@26")
				for _, ch := range c.changes {
					api.changes <- ch
					synctest.Wait() // each is being offered before the next comes
				}
				r.want(c.want...)
				if st := r.Status(); st.Pending != 0 {
					t.Errorf("%d pending after all was read", st.Pending)
				}
			})
		})
	}
}

// TestI5: the consumer sleeps 5 s an update; 10,000 MODIFIED of 30 pods never
// hold up the source, at most 30 are pending, and the final states are right.
func TestI5(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api}})
		pods := make([]*corev1.Pod, 30)
		for i := range pods {
			pods[i] = testPod(fmt.Sprint("p", i), fmt.Sprint(i))
		}
		api.changes <- first(slices.Clone(pods)...)
		have := map[string]*corev1.Pod{}
		received := 0
		go func() {
			for u := range r.Updates() {
				for _, p := range u.Pods {
					have[p.Name] = p
				}
				received++
				time.Sleep(5 * time.Second)
			}
		}()
		begin := time.Now()
		for i := range 10_000 {
			edits := []func(*corev1.Pod){phase("Running"), func(p *corev1.Pod) { p.Status.Message = fmt.Sprint(i) }}
			if i%7 == 0 {
				edits = append(edits, image(fmt.Sprint(i)))
			}
			k := i % len(pods)
			pods[k] = edited(pods[k], edits...)
			api.changes <- changed(pods[k])
			if i%500 == 0 {
				time.Sleep(time.Second)
				if st := r.Status(); st.Pending > 30 {
					t.Fatalf("%d pending after %d changes", st.Pending, i)
				}
			}
		}
		if d := time.Since(begin); d != 20*time.Second {
			t.Errorf("telling took %s, which is more than the test slept: the source was held up", d)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, p := range pods {
			if got := have[p.Name]; got != p {
				t.Errorf("pod %d: status %q image %q, want %q", i, got.Status.Message, got.Spec.Containers[0].Image, p.Status.Message)
			}
		}
		if st := r.Status(); st.Pending != 0 || st.Merged < 9000 || received > 20 {
			t.Errorf("pending %d, merged %d, updates %d", st.Pending, st.Merged, received)
		}
	})
}

// TestI8OneSet: one full state with a pod twice. The first counts.
func TestI8OneSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		file := newTestSource(FileSource)
		r := run(t, Config{Sources: []Producer{file}, Logger: logTo(&log)})
		a, twin, b := testPod("a", "1"), testPod("a", "2"), testPod("other/a", "3")
		file.changes <- first(a, twin, b, testPod("c", "3"), testPod("d", ""), nil)
		r.want("ADD file initial a@1 a@3")
		st := r.Status()
		if got := st.Sources[0].Refused; len(got) != 4 || got[0].UID != "2" || got[1].Name != "c" || got[2].Name != "d" || got[3].Name != "" {
			t.Errorf("refused: %+v", got)
		}
		file.changes <- set(a, twin, b)
		r.want()
		for what, n := range map[string]int{"uid=2": 1, "another pod of this name": 1, "other/a": 1, "has no UID": 1} {
			if got := strings.Count(log.String(), what); got != n {
				t.Errorf("the log has %q %d times, want %d:\n%s", what, got, n, log.String())
			}
		}
		// When the first goes, the other takes its place, and nothing is refused any more.
		file.changes <- set(twin, b)
		r.want("REMOVE file a@1", "ADD file a@2")
		if got := r.Status().Sources[0].Refused; len(got) != 0 {
			t.Errorf("still refused: %+v", got)
		}
		// The order changes which one counts, as in the kubelet.
		file.changes <- set(a, twin, b)
		r.want("REMOVE file a@2", "ADD file a@1")
	})
}

// TestI8TwoSources: one full name from two sources. Both are told and the
// conflict is reported, once, until one of them goes; a mirror pod is none.
func TestI8TwoSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		file, api := newTestSource(FileSource), newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{file, api}, Logger: logTo(&log)})
		static := testPod("web-node-a", "s")
		mirror := testPod("web-node-a", "m", annotated(corev1.MirrorPodAnnotationKey, "hash"), annotated(sourceAnnotation, "file"))
		if !IsMirrorPod(mirror) || IsMirrorPod(static) {
			t.Fatal("IsMirrorPod")
		}
		file.changes <- first(static)
		api.changes <- first(mirror)
		r.want("ADD file initial web-node-a@s", "ADD api initial web-node-a@m")
		if st := r.Status(); len(st.Conflicts) != 0 || log.Len() > 0 {
			t.Errorf("a mirror pod is a conflict: %+v %s", st.Conflicts, log.String())
		}
		other := testPod("web-node-a", "o")
		api.changes <- changed(other)
		r.want("REMOVE api web-node-a@m", "ADD api web-node-a@o")
		st := r.Status()
		if len(st.Conflicts) != 1 || fmt.Sprint(st.Conflicts[0]) != "{default web-node-a [file api]}" {
			t.Errorf("conflicts: %+v", st.Conflicts)
		}
		api.changes <- changed(edited(other, phase("Running")))
		r.want("RECONCILE api web-node-a@o")
		if n := strings.Count(log.String(), "two sources have a pod of one name"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		api.changes <- gone(other)
		r.want("REMOVE api web-node-a@o")
		if st := r.Status(); len(st.Conflicts) != 0 {
			t.Errorf("conflicts: %+v", st.Conflicts)
		}
	})
}

// TestKubeletObjects: with KubeletCompatible the objects are what the kubelet
// would deliver, and what the source gave is not written to.
func TestKubeletObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api}, Behaviour: KubeletCompatible})
		a := testPod("a", "1", func(p *corev1.Pod) { p.ResourceVersion, p.Generation = "1", 1 })
		before := a.DeepCopy()
		api.changes <- first(a)
		u := <-r.Updates()
		seen := time.Now().Format(time.RFC3339Nano)
		if got := u.Pods[0].Annotations; len(got) != 2 || got[sourceAnnotation] != "api" || got[firstSeenAnnotation] != seen {
			t.Errorf("annotations %v", got)
		}
		time.Sleep(time.Minute)
		// The rest of the metadata stays that of the first version.
		status := edited(a, phase("Running"), func(p *corev1.Pod) { p.ResourceVersion, p.Generation = "2", 2 })
		api.changes <- changed(status)
		u = <-r.Updates()
		if p := u.Pods[0]; u.Op != Reconcile || p.Status.Phase != "Running" || p.ResourceVersion != "1" || p.Generation != 1 {
			t.Errorf("%s rv %s generation %d", line(u), p.ResourceVersion, p.Generation)
		}
		api.changes <- changed(edited(status, image("i"), annotated("x", "y"), annotated(sourceAnnotation, "file")))
		u = <-r.Updates()
		if p := u.Pods[0]; u.Op != Update || p.Spec.Containers[0].Image != "i" || p.ResourceVersion != "1" || p.Generation != 2 ||
			p.Annotations["x"] != "y" || p.Annotations[firstSeenAnnotation] != seen || p.Annotations[sourceAnnotation] != "api" {
			t.Errorf("%s rv %s generation %d annotations %v", line(u), p.ResourceVersion, p.Generation, p.Annotations)
		}
		api.changes <- gone(a)
		if u = <-r.Updates(); u.Op != Remove || u.Pods[0].Annotations["x"] != "y" {
			t.Errorf("%s %v", line(u), u.Pods[0].Annotations)
		}
		if !Improved.equal(a, before) {
			t.Error("the source's object was written to")
		}
	})
}

// TestKubeletBackpressure: with KubeletCompatible nothing is merged; the source
// is held up when the channel is full.
func TestKubeletBackpressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api}, Behaviour: KubeletCompatible})
		a := testPod("a", "1")
		api.changes <- first()
		var told atomic.Int64
		go func() {
			for i := range 100 {
				select {
				case api.changes <- changed(edited(a, image(fmt.Sprint(i)))):
					told.Add(1)
				case <-t.Context().Done():
				}
			}
		}()
		synctest.Wait()
		// The channel's 50 with the first ADD, one in the hands of the mux, and
		// none that the producer could put down.
		if told.Load() != kubeletBuffer {
			t.Errorf("%d told before the source was held up, want %d", told.Load(), kubeletBuffer)
		}
		if got := r.drain(); len(got) != 101 || r.Status().Merged != 0 {
			t.Errorf("%d updates, %d merged, want each one", len(got), r.Status().Merged)
		}
	})
}

// TestLargeOffer: an offer of many pods is made anew when a sixteenth of it has
// changed, so that a change costs a constant amount; what changed less than that
// comes after it.
func TestLargeOffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api}})
		pods := make([]*corev1.Pod, 48)
		for i := range pods {
			pods[i] = testPod(fmt.Sprint("p", i), fmt.Sprint(i))
		}
		api.changes <- first(pods...)
		synctest.Wait()
		for i := range 5 { // three of them make the offer anew
			api.changes <- changed(edited(pods[i], image("new")))
			synctest.Wait()
		}
		u := <-r.Updates()
		var fresh []string
		for _, p := range u.Pods {
			if p.Spec.Containers[0].Image == "new" {
				fresh = append(fresh, p.Name)
			}
		}
		if !u.Initial || len(u.Pods) != 48 || !slices.Equal(fresh, []string{"p0", "p1", "p2"}) {
			t.Errorf("the first update has %d pods, initial %t, %q of them new", len(u.Pods), u.Initial, fresh)
		}
		r.want("UPDATE api p3@3 p4@4")
	})
}

// TestTurns: a source that changes all the time holds up neither another source
// nor its own later operations.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, api := newTestSource(FileSource), newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{file, api}})
		flapping, calm := testPod("flapping", "1"), testPod("calm", "2")
		api.changes <- first(flapping, calm)
		file.changes <- first()
		r.want("ADD api initial flapping@1 calm@2", "ADD file initial")
		api.changes <- changed(edited(flapping, image("0")))
		api.changes <- changed(edited(calm, phase("Running")))
		file.changes <- changed(testPod("static", "3"))
		var got []string
		for i := range 6 {
			synctest.Wait()
			got = append(got, line(<-r.Updates()))
			api.changes <- changed(edited(flapping, image(fmt.Sprint("i", i))))
		}
		want := []string{"UPDATE api flapping@1", "RECONCILE api calm@2", "ADD file static@3",
			"UPDATE api flapping@1", "UPDATE api flapping@1", "UPDATE api flapping@1"}
		if !slices.Equal(got, want) {
			t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	})
}
