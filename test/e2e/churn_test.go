package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// churnSeed makes each run the same choices; how they interleave is the
// machine's choice.
const churnSeed = 20261130

// A disturbance happens to the server while pods change.
type disturbance struct {
	after int // that many changes
	what  string
	do    func(context.Context, target) error
}

// crashes are what the issue asks to survive: compaction, and the server killed
// and started again, twice.
func crashes() []disturbance {
	restart := func(ctx context.Context, tg target) error {
		tg.Kill()
		return tg.Restart(ctx)
	}
	compact := func(ctx context.Context, tg target) error { return tg.Compact(ctx) }
	return []disturbance{
		{200, "compact", compact},
		{400, "kill and restart", restart},
		{600, "compact", compact},
		{700, "kill and restart", restart},
		{800, "compact", compact},
	}
}

// churn makes changes random changes to the pods of namespace "churn" on
// node-0 to node-9, eight at a time, while disturbances happen, and returns
// when all are done.
func churn(ctx context.Context, t *testing.T, tg target, changes int, disturbances []disturbance) {
	t.Helper()
	admin := clientset(t, tg, apiserver.Admin)
	if _, err := admin.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "churn"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	due := make([]chan struct{}, len(disturbances))
	for i := range due {
		due[i] = make(chan struct{})
	}
	var done atomic.Int64
	var wait sync.WaitGroup
	numbers := make(chan int)
	for worker := range 8 {
		wait.Go(func() {
			// One connection pool for each worker: a crash cuts them all.
			c := changer{
				pods:   clientset(t, tg, apiserver.Admin).CoreV1().Pods("churn"),
				random: rand.New(rand.NewPCG(churnSeed, uint64(worker))),
				worker: worker,
			}
			for range numbers {
				if err := c.change(ctx); err != nil {
					t.Errorf("change a pod: %v", err)
				}
				n := int(done.Add(1))
				for i, d := range disturbances {
					if d.after == n {
						close(due[i])
					}
				}
			}
		})
	}
	wait.Go(func() {
		for i, d := range disturbances {
			select {
			case <-due[i]:
			case <-ctx.Done():
				return
			}
			phase("%s: %s after %d changes", t.Name(), d.what, d.after)
			if err := d.do(ctx, tg); err != nil {
				t.Errorf("%s: %v", d.what, err)
			}
		}
	})
	for i := range changes {
		numbers <- i
	}
	close(numbers)
	wait.Wait()
}

// A changer changes pods of its own, so that two never compete for one.
type changer struct {
	pods   typedv1.PodInterface
	random *rand.Rand
	worker int
	names  []string // of the pods there are
	made   int
}

// change makes one random change. An answer that was lost with the server is
// asked for again until there is one.
func (c *changer) change(ctx context.Context) error {
	kind := c.random.IntN(10)
	if len(c.names) < 5 || kind < 3 && len(c.names) < 40 {
		return c.create(ctx)
	}
	i := c.random.IntN(len(c.names))
	name := c.names[i]
	switch kind {
	case 0, 3, 4, 5:
		return c.update(ctx, name, func(p *corev1.Pod) { p.Labels = map[string]string{"step": fmt.Sprint(c.random.Uint32())} })
	case 1, 6, 7:
		return c.updateStatus(ctx, name)
	case 8: // as a user does, and then as the kubelet does
		if err := c.remove(ctx, name, 30); err != nil {
			return err
		}
	}
	c.names = append(c.names[:i], c.names[i+1:]...)
	return c.remove(ctx, name, 0)
}

func (c *changer) create(ctx context.Context) error {
	// Names come back after a while, with another UID.
	name := fmt.Sprintf("pod-%d-%d", c.worker, c.made%30)
	c.made++
	for _, have := range c.names {
		if have == name {
			return nil
		}
	}
	pod := newPod("churn", name, fmt.Sprintf("node-%d", c.random.IntN(10)), map[string]string{"app": "churn"})
	err := persist(ctx, func() error {
		_, err := c.pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	c.names = append(c.names, name)
	return nil
}

func (c *changer) update(ctx context.Context, name string, change func(*corev1.Pod)) error {
	return persist(ctx, func() error {
		pod, err := c.pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(pod)
		_, err = c.pods.Update(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func (c *changer) updateStatus(ctx context.Context, name string) error {
	return persist(ctx, func() error {
		pod, err := c.pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Message = fmt.Sprint(c.random.Uint32())
		_, err = c.pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func (c *changer) remove(ctx context.Context, name string, grace int64) error {
	err := persist(ctx, func() error {
		return c.pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	})
	if apierrors.IsNotFound(err) { // an answer was lost
		return nil
	}
	return err
}

// persist repeats a request that the server did not answer, or answered while
// it was starting, for as long as a restart may take.
func persist(ctx context.Context, request func() error) error {
	ctx, cancel := context.WithTimeout(ctx, convergence)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := retry.RetryOnConflict(retry.DefaultRetry, request)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err):
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// populate makes pods on nodes node-000…, spread over five namespaces, as
// quickly as the server takes them.
func populate(ctx context.Context, t *testing.T, tg target, pods, nodes int) {
	t.Helper()
	config := tg.RESTConfig(apiserver.Admin)
	config.ContentType = mediaProtobuf
	config.AcceptContentTypes = mediaProtobuf
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "populate"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%d", i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var wait sync.WaitGroup
	numbers := make(chan int)
	for range 16 {
		wait.Go(func() {
			for i := range numbers {
				pod := newPod(fmt.Sprintf("team-%d", i%5), fmt.Sprintf("app-%05d", i*7919%pods),
					fmt.Sprintf("node-%03d", i%nodes), map[string]string{"app": fmt.Sprint("app-", i%7)})
				if _, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					t.Errorf("create pod %d: %v", i, err)
				}
			}
		})
	}
	for i := range pods {
		numbers <- i
	}
	close(numbers)
	wait.Wait()
}
