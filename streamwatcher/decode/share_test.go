package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

func sharer[T any](t testing.TB, cfg Config) Sharer[T] {
	t.Helper()
	return mustNewWith[T](t, cfg).(Sharer[T])
}

// stored is what a store has of one object.
type stored[T any] struct {
	obj   T
	parts Parts
}

func (s *stored[T]) update(t testing.TB, d Sharer[T], enc Encoding, raw []byte) {
	t.Helper()
	obj, parts, err := d.DecodeShared(enc, raw, s.obj, s.parts)
	if err != nil {
		t.Fatal(err)
	}
	s.obj, s.parts = obj, parts
}

// decoded is what Decode makes of raw, with the texts that quantities cache.
func decoded(t testing.TB, enc Encoding, raw []byte) *corev1.Pod {
	t.Helper()
	pod, err := mustNewWith[*corev1.Pod](t, Config{Drop: managed}).Decode(enc, raw)
	if err != nil {
		t.Fatal(err)
	}
	return withTexts(pod)
}

// withTexts is a copy of pod in which the quantities have their texts.
func withTexts(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, c := range pod.Spec.Containers {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name, q := range list {
				q = resource.MustParse(q.String())
				_ = q.String()
				list[name] = q
			}
		}
	}
	return pod
}

// An update of a pod is what a plain decode gives, takes what did not change from the version before,
// and leaves that one as it was.
func TestUpdateTakesWhatDidNotChange(t *testing.T) {
	for _, share := range []int{0, -1} {
		for _, enc := range []Encoding{Protobuf, JSON} {
			d := sharer[*corev1.Pod](t, Config{Drop: managed, Share: share})
			for _, pod := range specimen.Pods(8) {
				var s stored[*corev1.Pod]
				s.update(t, d, enc, both(t, pod)[enc])
				for round := range 4 {
					old, was := s.obj, withTexts(s.obj)
					next := modified(pod, round)
					s.update(t, d, enc, both(t, next)[enc])
					if want := decoded(t, enc, both(t, next)[enc]); !reflect.DeepEqual(s.obj, want) {
						t.Fatalf("%v: (-want +got)\n%s", enc, cmp.Diff(want, s.obj))
					}
					if !reflect.DeepEqual(old, was) {
						t.Fatalf("%v: the version before was written to:\n%s", enc, cmp.Diff(was, old))
					}
					if &old.Spec.Containers[0] != &s.obj.Spec.Containers[0] || &old.Status.ContainerStatuses[0] != &s.obj.Status.ContainerStatuses[0] ||
						reflect.ValueOf(old.Labels).Pointer() != reflect.ValueOf(s.obj.Labels).Pointer() {
						t.Fatalf("%v: what did not change was decoded again", enc)
					}
					if &old.Status.Conditions[0] == &s.obj.Status.Conditions[0] {
						t.Fatalf("%v: the conditions changed, and are the old ones", enc)
					}
				}
			}
		}
	}
}

// Parts of another encoding, of another decoder, or none, are no parts: the object is decoded wholly.
func TestForeignParts(t *testing.T) {
	forms := both(t, specimen.Pod(1))
	a, b := sharer[*corev1.Pod](t, Config{Drop: managed}), sharer[*corev1.Pod](t, Config{Drop: append([]string{"spec.volumes"}, managed...)})
	var s stored[*corev1.Pod]
	s.update(t, a, JSON, forms[JSON])
	s.update(t, a, Protobuf, forms[Protobuf])
	want := decoded(t, Protobuf, forms[Protobuf])
	if !reflect.DeepEqual(s.obj, want) {
		t.Errorf("from JSON to protobuf: %s", cmp.Diff(want, s.obj))
	}
	s.update(t, b, Protobuf, forms[Protobuf])
	if want.Spec.Volumes = nil; !reflect.DeepEqual(s.obj, want) {
		t.Errorf("of a decoder that drops other fields: %s", cmp.Diff(want, s.obj))
	}
	// Without parts, old is not looked at.
	got, parts, err := a.DecodeShared(Protobuf, forms[Protobuf], &corev1.Pod{}, Parts{})
	if err != nil || len(got.Spec.Containers) == 0 || len(parts.list()) == 0 {
		t.Errorf("without parts: %v, %v, %v", got, parts, err)
	}
	if got, _, err = a.DecodeShared(Protobuf, forms[Protobuf], nil, parts); err != nil || len(got.Spec.Containers) == 0 {
		t.Errorf("parts without old: %v, %v", got, err)
	}
	if got, parts, err := a.DecodeShared(JSON, forms[JSON][:1000], s.obj, parts); err == nil || got != nil || parts.list() != nil {
		t.Errorf("half an object: %v, %v, %v", got, parts, err)
	}
}

// Decode makes objects that are their owner's alone, whatever else the decoder made.
func TestDecodeIsPrivate(t *testing.T) {
	d := sharer[*corev1.Pod](t, Config{Drop: managed})
	for enc, raw := range both(t, specimen.Pod(0)) {
		var s stored[*corev1.Pod]
		for range 3 {
			s.update(t, d, enc, raw)
		}
		got, err := d.Decode(enc, raw)
		if err != nil {
			t.Fatal(err)
		}
		*got.Spec.TerminationGracePeriodSeconds = 77
		*got.Spec.PreemptionPolicy = "changed"
		*got.OwnerReferences[0].Controller = false
		got.Labels["team"] = "changed"
		got.Spec.Containers[0].Env[0].Name = "changed"
		if want := decoded(t, enc, raw); !reflect.DeepEqual(s.obj, want) {
			t.Errorf("%v: %s", enc, cmp.Diff(want, s.obj))
		}
	}
}

// Objects that share parts can be printed, marshalled and copied by several goroutines at
// once: under the race detector nothing in them is written to. Quantities are where that
// would be: String caches its text in them, if they have none.
func TestReadersOfSharedParts(t *testing.T) {
	huge := resource.MustParse("1234567890123456789012345678901")
	pod := specimen.Pod(3)
	pod.Spec.Volumes[1].EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: ptr(resource.MustParse("999Gi"))}
	pod.Spec.Containers[0].Resources.Limits["example.com/huge"] = huge
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "CPU", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}})
	for enc, raw := range both(t, pod) {
		// A text that is not the canonical one is not kept by who parses it.
		raw = bytes.Replace(raw, []byte("999Gi"), []byte("1000m"), 1)
		if enc == JSON { // a server writes "0"; one that does not leaves a zero
			raw = bytes.Replace(raw, []byte(`,"divisor":"0"`), nil, 1)
		}
		d := sharer[*corev1.Pod](t, Config{Drop: managed})
		var a, b stored[*corev1.Pod]
		for range 3 {
			a.update(t, d, enc, raw)
		}
		b = a
		b.update(t, d, enc, raw)
		if a.obj == b.obj || a.obj.Spec.Volumes[1].EmptyDir.SizeLimit != b.obj.Spec.Volumes[1].EmptyDir.SizeLimit {
			t.Fatalf("%v: the two do not share", enc)
		}
		var wg sync.WaitGroup
		for _, pod := range []*corev1.Pod{a.obj, b.obj, a.obj, b.obj} {
			wg.Go(func() {
				// First: what follows uses pools, by which goroutines come to an order that hides a race.
				_ = pod.Spec.Volumes[1].EmptyDir.SizeLimit.String()
				_ = pod.Spec.Containers[0].Env[1].ValueFrom.ResourceFieldRef.Divisor.String()
				_ = pod.String()
				_ = fmt.Sprintf("%+v", pod)
				if _, err := pod.Marshal(); err != nil {
					t.Error(err)
				}
				if _, err := json.Marshal(pod); err != nil {
					t.Error(err)
				}
				_ = pod.DeepCopy()
			})
		}
		wg.Wait()
	}
}

// A list that became longer begins with the bytes that it had: it is read again, and only it.
func TestAppendedElement(t *testing.T) {
	for _, enc := range []Encoding{Protobuf, JSON} {
		d := sharer[*corev1.Pod](t, Config{Drop: managed})
		pod := specimen.Pod(5)
		var s stored[*corev1.Pod]
		s.update(t, d, enc, both(t, pod)[enc])
		old := s.obj
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "one more", Status: "True"})
		raw := both(t, pod)[enc]
		s.update(t, d, enc, raw)
		if want := decoded(t, enc, raw); !reflect.DeepEqual(s.obj, want) {
			t.Errorf("%v: %s", enc, cmp.Diff(want, s.obj))
		}
		if &old.Spec.Containers[0] != &s.obj.Spec.Containers[0] || len(s.parts.list()) == 0 {
			t.Errorf("%v: the whole object was read again", enc)
		}
	}
}

// What an update takes from the version before keeps nothing else of that one alive: not the text of the
// fields that are decoded anew, although fields that are taken had equal strings.
func TestUpdateKeepsNothing(t *testing.T) {
	for _, enc := range []Encoding{Protobuf, JSON} {
		d := sharer[*corev1.Pod](t, Config{Drop: managed})
		pod := specimen.Pod(5)
		pod.Finalizers = []string{"only-in-this-object.example.com"}
		pod.Spec.Containers[0].Command = pod.Finalizers
		pod.Spec.Containers[0].WorkingDir = pod.Name
		pod.Status.ContainerStatuses[0].Name = pod.Name
		var s stored[*corev1.Pod]
		s.update(t, d, enc, both(t, pod)[enc])
		text, object := weak.Make(unsafe.StringData(s.obj.Name)), weak.Make(s.obj)
		conditions := weak.Make(&s.obj.Status.Conditions[0])
		containers := weak.Make(&s.obj.Spec.Containers[0])
		s.update(t, d, enc, both(t, modified(pod, 1))[enc])
		goruntime.GC()
		goruntime.GC()
		if text.Value() != nil || object.Value() != nil || conditions.Value() != nil {
			t.Errorf("%v: of the version before there is still: text %t, object %t, conditions %t", enc, text.Value() != nil, object.Value() != nil, conditions.Value() != nil)
		}
		if containers.Value() != &s.obj.Spec.Containers[0] {
			t.Errorf("%v: the containers are not those of the version before", enc)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// What an event of a known pod may cost: a status update of the kubelet.
func TestUpdateAllocations(t *testing.T) {
	for _, enc := range []Encoding{Protobuf, JSON} {
		for _, kind := range []struct {
			name   string
			cost   func(*stream) (allocs, size float64)
			allocs float64
			size   float64
		}{
			{"pod", updateCost[*corev1.Pod](t, Config{Drop: managed}), 12, 4 << 10},
			{"slim", updateCost[*slimPod](t, Config{NumbersOf: &corev1.Pod{}}), 6, 1 << 10},
		} {
			s := newStream(t, enc, specimen.Pods(100), func(pod *corev1.Pod) []byte { return both(t, pod)[enc] })
			if n, size := kind.cost(s); n > kind.allocs || size > kind.size {
				t.Errorf("%s from %v: %.1f allocations and %.0f bytes an event, at most %.0f and %.0f", kind.name, enc, n, size, kind.allocs, kind.size)
			}
		}
	}
}

func updateCost[T any](t testing.TB, cfg Config) func(*stream) (allocs, size float64) {
	d := sharer[T](t, cfg)
	return func(s *stream) (allocs, size float64) {
		store := make([]stored[T], len(s.raws))
		update := func() {
			i, raw := s.next()
			store[i].update(t, d, s.enc, raw)
		}
		for range 3 * len(s.raws) {
			update()
		}
		return perRun(3*len(s.raws), update)
	}
}

// What a pod may take in a store, with all that is there for it; and after ten updates of each
// it takes the same: what came from an old version does not keep the rest of it.
func TestRestBytes(t *testing.T) {
	pods := specimen.Pods(500) // the tables are 800 bytes of each once they have grown, which of 10,000 would be 40
	for _, enc := range []Encoding{Protobuf, JSON} {
		fresh, updated := restBytes(t, enc, pods, 0), restBytes(t, enc, pods, 50)
		t.Logf("%v: %.0f bytes a pod, %.0f after updates", enc, fresh, updated)
		if fresh > 5400 || updated > 5800 {
			t.Errorf("%v: %.0f bytes a pod, %.0f after updates", enc, fresh, updated)
		}
	}
}

// The ID of an image, of more than a hundred characters, is one string in the pods that run it, but for the first ones and
// where, in the few places that there are at first, others displace it: one image in sixty.
func TestImageIDsAreShared(t *testing.T) {
	const images, pods = 10, 50 // the pods of one ReplicaSet
	for _, enc := range []Encoding{Protobuf, JSON} {
		var stands []int
		shared := 0
		for image := range images {
			d := mustNewWith[*corev1.Pod](t, Config{Drop: managed}).(Sharer[*corev1.Pod])
			seen := map[*byte]int{}
			for i := range pods {
				pod := specimen.Pod(image*pods + i)
				got, _, err := d.DecodeShared(enc, both(t, pod)[enc], nil, Parts{})
				if err != nil {
					t.Fatal(err)
				}
				id := got.Status.ContainerStatuses[0].ImageID
				if len(id) <= 96 || id != pod.Status.ContainerStatuses[0].ImageID {
					t.Fatalf("%v: the image's ID is %q", enc, id)
				}
				seen[unsafe.StringData(id)]++
			}
			if stands = append(stands, len(seen)); len(seen) <= 10 {
				shared++
			}
		}
		if shared < images-3 {
			t.Errorf("%v: the IDs stand %d times in %d pods each", enc, stands, pods)
		}
	}
}

// packedCost is what issue 4 allows a packed pod: the bytes, and what keeps them.
const packedCost = 3600

// What is packed takes little more than its bytes, and is the same object.
func TestPack(t *testing.T) {
	d := mustNewWith[*corev1.Pod](t, Config{Drop: managed})
	total := 0
	pods := specimen.Pods(100)
	for _, pod := range pods {
		for enc, raw := range both(t, pod) {
			o := NewObject(Meta{}, enc, raw, d)
			packed, ok, err := o.Pack()
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			want, err := d.Decode(enc, raw)
			if err != nil {
				t.Fatal(err)
			}
			clear(raw)
			for range 2 {
				got, err := packed.Decode()
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%v: %v %s", enc, err, cmp.Diff(want, got))
				}
				got.Labels["team"] = "changed" // it is ours
			}
			if enc == Protobuf {
				total += len(packed.Text()) + 200
			}
		}
	}
	if mean := total / len(pods); mean > packedCost {
		t.Errorf("a packed pod takes %d bytes", mean)
	}
	for _, enc := range []Encoding{0, 9} {
		if _, err := d.(Packer[*corev1.Pod]).Pack(enc, []byte("{}")); err == nil {
			t.Errorf("packed from encoding %d", enc)
		}
	}
	if _, err := (Packed[*corev1.Pod]{}).Decode(); err == nil {
		t.Error("the zero Packed decodes")
	}
}

// Types that read themselves are packed as they are, and their methods may write to the bytes.
func TestPackOfTypesThatReadThemselves(t *testing.T) {
	d := mustNew[*scribbler](t)
	packed, err := d.(Packer[*scribbler]).Pack(JSON, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := packed.Decode(); err != nil || got.text != `{"a":1}` {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if got, parts, err := d.(Sharer[*scribbler]).DecodeShared(JSON, []byte(`{"a":1}`), nil, Parts{}); err != nil || got.text != `{"a":1}` || parts.list() != nil {
		t.Errorf("%+v, %v, %v", got, parts, err)
	}
}

// scribbler reads itself, and leaves nothing of the bytes.
type scribbler struct{ text string }

func (s *scribbler) UnmarshalJSON(b []byte) error {
	s.text = string(b)
	clear(b)
	return nil
}

// Unstructured items of a list of built-in types do not name their kind; packed, they do.
func TestPackedItemsHaveTheirKind(t *testing.T) {
	d := mustNew[*unstructured.Unstructured](t)
	for text, want := range map[string]string{
		`{"metadata":{"name":"a"}}`:            "v1 Pod",
		` { } `:                                "v1 Pod",
		`{"kind":"Other","apiVersion":"x/v2"}`: "x/v2 Other",
	} {
		o := NewObject(Meta{Kind: "Pod", APIVersion: "v1"}, JSON, []byte(text), d)
		packed, ok, err := o.Pack()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		got, err := packed.Decode()
		if err != nil || got.GetAPIVersion()+" "+got.GetKind() != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		old, err := o.Decode()
		if err != nil || !reflect.DeepEqual(got, old) {
			t.Errorf("%s: packed %v, else %v, %v", text, got, old, err)
		}
	}
}

// A slim struct takes from its old version, too, and what it does not name is passed over.
func TestSlimUpdates(t *testing.T) {
	d := sharer[*slimPod](t, Config{NumbersOf: &corev1.Pod{}})
	plain := mustNewWith[*slimPod](t, Config{NumbersOf: &corev1.Pod{}})
	for _, enc := range []Encoding{Protobuf, JSON} {
		var s stored[*slimPod]
		for round := range 5 {
			pod := modified(specimen.Pod(1), round)
			if round == 3 {
				pod.Spec.NodeName, pod.ManagedFields = "another", pod.ManagedFields[1:]
			}
			raw := both(t, pod)[enc]
			want, err := plain.Decode(enc, raw)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want.Spec.Containers {
				r := &want.Spec.Containers[i].Resources
				filled := withTexts(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: *r}}}})
				*r = filled.Spec.Containers[0].Resources
			}
			s.update(t, d, enc, raw)
			if !reflect.DeepEqual(s.obj, want) {
				t.Fatalf("%v: %s", enc, cmp.Diff(want, s.obj))
			}
		}
	}
}

// Arrays that are passed over are remembered by their elements if there are few, else whole: Parts
// stay small.
func TestPartsOfPassedArrays(t *testing.T) {
	type none struct {
		Kind string `json:"kind"`
		Last struct {
			Text string `json:"text"`
		} `json:"last"`
	}
	d := sharer[*none](t, Config{})
	for _, test := range []struct{ elements, size, parts, taken int }{{0, 90, 1, 1}, {1, 600, 2, 1}, {6, 600, 7, 6}, {6, 90, 2, 1}, {7, 600, 2, 1}, {500, 600, 2, 1}, {50, 5, 2, 1}} {
		raw := func(changed int) []byte {
			text := `{"passed":[`
			for i := range test.elements {
				if i > 0 {
					text += " , "
				}
				text += fmt.Sprintf(`{"i":%d,"text":"%s"}`, i, strings.Repeat("x", test.size))
			}
			if test.elements > 0 {
				text = strings.Replace(text, "xx", fmt.Sprintf("%02d", changed), 1)
			}
			return []byte(text + `],"last":{"text":"` + strings.Repeat("y", 90) + `"}}`)
		}
		var s stored[*none]
		s.update(t, d, JSON, raw(1))
		first := s.parts.list()
		s.update(t, d, JSON, raw(2))
		taken := 0
		for _, part := range s.parts.list() {
			if slices.Contains(first, part) {
				taken++
			}
		}
		if len(first) != test.parts || len(s.parts.list()) != test.parts || taken != test.taken || s.obj.Last.Text == "" {
			t.Errorf("%d elements: %d parts, then %d, of which %d were taken, want %d and %d", test.elements, len(first), len(s.parts.list()), taken, test.parts, test.taken)
		}
		second := s.parts.list()
		s.update(t, d, JSON, raw(2))
		if !slices.Equal(s.parts.list(), second) || s.obj.Last.Text == "" {
			t.Errorf("%d elements, unchanged: %+v", test.elements, s.obj)
		}
	}
}

// What an object shares with others is remembered with it too: its next version has it, whatever became of the table
// of shared parts.
func TestSharedPartsAreRemembered(t *testing.T) {
	for _, enc := range []Encoding{JSON, Protobuf} {
		d := sharer[*corev1.Pod](t, Config{Share: 1})
		pod := func(name, app string) []byte {
			return both(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": strings.Repeat(app, 100)}}})[enc]
		}
		var s [3]stored[*corev1.Pod]
		for k := range s {
			s[k].update(t, d, enc, pod(fmt.Sprint("web-", k), "x"))
		}
		labels := reflect.ValueOf(s[2].obj.Labels).Pointer()
		if labels != reflect.ValueOf(s[1].obj.Labels).Pointer() {
			t.Errorf("%v: equal labels are not shared", enc)
		}
		for k := range 40 { // of which some displace the labels
			var other stored[*corev1.Pod]
			other.update(t, d, enc, pod("other", fmt.Sprint(k/2)))
		}
		s[2].update(t, d, enc, pod("web-2", "x"))
		if now := reflect.ValueOf(s[2].obj.Labels).Pointer(); now != labels {
			t.Errorf("%v: the labels that did not change were decoded", enc)
		}
	}
}

// Kinds are emptied in shared objects as in others, also where the type keeps them elsewhere.
func TestSharedKinds(t *testing.T) {
	d := sharer[*corev1.Pod](t, Config{})
	var s stored[*corev1.Pod]
	for range 2 {
		s.update(t, d, JSON, both(t, specimen.Pod(0))[JSON])
		if s.obj.TypeMeta != (metav1.TypeMeta{}) {
			t.Errorf("%+v", s.obj.TypeMeta)
		}
	}
}

// A decoder can be in use by several goroutines, each with objects of its own.
func TestGoroutinesShareADecoder(t *testing.T) {
	d := sharer[*corev1.Pod](t, Config{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var mine stored[*corev1.Pod]
			for round := range 20 {
				pod := modified(specimen.Pod(g%2), round)
				mine.update(t, d, Protobuf, both(t, pod)[Protobuf])
				if want := pod.ResourceVersion; mine.obj.ResourceVersion != want || mine.obj.Name != pod.Name {
					t.Errorf("%s, want %s", mine.obj.ResourceVersion, want)
				}
			}
		})
	}
	wg.Wait()
}

// An empty struct and the field behind it stand at one place of the object. They are not taken for each other.
func TestEmptyStructIsNotItsNeighbour(t *testing.T) {
	type text struct {
		X string `json:"x"`
	}
	type neighbours struct {
		metav1.ObjectMeta `json:"metadata"`
		Nothing           struct{} `json:"nothing"`
		Text              text     `json:"text"`
	}
	d := sharer[*neighbours](t, Config{})
	x := strings.Repeat("x", 100)
	var s stored[*neighbours]
	s.update(t, d, JSON, fmt.Appendf(nil, `{"nothing":{"x":%q}}`, x))
	s.update(t, d, JSON, fmt.Appendf(nil, `{"text":{"x":%q}}`, x))
	if s.obj.Text.X != x {
		t.Errorf("the text is %q", s.obj.Text.X)
	}
}
