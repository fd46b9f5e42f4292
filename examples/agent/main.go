// Command agent puts the pod in front of each line of the logs of a node:
//
//	tail -F /var/log/pods/*/*/*.log | agent -node $NODE_NAME
//
// It finds pods by UID, which stands in the path of a log file, those that were deleted for another minute.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodewatch-go/nodewatch/reflector"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig, not needed in a cluster")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg, *node, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run copies lines from in to out until in or ctx ends. A read of in cannot be interrupted: where ctx ends first,
// the goroutine that reads stays until its read returns, and is for the end of the process to end.
func run(ctx context.Context, cfg *rest.Config, node string, in io.Reader, out io.Writer) error {
	pods, err := podsOf(cfg, node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { pods.Run(ctx) })
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}
	copied := make(chan error, 1)
	go func() { copied <- enrich(pods.Store(), in, out) }()
	select {
	case err := <-copied:
		return err
	case <-ctx.Done():
		return nil
	}
}

var (
	// header is what tail writes when the next lines are of another file.
	header = regexp.MustCompile(`^==> (.*) <==$`)
	// podFile is the path of a container's log: NAMESPACE_NAME_UID/CONTAINER/NUMBER.log.
	podFile = regexp.MustCompile(`/[^/_]+_[^/_]+_([^/_]+)/[^/]+/[^/]+$`)
	// named is a UID in the line itself, as the kubelet and container runtimes write it.
	named = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// enrich writes each line with the pod that it is of in front: of the file that tail named last,
// or of the first UID in it that is a pod's.
func enrich(store *reflector.Store[*Pod], in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20) // a line of a container is at most 16 KiB for most runtimes
	var file string
	for lines.Scan() {
		line := lines.Text()
		if m := header.FindStringSubmatch(line); m != nil {
			file = ""
			if m := podFile.FindStringSubmatch(m[1]); m != nil {
				file = m[1]
			}
			continue
		}
		who := "?"
		for _, uid := range append([]string{file}, named.FindAllString(line, -1)...) {
			if p, deleted, ok := find(store, types.UID(uid)); ok {
				who = describe(p, deleted)
				break
			}
		}
		if _, err := fmt.Fprintf(out, "[%s] %s\n", who, line); err != nil {
			return err
		}
	}
	return lines.Err()
}
