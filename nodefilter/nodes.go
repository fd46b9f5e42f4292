package nodefilter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// NodesConfig describes the pods of several nodes.
type NodesConfig struct {
	// Config is that of each node's reflector, without Node. ListWatch and Reflector are called for
	// each; Reflector may set neither Store nor Retain, which are those of the whole. Name is that of the whole, default
	// "pods"; each reflector is called by its node, or NODE/NAMESPACE.
	Config
	// Nodes are the names of the first nodes; see SetNodes.
	Nodes []string
	// Namespaces narrow the collection to several namespaces; Namespace is empty then. Each pair
	// of a node and a namespace is a list and a watch of its own.
	Namespaces []string
	// Store is that of the whole. Default: a new one without indexes; ByNode makes a useful one.
	Store *reflector.Store[*corev1.Pod]
	// Retain keeps deleted pods for look-ups; the zero value keeps none.
	Retain reflector.Retain
}

// Nodes are the pods of several nodes as one collection, a reflector.Union of one reflector for each
// node: field selectors have no OR. It is used like a reflector of one node; the set of nodes may change at run time.
type Nodes struct {
	reflector.Collection[*corev1.Pod]
	union *reflector.Union[*corev1.Pod]
	// namespaces has "" alone for all.
	namespaces []string

	mu sync.Mutex // held while the set changes
}

// NewNodes returns the pods of several nodes. It has not started, and makes no request; errors
// are those of the configuration.
//
// No nodes is an empty collection, which is complete: a set that changes at run time may have to begin so.
// (OnNodes, whose result would select everything, refuses it.)
func NewNodes(c NodesConfig) (*Nodes, error) {
	n, err := newNodes(c)
	return n, named(err)
}

func newNodes(c NodesConfig) (*Nodes, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	n := &Nodes{namespaces: slices.Clone(c.Namespaces)}
	if len(n.namespaces) == 0 {
		n.namespaces = []string{c.Namespace}
	}
	name := c.Name
	if name == "" {
		name = "pods"
	}
	keys, err := n.keys(c.Nodes)
	if err != nil {
		return nil, err
	}
	n.union, err = reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{
		Name:     name,
		Resource: "pods",
		Member: func(key string) (*reflector.Reflector[*corev1.Pod], error) {
			member := c.Config
			member.Name = key
			var scoped bool
			if member.Node, member.Namespace, scoped = strings.Cut(key, "/"); !scoped {
				member.Namespace = n.namespaces[0]
			}
			return newMember(member)
		},
		Store:    c.Store,
		Retain:   c.Retain,
		Registry: c.Registry,
		Logger:   c.Logger,
	}, keys...)
	if err != nil {
		return nil, err
	}
	n.Collection = n.union
	return n, nil
}

// newMember makes the reflector of a node. What nobody would ever see is refused: look-ups are made in the store
// of the whole.
func newMember(c Config) (*reflector.Reflector[*corev1.Pod], error) {
	hook, refused := c.Reflector, error(nil)
	if hook != nil {
		c.Reflector = func(rc *reflector.Config[*corev1.Pod]) {
			hook(rc)
			switch {
			case rc.Store != nil:
				refused = errors.New("NodesConfig.Config.Reflector sets Store: set NodesConfig.Store")
			case rc.Retain != (reflector.Retain{}):
				refused = errors.New("NodesConfig.Config.Reflector sets Retain: set NodesConfig.Retain")
			}
		}
	}
	r, err := newPodReflector(c)
	return r, cmp.Or(refused, err)
}

func (c NodesConfig) validate() error {
	switch {
	case c.REST == nil:
		return errNoREST
	case c.Node != "":
		return errors.New("NodesConfig.Node is set: name it in Nodes")
	case c.Namespace != "" && len(c.Namespaces) > 0:
		return errors.New("NodesConfig.Namespace and Namespaces are both set: name all in Namespaces")
	}
	for _, namespace := range c.Namespaces {
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			return fmt.Errorf("%q in NodesConfig.Namespaces is not a name of a namespace: %s", shorten(namespace), strings.Join(faults, "; "))
		}
	}
	return nil
}

// SetNodes makes the collection that of these nodes, at any time. The pods of a node that is not
// among them any more leave at once, as Deleted with FinalStateUnknown, and its connections are
// closed; a new one is listed and watched at once; the others are not touched. A node that is named twice counts once, and no names
// at all is an empty collection. An error, as of a name that can be no node's, changes nothing.
//
// It does not wait for the new nodes' pods: WaitForSync does, and the next Synced event tells it.
func (n *Nodes) SetNodes(names ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys, err := n.keys(names)
	if err != nil {
		return named(err)
	}
	// A pod is on one node, so nothing is gained by keeping an old node until a new one is there.
	if err := n.union.Set(slices.Concat(n.union.Keys(), keys)...); err != nil {
		return named(err)
	}
	return named(n.union.Set(keys...))
}

// keys returns those of the union's members.
func (n *Nodes) keys(names []string) ([]string, error) {
	var keys []string
	for _, name := range names {
		if err := validateNodeName(name); err != nil {
			return nil, err
		}
		for _, namespace := range n.namespaces {
			if len(n.namespaces) == 1 {
				keys = append(keys, name)
			} else {
				keys = append(keys, name+"/"+namespace)
			}
		}
	}
	return keys, nil
}

// Status returns a copy of what is known of the whole and, in Members, of each node.
func (n *Nodes) Status() reflector.Status { return n.union.Status() }

// Stats returns a copy of the counts of the whole: those of its subscribers. What each node's reflector counts
// it has in the Registry.
func (n *Nodes) Stats() reflector.Stats { return n.union.Stats() }

var (
	_ reflector.Collection[*corev1.Pod] = (*Nodes)(nil)
	_ reflector.Source                  = (*Nodes)(nil)
)
