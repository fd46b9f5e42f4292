package listwatchtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
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

// A client-go informer against a server that resets its connection: it goes on
// where it was.
func ExampleServer_Play() {
	script, err := listwatchtest.ParseScript("resume", []byte(`
> WATCHLIST rv=
< ADDED web-0@90 web-1@91
< MARK 100
< DELETED web-0@110
< RST
> WATCH rv=110
< ADDED web-2@120
< hold
store web-1@91 web-2@120
`))
	if err != nil {
		panic(err)
	}
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	play := srv.Play(script)

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	clientset, err := kubernetes.NewForConfig(srv.RESTConfig())
	if err != nil {
		panic(err)
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	pods := factory.Core().V1().Pods().Informer()
	defer factory.Shutdown() // after cancel
	defer cancel()
	factory.Start(ctx.Done())
	if err := play.Wait(ctx); err != nil {
		fmt.Printf("%v\n%s\n", err, play.Transcript())
	}

	for _, want := range script.Wants {
		var stored string
		for ctx.Err() == nil && stored != want.Text { // what was sent has yet to be stored
			var list []string
			for _, obj := range pods.GetStore().List() {
				list = append(list, listwatchtest.Notation(obj.(*corev1.Pod)))
			}
			slices.Sort(list)
			stored = strings.Join(list, " ")
			time.Sleep(time.Millisecond)
		}
		fmt.Println(want.Word, stored)
	}
	// Output: store web-1@91 web-2@120
}

// What is wrong with a script is said with file and line.
func ExampleParseScript() {
	_, err := listwatchtest.ParseScript("typo.txt", []byte(`
> LIST rv=
< list 100 web-0
> WATCH rv=100 after=2s..1s
< hodl
`))
	fmt.Println(err)
	// Output:
	// typo.txt:3: web-0: no name or no @: write [KIND:][NAMESPACE/]NAME@RV[/UID][!][+BYTES][=PHASE]
	// typo.txt:4: after=2s..1s: 2s is more than 1s
	// typo.txt:5: hodl is no answer
}
