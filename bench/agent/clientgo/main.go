// Command clientgo is the minimal agent on client-go's informers: it prints the pods of one node as they come, change and go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	server := flag.String("server", "", "`URL` of the API server; empty is the one of the cluster that this runs in")
	ca := flag.String("ca", "", "PEM `file` of the server's authority, with -server")
	node := flag.String("node", "", "`name` of the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *ca, *node); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, ca, node string) error {
	cfg := &rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{CAFile: ca}}
	if server == "" {
		var err error
		if cfg, err = rest.InClusterConfig(); err != nil {
			return err
		}
	}
	cfg.ContentType = runtime.ContentTypeProtobuf // as nodewatch asks for
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(opts *metav1.ListOptions) {
		opts.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}))
	show := func(what string) func(any) {
		return func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				fmt.Println(what, key)
			}
		}
	}
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    show("ADDED"),
		UpdateFunc: func(_, obj any) { show("MODIFIED")(obj) },
		DeleteFunc: show("DELETED"),
	})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}
