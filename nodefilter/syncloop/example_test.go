package syncloop_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
	"github.com/nodewatch-go/nodewatch/nodefilter/syncloop"
)

// printer is a handler that prints.
type printer struct{ done func() }

func (p printer) print(what string, pods []*corev1.Pod) {
	for _, pod := range pods {
		fmt.Println(what, pod.Name)
	}
}

func (p printer) HandlePodAdditions(_ context.Context, pods []*corev1.Pod) { p.print("add", pods) }
func (p printer) HandlePodUpdates(_ context.Context, pods []*corev1.Pod)   { p.print("update", pods) }
func (p printer) HandlePodReconcile(_ context.Context, pods []*corev1.Pod) {
	p.print("reconcile", pods)
}
func (p printer) HandlePodSyncs(_ context.Context, pods []*corev1.Pod) { p.print("sync", pods) }
func (p printer) HandlePodCleanups(context.Context) error              { return nil }
func (p printer) HandlePodRemoves(_ context.Context, pods []*corev1.Pod) {
	p.print("remove", pods)
	p.done()
}

// The updates are those of a podconfig.PodConfig; here they are written by hand.
func Example() {
	updates := make(chan podconfig.PodUpdate, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	loop, err := syncloop.New(syncloop.Config{
		Updates: updates,
		Sources: []podconfig.Source{podconfig.FileSource},
		Handler: printer{done: cancel},
	})
	if err != nil {
		panic(err)
	}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}}
	updates <- podconfig.PodUpdate{Op: podconfig.Add, Source: podconfig.FileSource, Pods: pods, Initial: true}
	updates <- podconfig.PodUpdate{Op: podconfig.Remove, Source: podconfig.FileSource, Pods: pods}
	fmt.Println(loop.Run(ctx))
	// Output:
	// add web
	// remove web
	// <nil>
}
