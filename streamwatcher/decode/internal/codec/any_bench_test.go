package codec

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// creater makes what client-go's dynamic client makes for every kind.
type creater struct{}

func (creater) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{}, nil
}

// dynamic returns the decoder of client-go's dynamic client.
func dynamic() runtime.Decoder {
	return serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, creater{}, unstructuredscheme.NewUnstructuredObjectTyper(), serializer.SerializerOptions{})
}

// versions returns the text of pods as they are, and after an update by their kubelets.
func versions(t testing.TB, pods []*corev1.Pod) (v [2][][]byte) {
	t.Helper()
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.APIVersion, pod.Kind = "v1", "Pod"
		for i := range v {
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			v[i] = append(v[i], raw)
			now := metav1.NewTime(time.Unix(1.8e9, 0))
			pod.ResourceVersion += "1"
			pod.ManagedFields[len(pod.ManagedFields)-1].Time = &now
			pod.Status.Conditions[0].LastTransitionTime = now
			pod.Status.ContainerStatuses[0].RestartCount++
		}
	}
	return v
}

// BenchmarkAny reads pods as unstructured content: by apimachinery's scheme for it, by client-go's
// dynamic client, and here.
func BenchmarkAny(b *testing.B) {
	live := specimen.Pods(5000)
	pods := versions(b, live[:500])
	run := func(name string, f func(k int, raw []byte) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(pods[0][0])))
			for i := 0; b.Loop(); i++ {
				k := i % len(pods[0])
				if err := f(k, pods[i/len(pods[0])%2][k]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	decoder := dynamic()
	run("scheme", func(_ int, raw []byte) error {
		_, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
		return err
	})
	run("dynamic", func(_ int, raw []byte) error { _, _, err := decoder.Decode(raw, nil, nil); return err })
	for _, drop := range [][]string{nil, {"metadata.managedFields"}} {
		name := "whole"
		if drop != nil {
			name = "nomf"
		}
		a := mustAny(b, Config{Drop: drop, Share: 16384})
		run(name+"/private", func(_ int, raw []byte) error { _, err := a.JSON(raw); return err })
		run(name+"/shared", func(_ int, raw []byte) error { _, _, err := a.JSONShared(raw, nil, nil); return err })
		old, was := make([]map[string]any, len(pods[0])), make([]Parts, len(pods[0]))
		run(name+"/update", func(k int, raw []byte) (err error) {
			old[k], was[k], err = a.JSONShared(raw, old[k], was[k])
			return err
		})
	}
	sink = live
}
