package reflector_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// start returns a reflector of the pods of a server that has one, "web", and a
// function that stops both.
func start() (*listwatchtest.Server, *reflector.Reflector[*corev1.Pod], func()) {
	srv := listwatchtest.Start(listwatchtest.Config{})
	must(srv.Create(examplePod("web", "blue")))
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	must(err)
	r, err := reflector.New(reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		Store:         reflector.NewStore(reflector.ByLabel[*corev1.Pod]("color")),
	})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		must(r.Run(ctx))
	}()
	return srv, r, func() {
		cancel()
		<-stopped
		srv.Close()
	}
}

func examplePod(name, color string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"color": color}}}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A subscription begins with what is there, and goes on with what changes.
func ExampleReflector_Events() {
	srv, r, stop := start()
	defer stop()
	for ev := range r.Events(context.Background()) {
		fmt.Println(ev.Type, ev.Key, "initial:", ev.Initial)
		switch ev.Type {
		case reflector.Synced:
			must(srv.Update(examplePod("web", "green")))
		case reflector.Modified:
			fmt.Println(ev.Old.Labels["color"], "to", ev.Object.Labels["color"])
			must(srv.Delete(examplePod("web", "")))
		case reflector.Deleted:
			return // leaving the loop ends the subscription
		}
	}
	// Output:
	// ADDED default/web initial: true
	// SYNCED  initial: true
	// MODIFIED default/web initial: false
	// blue to green
	// DELETED default/web initial: false
}

// A handler that panics is counted and does not stop the others.
func ExampleReflector_Handle() {
	_, r, stop := start()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	err := r.Handle(ctx, reflector.Handler[*corev1.Pod]{
		OnAdd:    func(ev reflector.Event[*corev1.Pod]) { panic("no " + ev.Key.Name) },
		OnSynced: func(reflector.Event[*corev1.Pod]) { cancel() },
	})
	fmt.Println(err, r.Stats().Panics)
	// Output:
	// context canceled 1
}

func ExampleStore_By() {
	_, r, stop := start()
	defer stop()
	must(r.WaitForSync(context.Background()))
	for key, pod := range r.Store().By("label:color", "blue") {
		fmt.Println(key, pod.Labels)
	}
	// Output:
	// default/web map[color:blue]
}
