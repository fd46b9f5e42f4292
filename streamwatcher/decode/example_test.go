package decode_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

const pod = `{"kind":"Pod","apiVersion":"v1",
  "metadata":{"name":"web-0","resourceVersion":"42","managedFields":[{"manager":"kubelet"}]},
  "spec":{"nodeName":"node-a","containers":[{"name":"web","image":"web:1","env":[{"name":"A"}]}]},
  "status":{"phase":"Running"}}`

// A struct with only the fields that a program wants is decoded in both encodings: JSON by its tags,
// protobuf by the numbers that the built-in type has for fields of the same names.
func ExampleNewWith() {
	type slimPod struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	d, err := decode.NewWith[*slimPod](decode.Config{NumbersOf: &corev1.Pod{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Encodings())

	fromJSON, err := d.Decode(decode.JSON, []byte(pod))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fromJSON.Metadata.Name, fromJSON.Spec.NodeName)

	raw, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-b"}}).Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fromProtobuf, err := d.Decode(decode.Protobuf, raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fromProtobuf.Spec.NodeName)
	// Output:
	// [protobuf json]
	// web-0 node-a
	// node-b
}

// Unstructured content is decoded without what is dropped. Arrays are gone through.
func ExampleNewWith_unstructured() {
	d, err := decode.NewWith[*unstructured.Unstructured](decode.Config{
		Drop: []string{"metadata.managedFields", "spec.containers.env", "status"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := d.Decode(decode.JSON, []byte(pod))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.GetKind(), u.Object["metadata"])
	fmt.Println(u.Object["spec"])
	// Output:
	// Pod map[name:web-0 resourceVersion:42]
	// map[containers:[map[image:web:1 name:web]] nodeName:node-a]
}
