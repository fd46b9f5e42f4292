// Command controller does with nodewatch what client-go's workqueue example does.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// run reconciles each pod that is there, changes or goes (it is nil then) until ctx ends, and returns why that was.
func run(ctx context.Context, pods reflector.Collection[*corev1.Pod], reconcile func(decode.Key, *corev1.Pod) error) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[decode.Key]())
	context.AfterFunc(ctx, queue.ShutDown)
	queue.Add(decode.Key{Namespace: "default", Name: "mypod"}) // we knew it on our last run; it may be gone
	enqueue := func(ev reflector.Event[*corev1.Pod]) { queue.Add(ev.Key) }
	go pods.Handle(ctx, reflector.Handler[*corev1.Pod]{OnAdd: enqueue, OnUpdate: enqueue, OnDelete: enqueue})
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}
	for key, quit := queue.Get(); !quit; key, quit = queue.Get() { // as many goroutines as there are to be workers
		pod, _ := pods.Store().Get(key.Namespace, key.Name)
		if err := reconcile(key, pod); err == nil || queue.NumRequeues(key) >= 5 {
			queue.Forget(key)
		} else {
			queue.AddRateLimited(key)
		}
		queue.Done(key)
	}
	return context.Cause(ctx)
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig, not needed in a cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg := must(clientcmd.BuildConfigFromFlags("", *kubeconfig))
	lw := must(listwatch.New[*corev1.Pod](listwatch.Config{REST: cfg, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default"}))
	pods := must(reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close}))
	go pods.Run(ctx)
	log.Println("stopped:", run(ctx, pods, func(key decode.Key, _ *corev1.Pod) error { return log.Output(1, "reconcile "+key.String()) }))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
