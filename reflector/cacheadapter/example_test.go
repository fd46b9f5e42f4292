package cacheadapter_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/cacheadapter"
)

// pods returns a server with one pod, a ListerWatcher of its pods, and what ends both.
func pods() (*listwatch.ListerWatcher[*corev1.Pod], func()) {
	srv := listwatchtest.New(listwatchtest.Config{})
	must(srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", Labels: map[string]string{"app": "web"}}}))
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	must(err)
	return lw, srv.Close
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// run runs f until the function that it returns is called.
func run(f func(context.Context)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

// client-go's informer, with nodewatch's requests and decoders beneath.
func ExampleListerWatcher() {
	lw, end := pods()
	defer end()
	informer := cache.NewSharedIndexInformer(cacheadapter.NewListerWatcher(lw), &corev1.Pod{}, 0, cache.Indexers{})
	ctx, stop := run(informer.RunWithContext)
	defer stop()
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	fmt.Println(informer.GetStore().ListKeys())
	// Output: [default/web-0]
}

// client-go's generated lister on the store of a nodewatch reflector.
func ExampleIndexer() {
	lw, end := pods()
	defer end()
	r, err := reflector.New(reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		Store:         reflector.NewStore(reflector.ByNamespace[*corev1.Pod]()), // not needed: it makes lister.Pods quicker
	})
	must(err)
	ctx, stop := run(func(ctx context.Context) { must(r.Run(ctx)) })
	defer stop()
	must(r.WaitForSync(ctx))
	lister := corev1listers.NewPodLister(cacheadapter.NewIndexer(r.Store()))
	found, err := lister.Pods("default").List(labels.SelectorFromSet(labels.Set{"app": "web"}))
	must(err)
	for _, pod := range found {
		fmt.Println(pod.Name)
	}
	// Output: web-0
}

// A store of client-go's, kept by a nodewatch reflector.
func ExampleFeed() {
	lw, end := pods()
	defer end()
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw})
	must(err)
	ctx, stop := run(func(ctx context.Context) { must(r.Run(ctx)) })
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	must(r.WaitForSync(ctx))
	stop() // Feed ends when all is delivered
	must(cacheadapter.Feed(context.Background(), r, store))
	fmt.Println(store.ListKeys())
	// Output: [default/web-0]
}
