package nodefilter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

func newTestNodes(t *testing.T, srv *listwatchtest.Server, change func(*NodesConfig)) *Nodes {
	t.Helper()
	c := NodesConfig{Config: Config{REST: srv.RESTConfig()}, Nodes: []string{"node-a", "node-b"}}
	if change != nil {
		change(&c)
	}
	n, err := NewNodes(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func setNodes(t *testing.T, n *Nodes, names ...string) string {
	t.Helper()
	if err := n.SetNodes(names...); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(stored(n), " ")
}

// TestNodes: the pods of a set of nodes that changes, and of some namespaces of them.
func TestNodes(t *testing.T) {
	const ofA, ofB = "default/db-0 default/web-0", "default/web-1"
	srv := cluster(t, listwatchtest.Config{})
	n := newTestNodes(t, srv, func(c *NodesConfig) {
		c.Nodes = nil
		c.Store = reflector.NewStore(ByNode())
	})
	if got := run(t, n); len(got) != 0 || !n.Status().Synced {
		t.Errorf("no nodes: %q, %+v", got, n.Status())
	}
	for _, tc := range []struct{ nodes, want string }{
		{"node-a node-b node-a", ofA + " " + ofB + " kube-system/proxy-a"},
		{"node-b", ofB},
		{"node-b node-c", ofB},
		{"node-a", ofA + " kube-system/proxy-a"},
		{"", ""},
	} {
		if got := setNodes(t, n, strings.Fields(tc.nodes)...); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.nodes, got, tc.want)
		}
	}
	setNodes(t, n, "node-a", "node-b")
	for _, pod := range n.Store().By(NodeIndex, "node-b") {
		if pod.Name != "web-1" {
			t.Errorf("on node-b there is %s", pod.Name)
		}
	}

	namespaces := []string{"default", "kube-system"}
	some := newTestNodes(t, srv, func(c *NodesConfig) { c.Nodes, c.Namespaces = []string{"node-a"}, namespaces })
	namespaces[0] = "other" // the caller's own
	if err := some.SetNodes("node-b", "node-a"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(run(t, some), " "); got != ofA+" "+ofB+" kube-system/proxy-a" {
		t.Errorf("two namespaces: %q", got)
	}
	var keys []string
	for _, m := range some.Status().Members {
		keys = append(keys, m.Key)
	}
	if got := strings.Join(keys, " "); got != "node-a/default node-a/kube-system node-b/default node-b/kube-system" {
		t.Errorf("the members are %q", got)
	}
	if some.Stats().Subscribers != 0 || some.Status().Name != "pods" {
		t.Errorf("%+v", some.Status())
	}
	one := newTestNodes(t, srv, func(c *NodesConfig) { c.Namespaces = []string{"kube-system"} })
	if got := strings.Join(run(t, one), " "); got != "kube-system/proxy-a" {
		t.Errorf("one namespace: %q", got)
	}
}

// TestNodesAreNarrow: no member of a union is wider than its node, whatever the server sends.
func TestNodesAreNarrow(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		q := r.URL.Query()
		q.Del("fieldSelector")
		r.URL.RawQuery = q.Encode()
		next.ServeHTTP(w, r)
	}})
	n := newTestNodes(t, srv, func(c *NodesConfig) {
		c.Nodes = []string{"node-b", "node-c"}
		c.Reflector = func(c *reflector.Config[*corev1.Pod]) { c.Accept = nil }
	})
	if got := strings.Join(run(t, n), " "); got != "default/web-1" {
		t.Errorf("the store has %q, want the pod of node-b alone", got)
	}
}

// TestNodesOfANode: with the credentials of a node its own pods are there, and the others are forbidden.
func TestNodesOfANode(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{
		Tokens: map[string]string{"token-of-a": "system:node:node-a"},
		Authorize: func(a listwatchtest.Access) bool {
			return strings.Contains(a.FieldSelector, "spec.nodeName="+strings.TrimPrefix(a.User, "system:node:"))
		},
	})
	n := newTestNodes(t, srv, func(c *NodesConfig) {
		c.REST = rest.CopyConfig(c.REST)
		c.REST.BearerToken = "token-of-a"
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	for ev := range n.Events(ctx) {
		if ev.Key.Name == "proxy-a" {
			break
		}
	}
	for n.Status().LastError == nil {
		time.Sleep(time.Millisecond)
	}
	over, end := context.WithCancel(ctx)
	end()
	var refused *listwatch.Error
	var member *reflector.MemberError
	if err := n.WaitForSync(over); !errors.As(err, &refused) || refused.Reason != reason.Forbidden || !errors.As(err, &member) || member.Key != "node-b" {
		t.Errorf("WaitForSync: %v", err)
	}
	if err := n.SetNodes("node-a"); err != nil {
		t.Error(err)
	}
	if err := n.WaitForSync(ctx); err != nil {
		t.Errorf("without the other node: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNodesLeaveNothing: nodes that come and go leave no connection and no series.
func TestNodesLeaveNothing(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{})
	var conns testkit.Conns
	registry := &reflector.Registry{}
	n := newTestNodes(t, srv, func(c *NodesConfig) {
		c.Nodes, c.Registry = []string{"node-b"}, registry
		c.REST = rest.CopyConfig(c.REST)
		c.REST.Dial = conns.Counted(c.REST.Dial)
	})
	reg := prometheus.NewRegistry()
	if err := metrics.Register(reg, registry); err != nil {
		t.Fatal(err)
	}
	run(t, n)
	series := func() string {
		count, err := testutil.GatherAndCount(reg)
		return fmt.Sprintf("%d series (%v), %d connections, %d sources", count, err, conns.Open.Load(), len(registry.Sources()))
	}
	before := series()
	for i := range 100 {
		if err := n.SetNodes("node-b", "node-a"); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // else it goes on its way
			if err := n.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.SetNodes("node-b"); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for series() != before && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if got := series(); got != before {
		t.Errorf("there are %s, before there were %s", got, before)
	}
}

func TestNewNodesRefuses(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{})
	for _, tc := range []struct {
		name   string
		change func(*NodesConfig)
		want   string
	}{
		{"no server", func(c *NodesConfig) { c.REST = nil }, "nodefilter: Config.REST is nil"},
		{"one node", func(c *NodesConfig) { c.Node = "node-a" }, "nodefilter: NodesConfig.Node is set: name it in Nodes"},
		{"an empty name", func(c *NodesConfig) { c.Nodes = []string{"node-a", ""} }, "nodefilter: the node name is empty"},
		{"no name", func(c *NodesConfig) { c.Nodes = []string{"a/b"} }, `nodefilter: "a/b" is not a node name`},
		{"no namespace", func(c *NodesConfig) { c.Namespaces = []string{"default", ""} }, `nodefilter: "" in NodesConfig.Namespaces is not a name of a namespace`},
		{"both", func(c *NodesConfig) { c.Namespace, c.Namespaces = "a", []string{"b"} }, "Namespace and Namespaces are both set"},
		{"a node's store", func(c *NodesConfig) {
			c.Reflector = func(c *reflector.Config[*corev1.Pod]) { c.Store = reflector.NewStore[*corev1.Pod]() }
		}, "node-a: NodesConfig.Config.Reflector sets Store: set NodesConfig.Store"},
		{"a node's tombstones", func(c *NodesConfig) {
			c.Reflector = func(c *reflector.Config[*corev1.Pod]) { c.Retain.Max = 1 }
		}, "NodesConfig.Config.Reflector sets Retain: set NodesConfig.Retain"},
		{"a bad request", func(c *NodesConfig) { c.ListWatch = func(c *listwatch.Config) { c.Protocol = 9 } }, "Protocol 9"},
	} {
		c := NodesConfig{Config: Config{REST: srv.RESTConfig()}, Nodes: []string{"node-a", "node-b"}}
		tc.change(&c)
		if _, err := NewNodes(c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", tc.name, err, tc.want)
		}
	}
	n := newTestNodes(t, srv, nil)
	before := n.union.Keys()
	if err := n.SetNodes("node-c", "UPPER"); err == nil || !strings.Contains(err.Error(), `nodefilter: "UPPER" is not a node name`) {
		t.Errorf("SetNodes: %v", err)
	}
	if got := n.union.Keys(); !slices.Equal(got, before) {
		t.Errorf("an error changed the nodes from %q to %q", before, got)
	}
}
