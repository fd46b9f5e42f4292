package reflector_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// podsOf returns a reflector of the pods of one namespace.
func podsOf(srv *listwatchtest.Server, namespace string) (*reflector.Reflector[*corev1.Pod], error) {
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{
		REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: namespace,
	})
	if err != nil {
		return nil, err
	}
	return reflector.New(reflector.Config[*corev1.Pod]{
		ListerWatcher: lw, OnStop: lw.Close, Retain: reflector.Retain{For: time.Minute},
	})
}

// runWhile runs c while use runs.
func runWhile(c reflector.Collection[*corev1.Pod], use func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		must(c.Run(ctx))
	}()
	must(c.WaitForSync(ctx))
	use(ctx)
	cancel()
	<-stopped
}

// A subscriber that wants only pods of one color, and when it is behind only what they come to.
func ExampleReflector_Subscribe() {
	srv, r, stop := start()
	defer stop()
	for ev := range r.Subscribe(context.Background(), reflector.Subscription[*corev1.Pod]{
		Name:   "blue",
		Policy: reflector.Resync,
		Where:  func(p *corev1.Pod) bool { return p.Labels["color"] == "blue" },
	}) {
		fmt.Println(ev.Type)
		switch ev.Type {
		case reflector.Synced:
			must(srv.Update(examplePod("web", "green")))
		case reflector.Deleted:
			return // it is there, and not blue any more
		}
	}
	// Output:
	// ADDED
	// SYNCED
	// DELETED
}

// A pod that is gone is still found by its UID for a while.
func ExampleStore_Tombstones() {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	pod := examplePod("web", "blue")
	must(srv.Create(pod))
	r, err := podsOf(srv, "")
	must(err)
	runWhile(r, func(ctx context.Context) {
		must(srv.Delete(pod))
		for ev := range r.Events(ctx) {
			if ev.Type == reflector.Deleted || r.Store().Len() == 0 {
				break
			}
		}
		gone, ok := r.Store().Tombstones().ByUID(pod.UID)
		fmt.Println(ok, gone.Key, gone.Object.Labels["color"])
	})
	// Output: true default/web blue
}

// The pods of two namespaces as one collection.
func ExampleUnion() {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	for _, namespace := range []string{"shop", "mail", "other"} {
		must(srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}))
	}
	union, err := reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{
		Member: func(namespace string) (*reflector.Reflector[*corev1.Pod], error) { return podsOf(srv, namespace) },
	}, "shop", "mail")
	must(err)
	runWhile(union, func(context.Context) {
		_, shop := union.Store().Get("shop", "web")
		_, other := union.Store().Get("other", "web")
		fmt.Println(union.Store().Len(), shop, other)
	})
	// Output: 2 true false
}
