package listwatchtest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func Example() {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"},
		Spec:       corev1.PodSpec{NodeName: "node-a"},
	}
	if err := srv.Create(pod); err != nil {
		panic(err)
	}

	// Any client of Kubernetes can be given the server's RESTConfig.
	clientset, err := kubernetes.NewForConfig(srv.RESTConfig())
	if err != nil {
		panic(err)
	}
	w, err := clientset.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-a"})
	if err != nil {
		panic(err)
	}
	defer w.Stop()
	show := func() {
		ev := <-w.ResultChan()
		p := ev.Object.(*corev1.Pod)
		fmt.Println(ev.Type, p.Name, p.Status.Phase)
	}

	show()
	pod.Status.Phase = corev1.PodRunning
	if err := srv.UpdateStatus(pod); err != nil {
		panic(err)
	}
	show()
	if err := srv.Delete(pod); err != nil {
		panic(err)
	}
	show()
	fmt.Println(srv.Requests()[0])
	// Output:
	// ADDED web-0 Pending
	// MODIFIED web-0 Running
	// DELETED web-0 Running
	// watch pods rv=
}
