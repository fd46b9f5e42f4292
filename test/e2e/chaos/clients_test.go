package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// A client keeps the pods of one node.
type client struct {
	node   string
	ledger *ledger
	stored func() versions
	// restarts is how nodewatch's attempts ended; nil for client-go.
	restarts func() map[reason.Reason]uint64
}

// options is how clients are made. The zero one is what users get who set nothing.
type options struct {
	protocol listwatch.Protocol // of nodewatch's
	http1    bool               // forces client-go's to HTTP/1.1
	idle     time.Duration      // nodewatch's --idle-timeout
}

// library makes clients, which run until the test ends. config is the client's
// own. start returns when the client is in sync; any goroutine may call it.
type library struct {
	name  string
	start func(t *testing.T, config *rest.Config, node string, o options) (*client, error)
}

var (
	nodewatch = library{"nodewatch", startNodewatch}
	clientGo  = library{"client-go", startClientGo}
	libraries = []library{nodewatch, clientGo}
)

func startNodewatch(t *testing.T, config *rest.Config, node string, o options) (*client, error) {
	t.Helper()
	r, err := nodefilter.NewPodReflector(nodefilter.Config{
		REST: config, Node: node,
		ListWatch: func(c *listwatch.Config) { c.Protocol = o.protocol },
		Reflector: func(c *reflector.Config[*corev1.Pod]) { c.IdleTimeout = o.idle },
	})
	if err != nil {
		return nil, err
	}
	c := &client{node: node, ledger: newLedger()}
	c.stored = func() versions {
		pods := versions{}
		for _, pod := range r.Store().All() {
			pods.set(pod)
		}
		return pods
	}
	c.restarts = func() map[reason.Reason]uint64 { return r.Stats().Restarts }
	until(t, func(ctx context.Context) {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	until(t, func(ctx context.Context) {
		for e := range r.Events(ctx) {
			switch e.Type {
			case reflector.Added:
				c.ledger.apply(nil, e.Object)
			case reflector.Modified:
				c.ledger.apply(e.Old, e.Object)
			case reflector.Deleted:
				c.ledger.apply(e.Object, nil)
			case reflector.Synced:
			}
		}
	})
	return c, r.WaitForSync(t.Context())
}

func startClientGo(t *testing.T, config *rest.Config, node string, o options) (*client, error) {
	t.Helper()
	if o.http1 {
		config.NextProtos = []string{"http/1.1"}
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	source := cache.NewListWatchFromClient(set.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", node))
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{})
	c := &client{node: node, ledger: newLedger()}
	c.stored = func() versions {
		pods := versions{}
		for _, o := range informer.GetStore().List() {
			pods.set(o.(*corev1.Pod))
		}
		return pods
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.ledger.apply(nil, o.(*corev1.Pod)) },
		UpdateFunc: func(old, o any) { c.ledger.apply(old.(*corev1.Pod), o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			c.ledger.apply(o.(*corev1.Pod), nil)
		},
	})
	if err != nil {
		return nil, err
	}
	until(t, informer.RunWithContext)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		return nil, errors.New("the test ended before the informer was in sync")
	}
	return c, nil
}

// until runs f until the test ends, and waits for it then.
func until(t *testing.T, f func(context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { f(ctx) })
	t.Cleanup(func() { cancel(); wait.Wait() })
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }
