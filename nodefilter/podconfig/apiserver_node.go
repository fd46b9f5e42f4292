package podconfig

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// nodeGate waits until the Node object has been seen once. It is a latch on the object:
// an empty list of nodes is complete, too, and says nothing. It watches the
// metadata of that one object, which a node's credentials may do, and stops then.
type nodeGate struct {
	node  string
	nodes *reflector.Reflector[*metav1.PartialObjectMetadata]

	mu    sync.Mutex
	since time.Time // when waiting began; zero before, and when it is over
}

func newNodeGate(c nodefilter.Config) (*nodeGate, error) {
	lc := listwatch.Config{REST: c.REST, Logger: c.Logger}
	if c.ListWatch != nil {
		c.ListWatch(&lc)
	}
	// What the caller's function says of the pods is not for the nodes.
	lc.Resource = corev1.SchemeGroupVersion.WithResource("nodes")
	lc.Namespace, lc.Kind, lc.LabelSelector, lc.Decode = "", "", nil, decode.Config{}
	lc.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.Node)
	lw, err := listwatch.New[*metav1.PartialObjectMetadata](lc)
	if err != nil {
		return nil, err
	}
	g := &nodeGate{node: c.Node}
	g.nodes, err = reflector.New(reflector.Config[*metav1.PartialObjectMetadata]{
		ListerWatcher: lw, Name: "node-gate", Registry: c.Registry, Logger: c.Logger, OnStop: lw.Close,
	})
	return g, err
}

// wait returns true when the node was seen, and false when ctx has ended.
func (g *nodeGate) wait(ctx context.Context) bool {
	g.begin(time.Now())
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	// It returns with its context; an error is one of running it twice.
	running.Go(func() { _ = g.nodes.Run(ctx) })
	// An Added and not Synced: see nodeGate. A server that drops the selector has other
	// nodes, too.
	for ev := range g.nodes.Events(ctx) {
		if ev.Type == reflector.Added && ev.Key.Name == g.node {
			g.begin(time.Time{})
			return true
		}
	}
	return false
}

func (g *nodeGate) begin(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = t
}

// fault is what a source that waits has to say, and whether it does.
func (g *nodeGate) fault() (e SourceError, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() {
		return e, false
	}
	e = SourceError{Where: "node " + g.node, Since: g.since, Count: 1,
		Message: "the Node object was not seen yet, and no pods are asked for before: is the node registered under this name?"}
	if err := g.nodes.Status().LastError; err != nil {
		e.Message = "the Node object was not seen yet: " + err.Error()
	}
	return e, true
}
