// Command nodewatch is the minimal agent on nodewatch: it prints the pods of one node as they come, change and go.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/nodefilter"
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
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r, err := nodefilter.NewPodReflector(nodefilter.Config{REST: cfg, Node: node, Logger: log})
	if err != nil {
		return err
	}
	go r.Run(ctx)
	for ev := range r.Events(ctx) {
		fmt.Println(ev.Type, ev.Key)
	}
	return nil
}
