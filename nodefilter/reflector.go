package nodefilter

import (
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/hook"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Config describes the pods of one node.
type Config struct {
	// REST says how to reach the API server. Required.
	REST *rest.Config
	// Node is the node's name. Required.
	Node string
	// Namespace narrows the collection to one namespace; "" is all.
	Namespace string
	// LabelSelector and FieldSelector narrow the collection further. A field
	// selector that excludes the node is an error.
	LabelSelector labels.Selector
	FieldSelector fields.Selector

	// ListWatch, when set, may change how requests are made (encoding,
	// timeouts, sizes) before the ListerWatcher is built. The resource and the
	// node scope are applied after it and cannot be lifted by it.
	ListWatch func(*listwatch.Config)
	// Reflector, when set, may change the reflector's configuration (store,
	// first sync, transform, backoff) before it is built. Its ListerWatcher is
	// set and may be wrapped. The node's guard is added after it, in front of
	// an Accept that it sets, and so is the end of the connections in front of an
	// OnStop.
	Reflector func(*reflector.Config[*corev1.Pod])

	// Name is the reflector's name in logs, metrics and debug pages. Default: as reflector.Config has it.
	Name string
	// Registry is where the running reflector shows itself; nil is nowhere.
	Registry *reflector.Registry
	// Logger serves the requests and the reflector; nil discards.
	Logger *slog.Logger
}

// NewPodReflector returns a reflector of the pods of one node that has not
// started. It makes no request; errors are those of the configuration.
//
// Its store never holds a pod of another node, whatever the server sends: an
// object outside the scope is counted as "filtered" in the reflector's Stats
// and is not stored. When Run's context ends its connections are closed, idle
// ones too.
func NewPodReflector(c Config) (*reflector.Reflector[*corev1.Pod], error) {
	r, err := newPodReflector(c)
	return r, named(err)
}

func newPodReflector(c Config) (*reflector.Reflector[*corev1.Pod], error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	lc := listwatch.Config{
		REST:          c.REST,
		Namespace:     c.Namespace,
		LabelSelector: c.LabelSelector,
		FieldSelector: c.FieldSelector,
		Logger:        c.Logger,
	}
	if c.ListWatch != nil {
		c.ListWatch(&lc)
	}
	scope, err := onNode(c.Node, lc.FieldSelector)
	if err != nil {
		return nil, err
	}
	lc.Resource = corev1.SchemeGroupVersion.WithResource("pods")
	lc.FieldSelector = scope
	lw, err := listwatch.New[*corev1.Pod](lc)
	if err != nil {
		return nil, fmt.Errorf("pods of node %q: %w", c.Node, err)
	}

	rc := reflector.Config[*corev1.Pod]{
		Name:          c.Name,
		ListerWatcher: lw,
		Registry:      c.Registry,
		Logger:        c.Logger,
	}
	if c.Reflector != nil {
		c.Reflector(&rc)
	}
	rc.Accept = both(PodOnNode(c.Node), rc.Accept)
	// Nobody but the reflector knows lw, so nobody else can close it.
	rc.OnStop = hook.Before(lw.Close, rc.OnStop)
	r, err := reflector.New(rc)
	if err != nil {
		return nil, fmt.Errorf("pods of node %q: %w", c.Node, err)
	}
	return r, nil
}

func (c Config) validate() error {
	if c.REST == nil {
		return errNoREST
	}
	return validateNodeName(c.Node)
}

var errNoREST = errors.New("Config.REST is nil: set it from a kubeconfig (clientcmd) or rest.InClusterConfig")

// both is the conjunction of the guard with the caller's own condition, if any.
func both(guard, own func(*corev1.Pod) bool) func(*corev1.Pod) bool {
	if own == nil {
		return guard
	}
	return func(p *corev1.Pod) bool { return guard(p) && own(p) }
}
