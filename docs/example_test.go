package docs

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// README.md shows this function.
func watchNode(ctx context.Context, cfg *rest.Config, node string, handle func(reflector.Event[*corev1.Pod])) error {
	r, err := nodefilter.NewPodReflector(nodefilter.Config{REST: cfg, Node: node, Logger: slog.Default()})
	if err != nil {
		return err
	}
	go r.Run(ctx)
	if err := r.WaitForSync(ctx); err != nil {
		return err // errors.As finds the *listwatch.Error with its Reason
	}
	for ev := range r.Events(ctx) { // the snapshot, reflector.Synced without an object, then every change
		handle(ev) // ev.Object is shared: copy it before you change it
	}
	return nil
}

func Example() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	srv := listwatchtest.Start(listwatchtest.Config{})
	defer srv.Close()
	for name, node := range map[string]string{"web-0": "node-a", "web-1": "node-b"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		if err := srv.Create(pod); err != nil {
			fmt.Println(err)
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := watchNode(ctx, srv.RESTConfig(), "node-a", func(ev reflector.Event[*corev1.Pod]) {
		if ev.Type == reflector.Synced {
			fmt.Println("that is all for now")
			cancel()
			return
		}
		fmt.Println(ev.Type, ev.Key)
	})
	fmt.Println("error:", err)
	// Output:
	// ADDED default/web-0
	// that is all for now
	// error: <nil>
}
