package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// A world is a target with objects in a known state, and the values that the
// rows of a table call by name.
type world struct {
	target
	client *kubernetes.Clientset // of Admin
	// namespace is the row's own where it has one. It is written "NS" in records.
	namespace string
	// values are what {name} stands for in a row's path, query and body. Those
	// that are resourceVersions of the past are also recognised in answers.
	values map[string]string
	// head is the resourceVersion after the last write of the setup.
	head uint64
}

func newWorld(t *testing.T, tg target) *world {
	return &world{target: tg, client: clientset(t, tg, apiserver.Admin), values: map[string]string{}}
}

// inNamespace returns a copy with a fresh namespace of its own.
func (w *world) inNamespace(ctx context.Context, t *testing.T, name string) *world {
	t.Helper()
	ns, err := w.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	own := &world{target: w.target, client: w.client, namespace: name, values: map[string]string{"ns": name}}
	own.mark("before", ns.ResourceVersion)
	return own
}

// settle waits until the server's cache of pods has come to the head. A read at
// resourceVersion 0, or one not older than some moment, may be of the past before.
func (w *world) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := w.client.CoreV1().Pods(w.namespace).List(ctx,
		metav1.ListOptions{ResourceVersion: strconv.FormatUint(w.head, 10)})
	if err != nil {
		t.Fatalf("wait for the cache: %v", err)
	}
}

// mark names a resourceVersion and makes it the head.
func (w *world) mark(name, rv string) {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		panic("a server made the resourceVersion " + rv)
	}
	w.values[name] = rv
	w.head = n
	w.values["future"] = strconv.FormatUint(n+1_000_000, 10)
}

// expand replaces {name} by the value of that name.
func (w *world) expand(s string) string {
	for name, value := range w.values {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return s
}

// version puts a resourceVersion of an answer into words that are the same for
// every server: a name given by mark, "now" from the head on, or "old".
func (w *world) version(rv, asked string) string {
	n, err := strconv.ParseUint(rv, 10, 64)
	switch {
	case rv == "" || rv == "0":
		return strconv.Quote(rv)
	case err != nil:
		return "garbage"
	case rv == w.values["future"]:
		return "future"
	case n >= w.head:
		return "now"
	case rv == asked:
		return "asked"
	}
	for name, value := range w.values {
		if value == rv {
			return name
		}
	}
	return "old"
}

// newPod returns a pod that needs no controller.
func newPod(namespace, name, node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/app:1"}},
		},
	}
}

// create makes a pod and, where mark is not empty, names its resourceVersion.
func (w *world) create(ctx context.Context, t *testing.T, mark string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	got, err := w.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	if mark != "" {
		w.mark(mark, got.ResourceVersion)
	}
	return got
}

// relabel sets a pod's labels.
func (w *world) relabel(ctx context.Context, t *testing.T, namespace, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	pods := w.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Labels = labels
	if pod, err = pods.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("relabel pod %s/%s: %v", namespace, name, err)
	}
	return pod
}

// setPhase writes a pod's status as a kubelet does.
func (w *world) setPhase(ctx context.Context, t *testing.T, namespace, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	pods := w.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = phase
	if phase != corev1.PodPending {
		pod.Status.PodIP = "10.0.0.7"
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.7"}}
	}
	if pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("set the phase of pod %s/%s: %v", namespace, name, err)
	}
	return pod
}

// remove deletes a pod with a grace period in seconds.
func (w *world) remove(ctx context.Context, t *testing.T, namespace, name string, grace int64) {
	t.Helper()
	err := w.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil {
		t.Fatalf("delete pod %s/%s: %v", namespace, name, err)
	}
}

// smallCluster makes a handful of pods on two nodes in two namespaces, names
// three moments {first}, {mid} and {head}, and adds a namespace with enough
// bytes that a list of it is worth compressing.
func smallCluster(ctx context.Context, t *testing.T, tg target) *world {
	t.Helper()
	w := newWorld(t, tg)
	for _, name := range []string{"other", "big"} {
		_, err := w.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		pod := newPod("big", fmt.Sprintf("big-%d", i), "node-c", nil)
		pod.Annotations = map[string]string{"text": strings.Repeat("all work and no play ", 2500)}
		w.create(ctx, t, "", pod)
	}
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db", "tier": "back"}
	w.create(ctx, t, "first", newPod("default", "alpha", "node-a", web))
	w.create(ctx, t, "", newPod("default", "beta", "node-a", db))
	w.create(ctx, t, "mid", newPod("default", "gamma", "node-b", web))
	w.create(ctx, t, "", newPod("other", "delta", "node-a", web))
	w.create(ctx, t, "", newPod("other", "unbound", "", nil))
	w.setPhase(ctx, t, "default", "alpha", corev1.PodRunning)
	w.setPhase(ctx, t, "default", "gamma", corev1.PodSucceeded)
	w.mark("head", w.relabel(ctx, t, "default", "beta", map[string]string{"app": "db", "tier": "front"}).ResourceVersion)
	return w
}

// unfinalize drops a pod's finalizers, which ends it when it is deleted.
func (w *world) unfinalize(ctx context.Context, t *testing.T, namespace, name string) {
	t.Helper()
	pods := w.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Finalizers = nil
	if _, err := pods.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("drop the finalizers of pod %s/%s: %v", namespace, name, err)
	}
}

// bind puts a pod on a node as the scheduler does.
func (w *world) bind(ctx context.Context, t *testing.T, namespace, name, node string) {
	t.Helper()
	err := w.client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("bind pod %s/%s: %v", namespace, name, err)
	}
}
