package decode

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/internal/testkit"
)

// both returns the two forms of a pod, that of JSON with its kind.
func both(t testing.TB, pod *corev1.Pod) map[Encoding][]byte {
	t.Helper()
	pb, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return map[Encoding][]byte{Protobuf: pb, JSON: text}
}

func mustNewWith[T any](t testing.TB, cfg Config) Decoder[T] {
	t.Helper()
	d, err := NewWith[T](cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// A dropped field is as one that the server did not send.
func TestDrop(t *testing.T) {
	d := mustNewWith[*corev1.Pod](t, Config{Drop: []string{
		"metadata.managedFields", "metadata.annotations[" + lastApplied + "]", "spec.containers.env", "spec.volumes.projected", "status"}})
	whole := mustNew[*corev1.Pod](t)
	for _, pod := range specimen.Pods(20) {
		pod.Annotations[lastApplied] = `{"kind":"Pod","a":"\"]}"}`
		pod.Spec.InitContainers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "stays"}}}}
		for enc, raw := range both(t, pod) {
			want, err := whole.Decode(enc, raw)
			if err != nil {
				t.Fatal(err)
			}
			if want.ManagedFields == nil || len(want.Spec.Volumes) == 0 {
				t.Fatal("the specimen has not what is to be dropped")
			}
			want.ManagedFields = nil
			delete(want.Annotations, lastApplied)
			for i := range want.Spec.Containers {
				want.Spec.Containers[i].Env = nil
			}
			for i := range want.Spec.Volumes {
				want.Spec.Volumes[i].Projected = nil
			}
			want.Status = corev1.PodStatus{}
			got, err := d.Decode(enc, raw)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: %v (-want +got)\n%s", enc, err, cmp.Diff(want, got))
			}
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.managedfields": `no field "managedfields"`,
		"":                       "a name is missing",
		"spec..nodeName":         "a name is missing",
		"spec.":                  "a name is missing",
		"spec.nodeName.x":        "has no fields",
		"spec.nodeName[x]":       "is no map",
		"metadata.labels[x":      "in brackets and at the end",
		"metadata.labels[x].y":   "in brackets and at the end",
		"metadata.labels.x":      "has no fields",
		"status.startTime.Time":  "has no fields",
	} {
		_, err := NewWith[*corev1.Pod](Config{Drop: []string{"spec.containers", path}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"`+path+`"`) {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
	if _, err := NewWith[*explosive](Config{Drop: []string{"kind"}}); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("a path in a type that reads itself: %v", err)
	}
	for want, cfg := range map[string]Config{"Intern is -1": {Intern: -1}, "Share is -2": {Share: -2}, "should be 0 to 4194304": {Intern: 1<<22 + 1}, "should be -1 to 4194304": {Share: 1<<22 + 1}} {
		if _, err := NewWith[*corev1.Pod](cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", cfg, err, want)
		}
	}
	if _, err := NewWith[*corev1.Pod](Config{NumbersOf: corev1.Pod{}}); err == nil || !strings.Contains(err.Error(), "pointer to a struct") {
		t.Errorf("NumbersOf a struct: %v", err)
	}
	if _, err := NewWith[*slimPod](Config{NumbersOf: &corev1.Node{}}); err == nil || !strings.Contains(err.Error(), "nodeName") {
		t.Errorf("NumbersOf another kind: %v", err)
	}
}

// slimPod has what an agent wants of a pod, with the tags of JSON only. The claim
// is a field of VolumeSource, which is a message of its own in protobuf.
type slimPod struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Created         metav1.Time       `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Name      string                      `json:"name"`
			Resources corev1.ResourceRequirements `json:"resources"`
		} `json:"containers"`
		Volumes []struct {
			Name   string `json:"name"`
			Secret *struct {
				SecretName string `json:"secretName"`
			} `json:"secret"`
			Projected *struct{} `json:"projected"`
		} `json:"volumes"`
		Grace int64 `json:"terminationGracePeriodSeconds"` // a pointer in corev1
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// taggedPod is a slim struct with the tags of both encodings.
type taggedPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec              struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A slim struct is in both encodings what encoding/json makes of it.
func TestSlimStructsInBothEncodings(t *testing.T) {
	slim := mustNewWith[*slimPod](t, Config{NumbersOf: &corev1.Pod{}})
	tagged := mustNewWith[*taggedPod](t, Config{Drop: []string{"metadata.managedFields"}})
	for _, encodings := range [][]Encoding{slim.Encodings(), tagged.Encodings()} {
		if want := []Encoding{Protobuf, JSON}; !reflect.DeepEqual(encodings, want) {
			t.Fatalf("Encodings() = %v, want %v", encodings, want)
		}
	}
	for _, pod := range specimen.Pods(20) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "it"}}})
		forms := both(t, pod)
		var wantSlim slimPod
		var wantTagged taggedPod
		if err := json.Unmarshal(forms[JSON], &wantSlim); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(forms[JSON], &wantTagged); err != nil {
			t.Fatal(err)
		}
		wantSlim.TypeMeta, wantTagged.TypeMeta, wantTagged.ManagedFields = metav1.TypeMeta{}, metav1.TypeMeta{}, nil
		if wantSlim.Spec.NodeName == "" || wantSlim.Metadata.Labels == nil || wantSlim.Spec.Grace == 0 {
			t.Fatal("the specimen does not have the fields")
		}
		for enc, raw := range forms {
			if got, err := slim.Decode(enc, raw); err != nil || !reflect.DeepEqual(got, &wantSlim) {
				t.Fatalf("slim, %v: %v\n%s", enc, err, cmp.Diff(&wantSlim, got))
			}
			if got, err := tagged.Decode(enc, raw); err != nil || !reflect.DeepEqual(got, &wantTagged) {
				t.Fatalf("tagged, %v: %v\n%s", enc, err, cmp.Diff(&wantTagged, got))
			}
		}
	}
}

// Strings of one object are in one buffer of their size: what is allocated for an
// object is little more than its structs and its text.
func TestAllocations(t *testing.T) {
	pod := specimen.Pods(1)[0]
	d := mustNewWith[*corev1.Pod](t, Config{Drop: []string{"metadata.managedFields"}})
	slim := mustNewWith[*slimPod](t, Config{NumbersOf: &corev1.Pod{}})
	copying := testkit.Allocations(func() { pod.DeepCopy() })
	for enc, raw := range both(t, pod) {
		decode := func() {
			if _, err := d.Decode(enc, raw); err != nil {
				t.Fatal(err)
			}
		}
		// Of DeepCopy, which also copies the managed fields but has no text to copy, about half.
		if n := testkit.Allocations(decode); n > copying*2/3 || n > 60 {
			t.Errorf("%v: %.0f allocations a pod, DeepCopy makes %.0f", enc, n, copying)
		}
		if n := testkit.Allocations(func() { _, _ = slim.Decode(enc, raw) }); n > 18 {
			t.Errorf("%v: %.0f allocations a slim pod", enc, n)
		}
	}
}

// Interned strings are one string, and objects are the same as without.
func TestIntern(t *testing.T) {
	d := mustNewWith[*corev1.Pod](t, Config{Intern: 4096})
	plain := mustNew[*corev1.Pod](t)
	var last [2]*corev1.Pod
	for _, pod := range specimen.Pods(50) {
		for enc, raw := range both(t, pod) {
			want, err := plain.Decode(enc, raw)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Decode(enc, raw)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: %v\n%s", enc, err, cmp.Diff(want, got))
			}
			last[0], last[1] = last[1], got
		}
	}
	// Two strings may take turns in one place, so not all are one; nearly all are.
	first := map[string]*byte{}
	eachString(reflect.ValueOf(last[0]), func(s string) { first[s] = unsafe.StringData(s) })
	same, other := 0, 0
	eachString(reflect.ValueOf(last[1]), func(s string) {
		if at, ok := first[s]; ok && at == unsafe.StringData(s) {
			same++
		} else if ok {
			other++
		}
	})
	if same < 50 || other > same/5 {
		t.Errorf("%d strings are one with those of another pod, %d are not", same, other)
	}
	// The last of two counts, also where the first is new and the second known.
	for _, text := range []string{`{"spec":{"nodeName":"new-1","nodeName":"KNOWN"}}`, `{"spec":{"nodeName":"KNOWN"}}`} {
		text = strings.Replace(text, "KNOWN", last[0].Spec.NodeName, 1)
		if p, err := d.Decode(JSON, []byte(text)); err != nil || p.Spec.NodeName != last[0].Spec.NodeName {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
}

// eachString calls f with the strings in v that are not empty, map keys aside.
func eachString(v reflect.Value, f func(string)) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			f(v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			eachString(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachString(v.Index(i), f)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			eachString(v.MapIndex(key), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachString(v.Field(i), f)
		}
	}
}
