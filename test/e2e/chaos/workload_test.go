package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

const namespace = "default"

// markerPrefix begins the names of markers; the workload lets them be.
const markerPrefix = "marker-"

// requestTimeout bounds each write: a stopped server must not stop the workload.
const requestTimeout = 2 * time.Second

// writer is the way to the server that nothing disturbs but the server's own end.
type writer struct{ typedv1.PodInterface }

func newWriter(t *testing.T, s *apiserver.Server) writer {
	t.Helper()
	config := rest.AddUserAgent(s.RESTConfig(apiserver.Admin), "workload")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return writer{set.CoreV1().Pods(namespace)}
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node,
			Containers: []corev1.Container{{Name: "c", Image: "example.org/app:1"}}},
	}
}

// churn changes pods at random, one every pace, until ctx ends. Names are used
// again and again, so a name's pod changes its UID often. What the server
// refuses, or does not answer, is not repeated: the next change is as good.
func (w writer) churn(ctx context.Context, nodes int, pace time.Duration) {
	const writers, names = 4, 6
	var wait sync.WaitGroup
	for n := range writers {
		random := rand.New(rand.NewPCG(20261130, uint64(n)))
		wait.Go(func() {
			tick := time.NewTicker(writers * pace)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				node := random.IntN(nodes)
				name := fmt.Sprintf("pod-%d-%d-%d", node, n, random.IntN(names))
				w.change(ctx, random, name, nodeName(node))
			}
		})
	}
	wait.Wait()
}

// change creates the pod where there is none, and else changes or deletes it.
func (w writer) change(ctx context.Context, random *rand.Rand, name, node string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// Errors are the server's state, see churn.
	switch random.IntN(4) {
	case 0:
		now := int64(0)
		_ = w.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	default:
		pod, err := w.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, _ = w.Create(ctx, newPod(name, node), metav1.CreateOptions{})
			return
		}
		if err != nil {
			return
		}
		pod.Labels = map[string]string{"step": fmt.Sprint(random.Uint32())}
		_, _ = w.Update(ctx, pod, metav1.UpdateOptions{})
	}
}

// mark creates the marker of each node, all at once, each until the server has
// it, and returns when that was, node by node.
func (w writer) mark(ctx context.Context, marker string, nodes []string) (created []time.Time, err error) {
	var wait sync.WaitGroup
	failed := make([]error, len(nodes))
	created = make([]time.Time, len(nodes))
	slots := make(chan struct{}, 16)
	for i, node := range nodes {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			failed[i] = w.insist(ctx, newPod(markerOn(marker, node), node))
			created[i] = time.Now()
		})
	}
	wait.Wait()
	for i, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("create the marker on %s: %w", nodes[i], err)
		}
	}
	return created, nil
}

func markerOn(marker, node string) string { return markerPrefix + marker + "-" + node }

// insist creates a pod, and tries again as long as ctx allows.
func (w writer) insist(ctx context.Context, pod *corev1.Pod) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := w.Create(once, pod, metav1.CreateOptions{})
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// state asks the server for the pods of a node.
func (w writer) state(ctx context.Context, node string) (versions, error) {
	list, err := w.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", node, err)
	}
	state := versions{}
	for i := range list.Items {
		state.set(&list.Items[i])
	}
	return state, nil
}
