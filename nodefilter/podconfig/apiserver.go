package podconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// NodeGate says what the API server source waits for.
type NodeGate string

// A kubelet asks for its pods after it has seen its own Node object: before that the
// server may be one that does not know the node yet, and an empty list from it says
// nothing.
const (
	GateOnNode NodeGate = "node" // wait for the Node object; the default
	GateOff    NodeGate = "off"  // ask for pods at once
)

// RegressionGuard says what an empty list from a server that went back in time does.
type RegressionGuard string

// The list that comes from an etcd restored to a time before a node had pods is
// complete and true, and would stop everything that runs on the node.
const (
	// GuardEmpty withholds the removals of an empty list whose resourceVersion is
	// below what was seen before; the default. The pods are gone when a
	// later list has some pod or is no longer older, when one that has their name
	// comes, or after a restart of the program.
	GuardEmpty RegressionGuard = "empty"
	// GuardOff believes every list, as the kubelet does; the default under
	// KubeletCompatible.
	GuardOff RegressionGuard = "off"
)

// APIServerConfig describes the source of the pods that the API server has for a node.
type APIServerConfig struct {
	// Pods are the node's pods: server, node, selectors. Its ListWatch is applied to
	// the requests for the Node, too.
	Pods nodefilter.Config
	// Gate is GateOnNode unless set.
	Gate NodeGate
	// Guard is GuardEmpty unless set or KubeletCompatible.
	Guard RegressionGuard
	// Behaviour is Improved unless set.
	Behaviour Behaviour
	// Logger is told of the gate and of the guard; nil discards. Requests and the
	// reflector have that of Pods.
	Logger *slog.Logger
}

func (c APIServerConfig) withDefaults() APIServerConfig {
	if c.Gate == "" {
		c.Gate = GateOnNode
	}
	if c.Behaviour == "" {
		c.Behaviour = Improved
	}
	if c.Guard == "" {
		c.Guard = GuardEmpty
		if c.Behaviour == KubeletCompatible {
			c.Guard = GuardOff
		}
	}
	return c
}

func (c APIServerConfig) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("podconfig.APIServerConfig."+format, args...))
	}
	if c.Gate != GateOnNode && c.Gate != GateOff {
		bad("Gate is %q: use %q or %q", c.Gate, GateOnNode, GateOff)
	}
	if c.Guard != GuardEmpty && c.Guard != GuardOff {
		bad("Guard is %q: use %q or %q", c.Guard, GuardEmpty, GuardOff)
	}
	if err := c.Behaviour.validate(); err != nil {
		bad("Behaviour %w", err)
	}
	return errors.Join(errs...)
}

// APIServer is the source of the pods that the API server has for a node.
//
// Its first Change is the first complete list, and comes after the node was seen.
// Every later one is what an event of the watch changed, so that the work for an
// event does not depend on how many pods there are. A relist tells what is
// different, with all that is gone in one Change.
type APIServer struct {
	cfg APIServerConfig
	*ledger
	ran   atomic.Bool
	gate  *nodeGate // nil where there is none
	pods  *reflector.Reflector[*corev1.Pod]
	place string // of the pods in faults

	mu sync.Mutex // guards what follows: events come from Run, and from a timer
	// first are the pods of the first list, until it is complete.
	first map[types.UID]*corev1.Pod
	n     int // pods that were told and are not gone
	guard *regressionGuard
	// tell is nil when Run has ended.
	tell func(Change)
}

// NewAPIServer returns an API server source that has not started. Errors are
// those of the configuration; no request is made yet.
func NewAPIServer(c APIServerConfig) (*APIServer, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	a := &APIServer{cfg: c, ledger: newLedger(c.Logger, APIServerSource), place: "pods of node " + c.Pods.Node,
		first: make(map[types.UID]*corev1.Pod)}
	var err error
	if a.pods, err = nodefilter.NewPodReflector(c.Pods); err != nil {
		return nil, fmt.Errorf("podconfig.APIServerConfig.Pods: %w", err)
	}
	if c.Gate == GateOnNode {
		if a.gate, err = newNodeGate(c.Pods); err != nil {
			return nil, fmt.Errorf("podconfig.APIServerConfig.Pods: %w", err)
		}
	}
	a.guard = &regressionGuard{on: c.Guard == GuardEmpty, again: a.overdue}
	return a, nil
}

// Source is APIServerSource.
func (a *APIServer) Source() Source { return APIServerSource }

// Reflector is the reflector of the pods, for its status and its store.
func (a *APIServer) Reflector() *reflector.Reflector[*corev1.Pod] { return a.pods }

// Status is what the source knows of itself. The places of errors are the node that
// is waited for, the pods as a whole, and single pods that do not decode.
func (a *APIServer) Status() SourceStatus {
	s := a.snapshot()
	if a.gate != nil {
		if e, waits := a.gate.fault(); waits {
			s.Errors = append(s.Errors, e)
		}
	}
	r := a.pods.Status()
	if last := r.LastRestart; last != nil && last.Err != nil && r.State != reflector.StateWatching && r.State != reflector.StateStopped {
		s.Errors = append(s.Errors, SourceError{Where: "requests for the " + a.place, Message: last.Err.Error(), Since: last.At, Count: 1})
	}
	for _, q := range r.Quarantined {
		s.Errors = append(s.Errors, SourceError{Where: "pod " + q.Key.String(), Message: q.Err.Error(), Since: q.Since, Count: 1})
	}
	return s
}

// Run waits for the node, and tells its pods until ctx ends.
func (a *APIServer) Run(ctx context.Context, tell func(Change)) error {
	if a.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if a.gate != nil {
		a.log.Info("waiting for the Node object", "node", a.cfg.Pods.Node)
		if !a.gate.wait(ctx) {
			return nil
		}
		a.log.Info("the Node object is there", "node", a.cfg.Pods.Node)
	}
	a.mu.Lock()
	a.tell = tell
	a.mu.Unlock()
	defer a.end()

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var err error
	running.Go(func() {
		// It ends before ctx does where the store is another reflector's.
		err = a.pods.Run(ctx)
		cancel()
	})
	for ev := range a.pods.Events(ctx) {
		a.mu.Lock()
		a.handle(ev)
		a.mu.Unlock()
	}
	running.Wait()
	return err
}

// end makes what a timer brings later void.
func (a *APIServer) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell = nil
	a.guard.stop()
}

// handle is one event of the reflector.
func (a *APIServer) handle(ev reflector.Event[*corev1.Pod]) {
	if a.first != nil {
		a.handleFirst(ev)
		return
	}
	switch ev.Type {
	case reflector.Added, reflector.Modified:
		// A pod whose name comes back under another UID is gone before.
		a.gone(a.guard.replaced(ev.Object))
		if ev.Type == reflector.Added && !a.guard.back(ev.UID) {
			a.n++
		}
		a.change(Change{Pods: []*corev1.Pod{ev.Object}})
		a.gone(a.guard.heard(ev.ResourceVersion))
	case reflector.Deleted:
		g := Gone{UID: ev.UID, Namespace: ev.Key.Namespace, Name: ev.Key.Name}
		if ev.FinalStateUnknown && a.guard.suspend(g) {
			return // the end of the list decides
		}
		a.gone([]Gone{g})
		a.gone(a.guard.heard(ev.ResourceVersion))
	case reflector.Synced:
		a.gone(a.guard.synced(ev.ResourceVersion, a.n))
	}
	a.reportGuard()
}

// handleFirst gathers the first list.
func (a *APIServer) handleFirst(ev reflector.Event[*corev1.Pod]) {
	switch ev.Type {
	case reflector.Added, reflector.Modified:
		a.first[ev.UID] = ev.Object
	case reflector.Deleted:
		delete(a.first, ev.UID)
	case reflector.Synced:
		c := Change{Full: true, Initial: true, Pods: slices.SortedFunc(maps.Values(a.first), func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})}
		a.n, a.first = len(a.first), nil
		a.guard.heard(ev.ResourceVersion)
		a.change(c)
	}
}

// gone tells that pods are gone, if there are any.
func (a *APIServer) gone(pods []Gone) {
	if len(pods) == 0 {
		return
	}
	a.n -= len(pods)
	a.change(Change{Gone: pods})
}

func (a *APIServer) change(c Change) {
	a.told(c, a.n)
	a.tell(c)
}

// overdue is called, from a timer, when the end of a list did not come: what is gone was
// no list's word, or the watch could not read it.
func (a *APIServer) overdue() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tell == nil {
		return
	}
	a.gone(a.guard.expire(a.pods.Status().ResourceVersion))
}

// reportGuard keeps the status and the log in step with the guard.
func (a *APIServer) reportGuard() {
	switch changed, text := a.guard.report(); {
	case !changed:
	case text == "":
		a.mend(a.place)
	default:
		a.fail(a.place, text)
	}
}

var _ Producer = (*APIServer)(nil)
