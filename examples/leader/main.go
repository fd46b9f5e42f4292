// Command leader works on pods while it is the leader of its replicas. The election is client-go's;
// the reflector runs in all replicas, so that the next leader begins with a full store.
//
// It needs a real cluster: "nodewatch serve" has no leases. Its service account may
//
//   - list and watch pods, in all namespaces (a ClusterRole);
//   - create leases of coordination.k8s.io, and get and update the one named nodewatch-example, in the
//     namespace default (a Role).
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

var errLost = errors.New("another replica leads now, or none")

// run takes part in the election until ctx ends, or until this replica led and does not any more: the
// program exits then, as client-go recommends. lead is called when this replica leads and has the
// pods; it has to return soon after its context has ended.
func run(ctx context.Context, cfg *rest.Config, identity string, lead func(context.Context, reflector.Collection[*corev1.Pod])) error {
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: cfg, Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	if err != nil {
		return err
	}
	pods, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close})
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	turn := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "nodewatch-example"},
			Client:     clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		// ReleaseOnCancel would give the lease up while lead may still be at work. Without it the
		// next one waits until the lease has run out.
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { turn <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	work, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { pods.Run(work) })
	over := make(chan struct{})
	wg.Go(func() {
		defer close(over)
		elector.Run(work)
	})
	select {
	case leading := <-turn:
		if pods.WaitForSync(leading) == nil {
			lead(leading, pods)
		}
	case <-over:
	}
	if ctx.Err() == nil {
		return errLost
	}
	return context.Cause(ctx)
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig, not needed in a cluster")
	flag.Parse()
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	identity, err := os.Hostname() // in a cluster it is the pod's name
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log.Println("stopped:", run(ctx, cfg, identity, func(ctx context.Context, pods reflector.Collection[*corev1.Pod]) {
		for ev := range pods.Events(ctx) {
			log.Println(ev.Type, ev.Key)
		}
	}))
}
