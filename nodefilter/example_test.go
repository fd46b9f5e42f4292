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
	"github.com/nodewatch-go/nodewatch/reflector"
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

// The pods of a set of nodes that changes, as one collection.
func ExampleNewNodes() {
	srv := listwatchtest.Start(listwatchtest.Config{})
	defer srv.Close()
	for name, node := range map[string]string{"web-0": "node-a", "web-1": "node-b", "web-2": "node-c"} {
		err := srv.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeName: node},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	pods, err := nodefilter.NewNodes(nodefilter.NodesConfig{
		Config: nodefilter.Config{REST: srv.RESTConfig()},
		Nodes:  []string{"node-a", "node-b"},
		Store:  reflector.NewStore(nodefilter.ByNode()),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := pods.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})
	for _, nodes := range [][]string{{"node-a", "node-b"}, {"node-b", "node-c"}} {
		if err := pods.SetNodes(nodes...); err != nil {
			fmt.Println(err)
		}
		if err := pods.WaitForSync(ctx); err != nil {
			fmt.Println(err)
		}
		for _, node := range nodes {
			for key := range pods.Store().By(nodefilter.NodeIndex, node) {
				fmt.Println(key, "on", node)
			}
		}
		fmt.Println(pods.Store().Len(), "pods of", len(pods.Status().Members), "nodes")
	}
	cancel()
	wg.Wait()
	// Output:
	// default/web-0 on node-a
	// default/web-1 on node-b
	// 2 pods of 2 nodes
	// default/web-1 on node-b
	// default/web-2 on node-c
	// 2 pods of 2 nodes
}
