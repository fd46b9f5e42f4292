package nodefilter

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(namespace, name, node, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// cluster is a server with pods on two nodes and one without a node.
func cluster(t *testing.T, c listwatchtest.Config) *listwatchtest.Server {
	t.Helper()
	srv := listwatchtest.Start(c)
	t.Cleanup(srv.Close)
	for _, p := range []*corev1.Pod{
		pod("default", "web-0", "node-a", "web"),
		pod("default", "web-1", "node-b", "web"),
		pod("default", "db-0", "node-a", "db"),
		pod("kube-system", "proxy-a", "node-a", "proxy"),
		pod("default", "pending", "", "web"),
	} {
		if err := srv.Create(p); err != nil {
			t.Fatal(err)
		}
	}
	return srv
}

// run starts the reflector, waits for its first snapshot and returns the names
// in its store, sorted, and a function that stops it.
func run(t *testing.T, r reflector.Collection[*corev1.Pod]) (names []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if err := r.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return stored(r)
}

func stored(r reflector.Collection[*corev1.Pod]) (names []string) {
	for key := range r.Store().All() {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}

func TestNewPodReflectorScopes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"one node", Config{Node: "node-a"}, "default/db-0 default/web-0 kube-system/proxy-a"},
		{"another node", Config{Node: "node-b"}, "default/web-1"},
		{"a node without pods", Config{Node: "node-c"}, ""},
		{"namespace", Config{Node: "node-a", Namespace: "kube-system"}, "kube-system/proxy-a"},
		{"labels", Config{Node: "node-a", LabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"})}, "default/web-0"},
		{"fields", Config{Node: "node-a", FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "web-0")}, "default/db-0 kube-system/proxy-a"},
		{"an own condition beside the guard", Config{Node: "node-a", Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.Accept = func(p *corev1.Pod) bool { return p.Namespace == "default" }
		}}, "default/db-0 default/web-0"},
		{"kept as bytes", Config{Node: "node-a", Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.Objects = reflector.ObjectsCompact
		}}, "default/db-0 default/web-0 kube-system/proxy-a"},
		{"the scope cannot be lifted", Config{Node: "node-b", ListWatch: func(c *listwatch.Config) {
			c.FieldSelector = nil
			c.Resource = corev1.SchemeGroupVersion.WithResource("nodes")
		}, Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.Accept = nil
			c.InitialSync = reflector.InitialList
		}}, "default/web-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := cluster(t, listwatchtest.Config{})
			tc.config.REST = srv.RESTConfig()
			r, err := NewPodReflector(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(run(t, r), " "); got != tc.want {
				t.Errorf("the store has %q, want %q", got, tc.want)
			}
			for _, req := range srv.Requests() {
				if !strings.Contains(req.Query.Get("fieldSelector"), "spec.nodeName="+tc.config.Node) {
					t.Errorf("the request %s does not have the node's scope", req)
				}
			}
		})
	}
}

// TestNewPodReflectorGuards quotes: its store never holds a pod of another
// node, whatever the server sends: an object outside the scope is counted as
// "filtered" in the reflector's Stats and is not stored.
func TestNewPodReflectorGuards(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{
		// A proxy that drops the selector: everything of the cluster comes.
		Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			q := r.URL.Query()
			q.Del("fieldSelector")
			r.URL.RawQuery = q.Encode()
			next.ServeHTTP(w, r)
		},
	})
	registry := &reflector.Registry{}
	r, err := NewPodReflector(Config{REST: srv.RESTConfig(), Node: "node-b", Name: "agent", Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(run(t, r), " "); got != "default/web-1" {
		t.Errorf("the store has %q, want the pod of node-b alone", got)
	}

	// The same on the watch.
	events := r.Events(t.Context())
	if err := srv.Create(pod("default", "web-2", "node-a", "web")); err != nil {
		t.Fatal(err)
	}
	if err := srv.Create(pod("default", "web-3", "node-b", "web")); err != nil {
		t.Fatal(err)
	}
	for ev := range events {
		if ev.Type == reflector.Added && ev.Object.Spec.NodeName != "node-b" {
			t.Errorf("a subscriber was told of %s, on %q", ev.Key, ev.Object.Spec.NodeName)
		}
		if ev.Key.Name == "web-3" {
			break
		}
	}
	if got := strings.Join(stored(r), " "); got != "default/web-1 default/web-3" {
		t.Errorf("the store has %q, want the pods of node-b alone", got)
	}
	sources := registry.Sources()
	if len(sources) != 1 {
		t.Fatalf("%d reflectors are registered, want 1", len(sources))
	}
	if got := sources[0].Status().Name; got != "agent" {
		t.Errorf("it is registered as %q, want agent", got)
	}
	if got := sources[0].Stats().Ignored["filtered"]; got != 5 {
		t.Errorf("%d objects counted as filtered, want the 4 of the list and the 1 of the watch", got)
	}
}

// TestNodeCredentials: the requests pass a server that, as the node authorizer
// does, lets a node's user list and watch pods only with its own name in the
// field selector; and a node's user cannot watch another node.
func TestNodeCredentials(t *testing.T) {
	denied := make(chan struct{}, 1)
	srv := cluster(t, listwatchtest.Config{
		Tokens: map[string]string{"token-of-a": "system:node:node-a"},
		Authorize: func(a listwatchtest.Access) bool {
			sel, err := fields.ParseSelector(a.FieldSelector)
			if err != nil || a.Resource != "pods" || (a.Verb != "list" && a.Verb != "watch") {
				return false
			}
			node, ok := sel.RequiresExactMatch(NodeNameField)
			if ok && "system:node:"+node == a.User {
				return true
			}
			select {
			case denied <- struct{}{}:
			default:
			}
			return false
		},
	})
	cfg := srv.RESTConfig()
	cfg.BearerToken = "token-of-a"
	r, err := NewPodReflector(Config{REST: cfg, Node: "node-a"})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(run(t, r)); got != 3 {
		t.Errorf("%d pods in the store, want 3", got)
	}

	select {
	case <-denied:
		t.Error("a request for the pods of the own node was denied")
	default:
	}

	elsewhere, err := NewPodReflector(Config{REST: cfg, Node: "node-b", Reflector: func(c *reflector.Config[*corev1.Pod]) {
		c.InitialSync = reflector.InitialList
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- elsewhere.Run(ctx) }()
	<-denied
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := elsewhere.Store().Len(); n != 0 || elsewhere.Status().Synced {
		t.Errorf("synced %v with %d pods of a node that the user may not see", elsewhere.Status().Synced, n)
	}
}

// TestConnectionsAfterRun quotes: when Run's context ends its connections are
// closed, idle ones too. The server refuses everything, so that between two
// tries there is nothing but an idle connection.
func TestConnectionsAfterRun(t *testing.T) {
	for _, initial := range []reflector.InitialSync{reflector.InitialWatchList, reflector.InitialList} {
		t.Run(initial.String(), func(t *testing.T) {
			answered := make(chan struct{}, 100)
			closed := make(chan struct{}, 100)
			var live atomic.Int32
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
				answered <- struct{}{}
			}))
			srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					live.Add(1)
				}
				if s == http.StateClosed {
					live.Add(-1)
					closed <- struct{}{}
				}
			}
			srv.Start()
			defer srv.Close()
			r, err := NewPodReflector(Config{REST: &rest.Config{Host: srv.URL}, Node: "node-a", Reflector: func(c *reflector.Config[*corev1.Pod]) {
				c.InitialSync = initial
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			<-answered
			for r.Status().State != reflector.StateBackingOff {
				runtime.Gosched() // the client has the answer and deals with it
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			for live.Load() > 0 {
				<-closed // hangs, and the test times out, when one stays open
			}
		})
	}
}

// TestOneConnection: watches that follow each other use one connection, and it
// is closed when Run ends; the caller's own OnStop is called too.
func TestOneConnection(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{})
	cfg := srv.RESTConfig()
	var conns testkit.Conns
	cfg.Dial = conns.Counted(cfg.Dial)
	ended := make(chan struct{})
	r, err := NewPodReflector(Config{REST: cfg, Node: "node-a", Reflector: func(c *reflector.Config[*corev1.Pod]) {
		c.Backoff = reflector.Backoff{Min: 10 * time.Millisecond, Max: 20 * time.Millisecond}
		c.OnStop = func() { close(ended) }
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after run's, which stops it
		select {
		case <-ended:
		default:
			t.Fatal("OnStop was not called")
		}
		for conns.Open.Load() > 0 {
			runtime.Gosched() // for ever, and the test times out, when one stays open
		}
	})
	run(t, r)
	const ends = 3
	for n := uint64(1); n <= ends; n++ {
		for r.Stats().Watches < n {
			runtime.Gosched() // the watch is not open yet
		}
		srv.EndWatches()
	}
	for r.Stats().Watches <= ends {
		runtime.Gosched()
	}
	if n := conns.Made.Load(); n != 1 {
		t.Errorf("%d connections for %d watches in a row, want 1", n, r.Stats().Watches)
	}
}

func TestNewPodReflectorWrapsListerWatcher(t *testing.T) {
	srv := cluster(t, listwatchtest.Config{})
	wrapped := false
	r, err := NewPodReflector(Config{REST: srv.RESTConfig(), Node: "node-a", Reflector: func(c *reflector.Config[*corev1.Pod]) {
		c.ListerWatcher = counting{c.ListerWatcher, &wrapped}
		c.Resource = "pods"
		c.InitialSync = reflector.InitialList
		c.Store = reflector.NewStore(ByNode())
	}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r)
	if !wrapped {
		t.Error("the reflector does not use the ListerWatcher that the caller put in")
	}
	n := 0
	for range r.Store().By(NodeIndex, "node-a") {
		n++
	}
	if n != 3 {
		t.Errorf("%d pods of node-a in the index, want 3", n)
	}
}

// counting notes that it was asked for a list.
type counting struct {
	reflector.ListerWatcher[*corev1.Pod]
	used *bool
}

func (c counting) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	*c.used = true
	return c.ListerWatcher.List(ctx, opts, sink)
}

func TestNewPodReflectorRefuses(t *testing.T) {
	t.Parallel()
	good := &rest.Config{Host: "http://127.0.0.1:1"}
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no server", Config{Node: "node-a"}, "Config.REST"},
		{"no node", Config{REST: good}, "set it, such as Config.Node"},
		{"a bad node", Config{REST: good, Node: "Node A"}, "not a node name"},
		{"a selector of another node", Config{REST: good, Node: "node-a", FieldSelector: fields.OneTermEqualSelector(NodeNameField, "node-b")}, "contradicts"},
		{"the same through the function", Config{REST: good, Node: "node-a", ListWatch: func(c *listwatch.Config) {
			c.FieldSelector = fields.OneTermEqualSelector(NodeNameField, "node-b")
		}}, "contradicts"},
		{"a setting that listwatch refuses", Config{REST: good, Node: "node-a", ListWatch: func(c *listwatch.Config) { c.MaxItemBytes = -1 }}, "MaxItemBytes"},
		{"a setting that the reflector refuses", Config{REST: good, Node: "node-a", Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.PageSize = -1
		}}, "PageSize"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := NewPodReflector(tc.config)
			if err == nil || r != nil {
				t.Fatalf("NewPodReflector = %v, %v, want an error and nothing else", r, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
}
