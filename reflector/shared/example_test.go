package shared_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector/shared"
)

// Two parts of a program need the pods of one application, and do not know of each other.
func ExamplePool() {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	for _, name := range []string{"web-0", "web-1"} {
		if err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}}); err != nil {
			panic(err)
		}
	}

	pool, err := shared.New(shared.Config[*corev1.Pod]{REST: srv.RESTConfig()})
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	podNames := func(ctx context.Context, selector string) []string {
		s, err := labels.Parse(selector)
		if err != nil {
			panic(err)
		}
		lease, err := pool.Acquire(ctx, shared.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods"), LabelSelector: s})
		if err != nil {
			panic(err)
		}
		// Each keeps its lease for as long as it needs it: here up to the end of ctx.
		if err := lease.WaitForSync(ctx); err != nil {
			panic(err)
		}
		var names []string
		for key := range lease.Store().All() {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		return names
	}
	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println(podNames(ctx, "app=web"), podNames(ctx, "app in (web)"))
	fmt.Println("watches:", pool.Len())
	cancel()
	// Output:
	// [web-0 web-1] [web-0 web-1]
	// watches: 1
}
