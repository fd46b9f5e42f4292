package nodefilter_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/nodefilter"
)

// The selector of a node composes with other conditions and refuses what contradicts it.
func ExampleOnNode() {
	running := fields.ParseSelectorOrDie("status.phase=Running")
	scope, err := nodefilter.OnNode("node-a", running)
	fmt.Println(scope, err)

	_, err = nodefilter.OnNode("node-a", fields.ParseSelectorOrDie("spec.nodeName=node-b"))
	fmt.Println(err)
	// Output:
	// spec.nodeName=node-a,status.phase=Running <nil>
	// nodefilter: the field selector "spec.nodeName=node-b" contradicts the node "node-a": remove its term on spec.nodeName, or name the other node
}

// What a node agent does: keep the pods of its own node.
func ExampleNewPodReflector() {
	srv := listwatchtest.Start(listwatchtest.Config{})
	defer srv.Close()
	for name, node := range map[string]string{"web-0": "node-a", "web-1": "node-b"} {
		err := srv.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeName: node},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	r, err := nodefilter.NewPodReflector(nodefilter.Config{REST: srv.RESTConfig(), Node: "node-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})
	if err := r.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for key, p := range r.Store().All() {
		fmt.Println(key, "on", p.Spec.NodeName)
	}
	cancel()
	wg.Wait()
	// Output:
	// default/web-0 on node-a
}
