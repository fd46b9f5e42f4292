package mutationtest

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestDifference(t *testing.T) {
	limit := resource.MustParse("1Gi")
	full := func() *corev1.Pod {
		p := pod("a")
		p.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": limit}
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
		return p
	}
	for _, tc := range []struct {
		name  string
		write func(*corev1.Pod)
		want  string // path: was > is
	}{
		{"nothing", func(*corev1.Pod) {}, ""},
		{"an element of a slice", func(p *corev1.Pod) { p.Spec.Containers[0].Env[1].Value = "3" }, `spec.containers[0].env[1].value: "2" > "3"`},
		{"one more", func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"x"} }, "spec.containers[0].args: [] > [x]"},
		{"a key less", func(p *corev1.Pod) { delete(p.Labels, "tier") }, `metadata.labels[tier]: "front" > absent`},
		{"a key more", func(p *corev1.Pod) { p.Labels["new"] = "x" }, `metadata.labels[new]: absent > "x"`},
		{"behind a pointer", func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 30 }, "spec.terminationGracePeriodSeconds: 0 > 30"},
		{"the kind", func(p *corev1.Pod) { p.Kind = "Pod" }, `kind: "" > "Pod"`},
		{"a slice that is sorted", func(p *corev1.Pod) {
			env := p.Spec.Containers[0].Env
			env[0], env[1] = env[1], env[0]
		}, `spec.containers[0].env[0].name: "A" > "B"`},
		{"a time", func(p *corev1.Pod) { p.CreationTimestamp.Time = time.Unix(1001, 0).UTC() },
			"metadata.creationTimestamp: 1970-01-01 00:16:40 +0000 UTC > 1970-01-01 00:16:41 +0000 UTC"},
		{"a quantity", func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir.SizeLimit.Add(limit) },
			"spec.volumes[0].emptyDir.sizeLimit.i.value: 1073741824 > 2147483648"},
		{"a pointer that is taken away", func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir = nil }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := full()
			was := p.DeepCopy()
			was.CreationTimestamp.Time = was.CreationTimestamp.UTC()
			tc.write(p)
			m, found := difference(reflect.ValueOf(was), reflect.ValueOf(p))
			got := ""
			if found {
				got = m.Path + ": " + m.Was + " > " + m.Is
			}
			if tc.name == "a pointer that is taken away" {
				if !found || m.Path != "spec.volumes[0].emptyDir" {
					t.Errorf("got %s", got)
				}
				return
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestDifferenceOfUnstructured(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": []any{"a", int64(1)}}}}
	was := u.DeepCopyObject()
	same := func() (Mutation, bool) { return difference(reflect.ValueOf(was), reflect.ValueOf(runtime.Object(u))) }
	if m, found := same(); found {
		t.Errorf("a copy differs: %+v", m)
	}
	u.Object["spec"].(map[string]any)["list"].([]any)[1] = "b"
	if m, found := same(); !found || m.Path != "Object[spec][list][1]" || m.Was != "1" || m.Is != `"b"` {
		t.Errorf("found %t: %+v", found, m)
	}
}
