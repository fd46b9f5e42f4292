package streamwatcher_test

import (
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// The body of a watch: an event a line, the last one of an object that is no pod's.
const body = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","resourceVersion":"7"},"spec":{"nodeName":"node-a"}}}
{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}
{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"odd","resourceVersion":"10"},"spec":{"nodeName":42}}}
`

// A body becomes events. The metadata of each is known at once, the object is decoded when it is asked for; one
// that does not decode costs itself only.
func ExampleStreamWatcher() {
	decoder, err := decode.New[*corev1.Pod]()
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := streamwatcher.New(streamwatcher.Config[*corev1.Pod]{
		Body:        io.NopCloser(strings.NewReader(body)),
		ContentType: "application/json",
		Decoder:     decoder,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Stop()
	for {
		ev, err := stream.Next()
		if err == io.EOF {
			fmt.Println("the end")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(ev.Type, " ", ev.Object.Meta.Name, "@", ev.Object.Meta.ResourceVersion)
		if ev.Type == "ADDED" {
			pod, err := ev.Object.Decode()
			if err == nil {
				fmt.Print(" on ", pod.Spec.NodeName)
			} else {
				fmt.Print(" is set aside")
			}
		}
		fmt.Println()
	}
	// Output:
	// ADDED web-0@7 on node-a
	// BOOKMARK @9
	// ADDED odd@10 is set aside
	// the end
}
