package podconfig_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// list is a producer of one's own: it tells what it has and then waits.
type list []*corev1.Pod

func (list) Source() podconfig.Source { return "list" }
func (l list) Status() podconfig.SourceStatus {
	return podconfig.SourceStatus{Seen: true, Pods: len(l)}
}

func (l list) Run(ctx context.Context, tell func(podconfig.Change)) error {
	tell(podconfig.Change{Full: true, Initial: true, Pods: l})
	<-ctx.Done()
	return nil
}

// Updates of all sources come on one channel, until the context of Run ends.
func Example() {
	config, err := podconfig.New(podconfig.Config{Sources: []podconfig.Producer{
		list{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}},
	}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- config.Run(ctx) }()
	for update := range config.Updates() {
		for _, pod := range update.Pods {
			fmt.Println(update.Op, update.Source, pod.Name)
		}
		if update.Initial {
			cancel() // that was all of the source
		}
	}
	fmt.Println(<-done)
	// Output:
	// ADD list web
	// <nil>
}
