package decode

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// untyped decodes as apimachinery does where no Go type is known.
func untyped(t testing.TB, raw []byte) *unstructured.Unstructured {
	t.Helper()
	obj, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
	if err != nil {
		t.Fatalf("apimachinery: %v", err)
	}
	return obj.(*unstructured.Unstructured)
}

// The objects of a real server, and pods like those of one, are what apimachinery makes of them.
func TestUnstructuredIsWhatApimachineryDecodes(t *testing.T) {
	d := mustNew[*unstructured.Unstructured](t)
	var texts [][]byte
	for _, name := range []string{"watch-churn-json", "watchlist-json", "watchlist-sharded"} {
		for _, raw := range wire(t, name) {
			texts = append(texts, raw)
		}
	}
	for _, pod := range specimen.Pods(20) {
		texts = append(texts, both(t, pod)[JSON])
	}
	for _, raw := range texts {
		want := untyped(t, raw)
		text := append([]byte(nil), raw...)
		got, err := d.Decode(JSON, text)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(text)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s (-apimachinery +ours):\n%s", want.GetName(), cmp.Diff(want, got))
		}
	}
	if len(texts) < 40 {
		t.Errorf("only %d objects compared", len(texts))
	}
}

// A kind is not asked for, which apimachinery does: Object gives it to those that have none.
func TestUnstructuredKind(t *testing.T) {
	d := mustNew[*unstructured.Unstructured](t)
	for text, want := range map[string]string{
		`{"metadata":{"name":"p"}}`:               "Pod",
		`{"kind":"","metadata":{}}`:               "Pod",
		`{"kind":7}`:                              "Pod",
		`{"kind":"Widget","apiVersion":"x/v1"}`:   "Widget",
		`{"apiVersion":"x/v1","kind":"\u0057ew"}`: "Wew",
	} {
		if u, err := d.Decode(JSON, []byte(text)); err != nil {
			t.Errorf("%s: %v, %v", text, u, err)
		}
		_, _, err := unstructured.UnstructuredJSONScheme.Decode([]byte(text), nil, nil)
		if refused := apiruntime.IsMissingKind(err); refused != (want == "Pod") {
			t.Errorf("%s: apimachinery says %v", text, err)
		}
		o := NewObject(Meta{APIVersion: "v1", Kind: "Pod"}, JSON, []byte(text), d)
		if u, err := o.Decode(); err != nil || u.GetKind() != want {
			t.Errorf("%s: %v, %v", text, u, err)
		}
		if u, _, err := o.DecodeShared(nil, Parts{}); err != nil || u.GetKind() != want {
			t.Errorf("%s shared: %v, %v", text, u, err)
		}
	}
}

// Any path can be dropped from content of any shape.
func TestUnstructuredDrop(t *testing.T) {
	d := mustNewWith[*unstructured.Unstructured](t, Config{Drop: []string{
		"metadata.managedFields", "metadata.annotations[" + lastApplied + "]", "spec.containers.env", "status", "no.such.path"}})
	for _, pod := range specimen.Pods(10) {
		pod.Annotations[lastApplied] = `{"kind":"Pod","a":"\"]}"}`
		raw := both(t, pod)[JSON]
		want := untyped(t, raw)
		if len(want.GetManagedFields()) == 0 || want.GetAnnotations()[lastApplied] == "" {
			t.Fatal("the specimen has not what is to be dropped")
		}
		unstructured.RemoveNestedField(want.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(want.Object, "metadata", "annotations", lastApplied)
		unstructured.RemoveNestedField(want.Object, "status")
		containers, _, _ := unstructured.NestedFieldNoCopy(want.Object, "spec", "containers")
		for _, c := range containers.([]any) {
			delete(c.(map[string]any), "env")
		}
		got, err := d.Decode(JSON, raw)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v (-want +got)\n%s", err, cmp.Diff(want, got))
		}
		packed, err := d.(Packer[*unstructured.Unstructured]).Pack(JSON, raw)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed.Text()) > len(raw)*2/3 {
			t.Errorf("%d bytes are packed to %d", len(raw), len(packed.Text()))
		}
		if got, err := packed.Decode(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("packed: %v\n%s", err, cmp.Diff(want, got))
		}
	}
	if _, err := NewWith[*unstructured.Unstructured](Config{Drop: []string{"spec..x"}}); err == nil || !strings.Contains(err.Error(), `"spec..x"`) {
		t.Errorf("a path that is none: %v", err)
	}
	if _, err := NewWith[*unstructured.Unstructured](Config{NumbersOf: &corev1.Pod{}}); err == nil || !strings.Contains(err.Error(), "NumbersOf is a *v1.Pod") {
		t.Errorf("NumbersOf: %v", err)
	}
}

// Other types that take their content as a whole, one of which does not take everything.
type fussy struct {
	unstructured.Unstructured
}

func (f *fussy) SetUnstructuredContent(content map[string]any) {
	f.Object = map[string]any{"spec": content["spec"].(map[string]any)}
}

func TestOtherUnstructuredTypes(t *testing.T) {
	text := []byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"kind":"X"}]}`)
	want := &unstructured.UnstructuredList{}
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	want.SetUnstructuredContent(content)
	list := mustNew[*unstructured.UnstructuredList](t)
	if got, err := list.Decode(JSON, text); err != nil || !reflect.DeepEqual(got, want) || len(got.Items) != 2 {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	var old *unstructured.UnstructuredList
	var was Parts
	for range 3 {
		got, parts, err := list.(Sharer[*unstructured.UnstructuredList]).DecodeShared(JSON, text, old, was)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("shared: %v\n%s", err, cmp.Diff(want, got))
		}
		old, was = got, parts
	}
	f := mustNew[*fussy](t)
	if got, err := f.Decode(JSON, []byte(`{"spec":{"a":1},"x":2}`)); err != nil || !reflect.DeepEqual(got.Object, map[string]any{"spec": map[string]any{"a": int64(1)}}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := f.Decode(JSON, []byte(`{"x":2}`)); err == nil || got != nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%v, %v", got, err)
	}
}

// There is no other encoding, CBOR neither, in which client-go has a decoder for unstructured content.
func TestUnstructuredIsJSONOnly(t *testing.T) {
	d := mustNew[*unstructured.Unstructured](t)
	for _, enc := range []Encoding{Protobuf, 0, 7} {
		if u, err := d.Decode(enc, []byte(`{"kind":"X"}`)); err == nil || u != nil {
			t.Errorf("%d: %v, %v", enc, u, err)
		}
		if u, _, err := d.(Sharer[*unstructured.Unstructured]).DecodeShared(enc, []byte(`{"kind":"X"}`), nil, Parts{}); err == nil || u != nil {
			t.Errorf("%d shared: %v, %v", enc, u, err)
		}
	}
	for _, contentType := range []string{"application/cbor", "application/cbor-seq"} {
		if enc, err := EncodingOf(contentType); err == nil {
			t.Errorf("%s is %v", contentType, enc)
		}
	}
	cbor := append([]byte("\xd9\xd9\xf7"), "\xa1\x44kind\x41X"...) // as an API server begins it
	if u, err := d.Decode(JSON, cbor); err == nil || u != nil {
		t.Errorf("CBOR as JSON: %v, %v", u, err)
	}
	if o, err := mustNew[*metav1.PartialObjectMetadata](t).Decode(JSON, cbor); err == nil || o != nil {
		t.Errorf("CBOR as JSON: %v, %v", o, err)
	}
}

// An update costs what changed, and is what a plain decode makes of it.
func TestUnstructuredUpdates(t *testing.T) {
	d := mustNewWith[*unstructured.Unstructured](t, Config{Drop: []string{"metadata.managedFields"}})
	s := d.(Sharer[*unstructured.Unstructured])
	pods := specimen.Pods(10)
	var old [10]*unstructured.Unstructured
	var was [10]Parts
	for round := range 5 {
		for i, pod := range pods {
			pod.Status.ContainerStatuses[0].RestartCount = int32(round)
			pod.ResourceVersion += "1"
			raw := both(t, pod)[JSON]
			want, err := d.Decode(JSON, raw)
			if err != nil {
				t.Fatal(err)
			}
			before := old[i].DeepCopy()
			got, parts, err := s.DecodeShared(JSON, raw, old[i], was[i])
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v\n%s", err, cmp.Diff(want, got))
			}
			if !reflect.DeepEqual(before, old[i]) {
				t.Fatal("the version before was written to")
			}
			if round > 0 && reflect.ValueOf(got.Object["spec"]).Pointer() != reflect.ValueOf(old[i].Object["spec"]).Pointer() {
				t.Error("the spec is not the version before's")
			}
			old[i], was[i] = got, parts
		}
	}
}

// heapOf returns what the objects take that make makes.
func heapOf(make func() any) uint64 {
	var with, without runtime.MemStats
	objects := make()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(objects)
	objects = nil
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&without)
	return with.HeapAlloc - without.HeapAlloc
}

// At rest, unstructured objects that share parts take a fraction of those that apimachinery makes.
func TestUnstructuredAtRest(t *testing.T) {
	drop := Config{Drop: []string{"metadata.managedFields"}}
	var texts [][]byte
	for _, pod := range specimen.Pods(400) {
		pod.ManagedFields = nil
		texts = append(texts, both(t, pod)[JSON])
	}
	theirs := heapOf(func() any {
		var all []*unstructured.Unstructured
		for _, raw := range texts {
			all = append(all, untyped(t, raw))
		}
		return all
	})
	ours := heapOf(func() any {
		s := mustNewWith[*unstructured.Unstructured](t, drop).(Sharer[*unstructured.Unstructured])
		var all []*unstructured.Unstructured
		for _, raw := range texts {
			u, _, err := s.DecodeShared(JSON, raw, nil, Parts{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, u)
		}
		return all
	})
	t.Logf("%d bytes a pod, apimachinery's take %d", ours/400, theirs/400)
	if ours*2 > theirs {
		t.Errorf("%d bytes a pod, apimachinery's take %d", ours/400, theirs/400)
	}
}

// The kind that an object without members gets is no other empty object's.
func TestKindOfAnEmptyObject(t *testing.T) {
	d := mustNew[*unstructured.Unstructured](t)
	o := NewObject(Meta{APIVersion: "v1", Kind: "Pod"}, JSON, []byte(`{}`), d)
	if u, _, err := o.DecodeShared(nil, Parts{}); err != nil || u.GetKind() != "Pod" {
		t.Fatalf("%v, %v", u, err)
	}
	for range 2 {
		o := NewObject(Meta{}, JSON, []byte(`{"spec":{"emptyDir":{}}}`), d)
		u, _, err := o.DecodeShared(nil, Parts{})
		if want := map[string]any{"spec": map[string]any{"emptyDir": map[string]any{}}}; err != nil || !reflect.DeepEqual(u.Object, want) {
			t.Errorf("%v, %v, want %v", u, err, want)
		}
	}
}
