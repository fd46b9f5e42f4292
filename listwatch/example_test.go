package listwatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// example returns a server with some pods, and a ListerWatcher of them.
func example(c listwatchtest.Config) (*listwatchtest.Server, *listwatch.ListerWatcher[*corev1.Pod]) {
	srv := listwatchtest.New(c)
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		must(srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
	}
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{
		REST:     srv.RESTConfig(),
		Resource: corev1.SchemeGroupVersion.WithResource("pods"),
	})
	must(err)
	return srv, lw
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// printer is a Sink: it sees a list item by item, as it comes.
type printer struct{}

func (printer) Meta(m metav1.ListMeta) error {
	fmt.Println("the list has more pages:", m.Continue != "")
	return nil
}

func (printer) Item(o *decode.Object[*corev1.Pod]) error {
	pod, err := o.Decode() // o.Meta is known without it
	if err == nil {
		fmt.Println(o.Meta.Key(), pod.Status.Phase)
	}
	return err
}

// A list, then a watch from where it ended: two requests, and nothing is retried.
func ExampleListerWatcher() {
	srv, lw := example(listwatchtest.Config{})
	defer srv.Close()
	ctx := context.Background()

	meta, err := lw.List(ctx, metav1.ListOptions{}, printer{})
	must(err)
	stream, err := lw.Watch(ctx, metav1.ListOptions{ResourceVersion: meta.ResourceVersion})
	must(err)
	defer stream.Stop()
	must(srv.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}))
	ev, err := stream.Next()
	must(err)
	fmt.Println(ev.Type, ev.Object.Meta.Key())
	srv.EndWatches()
	_, err = stream.Next()
	fmt.Println(err == io.EOF)
	// Output:
	// the list has more pages: false
	// default/web-0 Pending
	// default/web-1 Pending
	// default/web-2 Pending
	// DELETED default/web-1
	// true
}

func ExamplePages() {
	srv, lw := example(listwatchtest.Config{})
	defer srv.Close()
	_, err := listwatch.Pages(context.Background(), lw, metav1.ListOptions{Limit: 2}, printer{})
	must(err)
	fmt.Println(srv.Requests())
	// Output:
	// the list has more pages: true
	// default/web-0 Pending
	// default/web-1 Pending
	// the list has more pages: false
	// default/web-2 Pending
	// [list pods rv= list pods rv=]
}

// Whatever goes wrong is one type with a reason of a closed set; apimachinery's functions know it, too.
func ExampleError() {
	srv, lw := example(listwatchtest.Config{Authorize: func(listwatchtest.Access) bool { return false }})
	defer srv.Close()
	_, err := lw.List(context.Background(), metav1.ListOptions{}, printer{})
	var failed *listwatch.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Reason, failed.Code, failed.Verb, failed.Resource.Resource)
	}
	fmt.Println(apierrors.IsForbidden(err))
	// Output:
	// forbidden 403 list pods
	// true
}
