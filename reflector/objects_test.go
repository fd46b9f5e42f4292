package reflector

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// fed is a reflector that is given events, without a server.
type fed[T any] struct {
	t   *testing.T
	r   *Reflector[T]
	a   *attempt[T]
	dec decode.Decoder[T]
}

func feed[T any](t *testing.T, c Config[T]) *fed[T] {
	t.Helper()
	dec, err := decode.New[T]()
	if err != nil {
		t.Fatal(err)
	}
	c.ListerWatcher = named[T]{}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &fed[T]{t, r, &attempt[T]{opened: time.Now()}, dec}
}

// text is the JSON of obj, and its metadata.
func (f *fed[T]) text(obj any) (decode.Meta, []byte) {
	f.t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := decode.Peek(decode.JSON, raw)
	if err != nil {
		f.t.Fatal(err)
	}
	return m, raw
}

// give gives an event with the JSON of obj.
func (f *fed[T]) give(typ watch.EventType, obj any) {
	f.t.Helper()
	m, raw := f.text(obj)
	if err := f.r.deal(f.a, &streamwatcher.Event[T]{Type: typ, Object: decode.NewObject(m, decode.JSON, raw, f.dec)}); err != nil {
		f.t.Fatal(err)
	}
}

func podAt(name string, rv int, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
			ResourceVersion: strconv.Itoa(rv), Labels: map[string]string{"app": "the web front end", "name": name}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example/web:1", Command: []string{"serve", "--all"}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// What an update did not change is taken from the version before, by ObjectsShared and only by it.
func TestUpdatesShareWithTheVersionBefore(t *testing.T) {
	for _, tc := range []struct {
		name      string
		as        Objects
		transform bool
		shared    bool
	}{
		{"shared", ObjectsShared, false, true},
		{"private", ObjectsPrivate, false, false},
		{"shared with a Transform is private", ObjectsShared, true, false},
		{"compact", ObjectsCompact, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Config[*corev1.Pod]{Objects: tc.as}
			if tc.transform {
				c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
					p.Spec.Containers[0].Command[0] = "written to"
					return p, nil
				}
			}
			f := feed(t, c)
			f.give(watch.Added, podAt("a", 1, corev1.PodPending))
			before, _ := f.r.Store().Get("shop", "a")
			f.give(watch.Modified, podAt("a", 2, corev1.PodRunning))
			after, _ := f.r.Store().Get("shop", "a")
			if after == before || after.Status.Phase != corev1.PodRunning || before.Status.Phase != corev1.PodPending {
				t.Fatalf("phases are %q, then %q", before.Status.Phase, after.Status.Phase)
			}
			if got := &before.Spec.Containers[0] == &after.Spec.Containers[0]; got != tc.shared {
				t.Errorf("the two versions have the same containers: %t, want %t", got, tc.shared)
			}
			want := "serve"
			if tc.transform {
				want = "written to"
			}
			if got := after.Spec.Containers[0].Command[0]; got != want {
				t.Errorf("the command is %q, want %q", got, want)
			}
		})
	}
}

// A version of another UID has nothing in common with the one before; a final state may have.
func TestFinalStates(t *testing.T) {
	for _, as := range []Objects{ObjectsShared, ObjectsPrivate, ObjectsCompact} {
		t.Run(as.String(), func(t *testing.T) {
			f := feed(t, Config[*corev1.Pod]{Objects: as})
			m := f.r.store.testSubscribe(10)
			f.give(watch.Added, podAt("a", 1, corev1.PodPending))
			other := podAt("a", 2, corev1.PodRunning)
			other.UID = "another"
			f.give(watch.Added, other)
			final := podAt("a", 3, corev1.PodSucceeded)
			final.UID = "another"
			f.give(watch.Deleted, final)
			for _, want := range []string{
				"ADDED Pending@1 1 uid-a false", "DELETED Pending@1 1 uid-a true",
				"ADDED Running@2 2 another false", "DELETED Succeeded@3 3 another false",
			} {
				ev, ok, _ := m.popEvent()
				if !ok {
					t.Fatalf("no event, want %s", want)
				}
				got := fmt.Sprintf("%v %s@%s %s %s %t", ev.Type, ev.Object.Status.Phase, ev.Object.ResourceVersion, ev.ResourceVersion, ev.UID, ev.FinalStateUnknown)
				if got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			if f.r.store.Len() != 0 {
				t.Error("something is stored")
			}
		})
	}
}

// A compact store holds bytes: neither entries nor the backlog of a subscriber have objects, and each
// read makes one.
func TestCompactHoldsBytes(t *testing.T) {
	f := feed(t, Config[*corev1.Pod]{Objects: ObjectsCompact, Store: NewStore(ByLabel[*corev1.Pod]("name"))})
	m := f.r.store.testSubscribe(1)
	f.give(watch.Added, podAt("a", 1, corev1.PodPending))
	f.give(watch.Modified, podAt("a", 2, corev1.PodRunning))
	f.give(watch.Added, podAt("b", 3, corev1.PodPending))
	f.give(watch.Deleted, podAt("b", 4, corev1.PodFailed))
	f.give(watch.Modified, podAt("a", 5, corev1.PodFailed))
	e := f.r.store.find(decode.Key{Namespace: "shop", Name: "a"})
	held := []*entry[*corev1.Pod]{e}
	for l := m.queue.First(); l != nil; l = l.Next() {
		held = append(held, l.Value.e)
		if old := l.Value.old; old != nil {
			held = append(held, old)
		}
	}
	if len(held) < 2 {
		t.Fatalf("%d versions are held", len(held))
	}
	for _, e := range held {
		if e.obj != nil || e.packed == nil {
			t.Errorf("%s@%s is held as an object", e.key, e.rv)
		}
	}
	text := e.packed.Text()
	for what, s := range map[string]string{"namespace": e.key.Namespace, "name": e.key.Name, "uid": string(e.uid), "rv": e.rv} {
		if !sharesMemory(s, text) {
			t.Errorf("the %s is not a part of the bytes", what)
		}
	}
	one, _ := f.r.store.Get("shop", "a")
	two, _ := f.r.store.Get("shop", "a")
	if one == two || &one.Spec.Containers[0] == &two.Spec.Containers[0] {
		t.Error("two reads have the same object")
	}
	for _, p := range f.r.store.By("label:name", "a") {
		if p.Status.Phase != corev1.PodFailed || p.Kind != "" {
			t.Errorf("By has %q, kind %q", p.Status.Phase, p.Kind)
		}
	}
	for k, p := range f.r.store.All() {
		if k.Name != p.Name || p.ResourceVersion != "5" {
			t.Errorf("All has %v under %v", p.ResourceVersion, k)
		}
	}
	ev, _, _ := m.popEvent()
	if ev.Type != Added || ev.Object.Status.Phase != corev1.PodFailed || ev.Old != nil {
		t.Errorf("told %v %+v", ev.Type, ev.Object)
	}
}

// Old is decoded when a Modified is delivered, as Object is.
func TestCompactEventsHaveOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed(t, Config[*corev1.Pod]{Objects: ObjectsCompact})
		var got []string
		go func() {
			for ev := range f.r.Events(t.Context()) {
				text := fmt.Sprintf("%v %s", ev.Type, ev.Object.Status.Phase)
				if ev.Old != nil {
					text += " was " + string(ev.Old.Status.Phase)
				}
				got = append(got, text)
			}
		}()
		synctest.Wait()
		f.give(watch.Added, podAt("a", 1, corev1.PodPending))
		f.give(watch.Modified, podAt("a", 2, corev1.PodRunning))
		f.r.store.end()
		synctest.Wait()
		if want := "ADDED Pending; MODIFIED Running was Pending"; strings.Join(got, "; ") != want {
			t.Errorf("got %q, want %s", got, want)
		}
	})
}

// An unstructured item of a list need not name its kind; a compact store gives it back with one.
func TestCompactUnstructuredHasItsKind(t *testing.T) {
	f := feed(t, Config[*unstructured.Unstructured]{Objects: ObjectsCompact, Resource: "pods"})
	raw := []byte(`{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7"},"spec":{"n":1}}`)
	m, err := decode.Peek(decode.JSON, raw)
	if err != nil {
		t.Fatal(err)
	}
	m.APIVersion, m.Kind = "v1", "Pod"
	in := f.r.newIntake(t.Context(), "")
	o := decode.NewObject(m, decode.JSON, raw, f.dec)
	if err := in.Item(&o); err != nil {
		t.Fatal(err)
	}
	in.commit("9")
	for range 2 {
		u, ok := f.r.store.Get("shop", "a")
		if !ok || u.GetKind() != "Pod" || u.GetAPIVersion() != "v1" || u.GetName() != "a" {
			t.Errorf("got %t: %+v", ok, u)
		}
	}
}

// A decoder that is no Packer is served as by ObjectsPrivate.
func TestCompactWithoutAPacker(t *testing.T) {
	f := feed(t, Config[*corev1.Pod]{Objects: ObjectsCompact})
	f.dec = struct{ decode.Decoder[*corev1.Pod] }{f.dec}
	f.give(watch.Added, podAt("a", 1, corev1.PodPending))
	one, ok := f.r.store.Get("shop", "a")
	if two, _ := f.r.store.Get("shop", "a"); !ok || one != two || one.Name != "a" {
		t.Errorf("got %t: %v", ok, one)
	}
}

// moodyPod is a type of the caller's that decodes now and then.
type moodyPod struct{}

var moodyFails *bool

func (*moodyPod) UnmarshalJSON([]byte) error {
	if *moodyFails {
		return errors.New("not today")
	}
	return nil
}

func TestAPackedObjectThatDoesNotDecodeAnyMorePanics(t *testing.T) {
	fails := false
	dec, err := decode.New[*moodyPod]()
	if err != nil {
		t.Fatal(err)
	}
	moodyFails = &fails
	defer func() { moodyFails = nil }()
	p, err := dec.(decode.Packer[*moodyPod]).Pack(decode.JSON, []byte(`{"metadata":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := NewStore[*moodyPod]()
	s.upsert(nil, &decode.Meta{Name: "a", UID: "u", ResourceVersion: "1"}, content[*moodyPod]{packed: &p})
	if _, ok := s.Get("", "a"); !ok {
		t.Error("it is not there")
	}
	fails = true
	got := panicOf(func() { s.Get("", "a") })
	if want := "reflector: a decoded when it came and does not any more: "; !strings.HasPrefix(fmt.Sprint(got), want) {
		t.Errorf("panic %v, want %s", got, want)
	}
}

// hush is a decoder as listwatch has them: its own errors show no secret, what it packs knows nothing of that.
type hush struct{ decode.Packer[*corev1.Pod] }

func (h hush) Decode(enc decode.Encoding, raw []byte) (*corev1.Pod, error) {
	p, err := h.Packer.Decode(enc, raw)
	if err != nil {
		err = errors.New("something that is not shown")
	}
	return p, err
}

// An object that does not decode is quarantined with the error of the decoder that it came with.
func TestCompactShowsNoSecret(t *testing.T) {
	f := feed(t, Config[*corev1.Pod]{Objects: ObjectsCompact})
	f.dec = hush{f.dec.(decode.Packer[*corev1.Pod])}
	f.give(watch.Added, map[string]any{"metadata": map[string]any{"name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": "planted"}})
	q := f.r.Status().Quarantined
	if len(q) != 1 || q[0].Err.Error() != "something that is not shown" || f.r.store.Len() != 0 {
		t.Errorf("quarantined: %+v", q)
	}
}
