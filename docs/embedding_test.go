package docs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/cacheadapter"
	"github.com/nodewatch-go/nodewatch/reflector/debugpage"
	"github.com/nodewatch-go/nodewatch/reflector/health"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
	"github.com/nodewatch-go/nodewatch/reflector/sharded"
	"github.com/nodewatch-go/nodewatch/reflector/shared"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// TestEmbeddingCode: each block of Go in docs/embedding.md stands in the file that the comment in front of it
// names, line by line, but for indentation; there it is compiled, and most of it run.
func TestEmbeddingCode(t *testing.T) {
	t.Parallel()
	sections := strings.Split(read(t, "docs/embedding.md"), "```go\n")
	if len(sections) < 15 {
		t.Errorf("only %d blocks of Go found", len(sections)-1)
	}
	for i, section := range sections[1:] {
		before := strings.TrimSpace(sections[i])
		file, ok := strings.CutPrefix(before[strings.LastIndex(before, "\n")+1:], "<!-- example: ")
		file, closed := strings.CutSuffix(file, " -->")
		code, _, ended := strings.Cut(section, "\n```")
		if !ok || !closed || !ended {
			t.Errorf("no comment names the file of this block:\n%s", code)
			continue
		}
		if !strings.Contains(flat(read(t, file)), "\n"+strings.Trim(flat(code), "\n")+"\n") {
			t.Errorf("%s does not have this code:\n%s", file, code)
		}
	}
}

// flat is a text without indentation.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

func podReflector(cfg *rest.Config) (*reflector.Reflector[*corev1.Pod], error) {
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{
		REST:      cfg,
		Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: "shop",
	})
	if err != nil {
		return nil, err
	}
	return reflector.New(reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		Store:         reflector.NewStore(reflector.ByLabel[*corev1.Pod]("app")),
		OnStop:        lw.Close,
	})
}

func use(ctx context.Context, r reflector.Collection[*corev1.Pod]) error {
	go r.Run(ctx)
	if err := r.WaitForSync(ctx); err != nil {
		var why *listwatch.Error
		if errors.As(err, &why) {
			return fmt.Errorf("the API server said %s: %w", why.Reason, err)
		}
		return err
	}
	if pod, ok := r.Store().Get("shop", "web-0"); ok {
		fmt.Println(pod.Status.Phase)
	}
	for key := range r.Store().By("label:app", "web") {
		fmt.Println(key)
	}
	return nil
}

func handlers(ctx context.Context, r reflector.Collection[*corev1.Pod]) error {
	return r.Handle(ctx, reflector.Handler[*corev1.Pod]{
		OnAdd:    func(ev reflector.Event[*corev1.Pod]) { fmt.Println("add", ev.Key, "initial:", ev.Initial) },
		OnUpdate: func(ev reflector.Event[*corev1.Pod]) { fmt.Println("update", ev.Key, "from", ev.Old.ResourceVersion) },
		OnDelete: func(ev reflector.Event[*corev1.Pod]) { fmt.Println("delete", ev.Key, "unseen:", ev.FinalStateUnknown) },
		OnSynced: func(ev reflector.Event[*corev1.Pod]) { fmt.Println("complete at", ev.ResourceVersion) },
	})
}

func subscribe(ctx context.Context, r reflector.Collection[*corev1.Pod]) {
	for ev := range r.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{
		Name:   "running",
		Policy: reflector.Resync,
		Limit:  100,
		Where:  func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning },
		Replay: 10 * time.Minute,
	}) {
		fmt.Println(ev.Type, ev.Key, "again:", ev.Replay)
	}
}

func ofMyNode(cfg *rest.Config, node string) (*reflector.Reflector[*corev1.Pod], error) {
	return nodefilter.NewPodReflector(nodefilter.Config{
		REST: cfg,
		Node: node,
		Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.Store = reflector.NewStore(reflector.ByLabel[*corev1.Pod]("app"))
			c.Retain = reflector.Retain{For: time.Minute}
		},
	})
}

func everyVersion(ctx context.Context, r reflector.Collection[*corev1.Pod], audit func(reflector.Event[*corev1.Pod])) error {
	return r.Handle(ctx, reflector.Handler[*corev1.Pod]{
		Subscription: reflector.Subscription[*corev1.Pod]{Name: "audit", Policy: reflector.Block, Limit: 100},
		OnAdd:        audit,
		OnUpdate:     audit,
		OnDelete:     audit,
	})
}

func retained(lw reflector.ListerWatcher[*corev1.Pod]) (*reflector.Reflector[*corev1.Pod], error) {
	return reflector.New(reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		Retain:        reflector.Retain{For: time.Minute, Max: 500},
	})
}

func lastKnown(store *reflector.Store[*corev1.Pod], uid types.UID) (*corev1.Pod, bool) {
	gone, ok := store.Tombstones().ByUID(uid)
	return gone.Object, ok
}

func nodes(cfg *rest.Config) (*nodefilter.Nodes, error) {
	pods, err := nodefilter.NewNodes(nodefilter.NodesConfig{
		Config: nodefilter.Config{REST: cfg},
		Nodes:  []string{"node-a", "node-b"},
		Store:  reflector.NewStore(nodefilter.ByNode()),
	})
	if err != nil {
		return nil, err
	}
	return pods, pods.SetNodes("node-b", "node-c") // at any time
}

func onNodeA(pods *nodefilter.Nodes) {
	for key, pod := range pods.Store().By(nodefilter.NodeIndex, "node-a") {
		fmt.Println(key, pod.Status.Phase)
	}
}

func namespaces(cfg *rest.Config) (*reflector.Union[*corev1.Secret], error) {
	return reflector.NewUnion(reflector.UnionConfig[*corev1.Secret]{
		Member: func(namespace string) (*reflector.Reflector[*corev1.Secret], error) {
			lw, err := listwatch.New[*corev1.Secret](listwatch.Config{
				REST: cfg, Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: namespace,
			})
			if err != nil {
				return nil, err
			}
			return reflector.New(reflector.Config[*corev1.Secret]{ListerWatcher: lw, OnStop: lw.Close})
		},
	}, "shop", "mail")
}

func pool(ctx context.Context, cfg *rest.Config) error {
	pool, err := shared.New(shared.Config[*corev1.Pod]{REST: cfg})
	if err != nil {
		return err
	}
	defer pool.Close()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	lease, err := pool.Acquire(ctx, shared.Scope{Resource: pods, LabelSelector: web})
	if err != nil {
		return err
	}
	defer lease.Close()
	return lease.WaitForSync(ctx)
}

func replica(cfg *rest.Config, index, count int) (*sharded.Replica[*corev1.Pod], error) {
	return sharded.New(sharded.Config[*corev1.Pod]{
		ListWatch: listwatch.Config{REST: cfg, Resource: corev1.SchemeGroupVersion.WithResource("pods")},
		Shard:     shard.Shard{Index: index, Count: count},
	})
}

// Certificate is a struct of the program's own.
type Certificate struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName string `json:"secretName"`
	} `json:"spec"`
}

func anyType(cfg *rest.Config) error {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	certificates := schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	custom := listwatch.Config{REST: cfg, Resource: certificates, Kind: "Certificate"}

	_, err1 := listwatch.New[*corev1.Pod](listwatch.Config{REST: cfg, Resource: pods})                   // protobuf
	_, err2 := listwatch.New[*Certificate](custom)                                                       // JSON, into your struct
	_, err3 := listwatch.New[*unstructured.Unstructured](custom)                                         // JSON
	_, err4 := listwatch.New[*metav1.PartialObjectMetadata](listwatch.Config{REST: cfg, Resource: pods}) // protobuf, metadata only
	return errors.Join(err1, err2, err3, err4)
}

type slimPod struct {
	Metadata struct {
		Name      string    `json:"name"`
		Namespace string    `json:"namespace"`
		UID       types.UID `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

func slim(cfg *rest.Config) (*listwatch.ListerWatcher[*slimPod], error) {
	return listwatch.New[*slimPod](listwatch.Config{
		REST:     cfg,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Kind:     "Pod",
		Decode:   decode.Config{NumbersOf: &corev1.Pod{}}, // so that it is read from protobuf, too
	})
}

func dropped(cfg *rest.Config) (*listwatch.ListerWatcher[*corev1.Pod], error) {
	return listwatch.New[*corev1.Pod](listwatch.Config{
		REST:     cfg,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Decode:   decode.Config{Drop: []string{"metadata.managedFields", "spec.volumes", "status.conditions"}},
	})
}

func observe(lw reflector.ListerWatcher[*corev1.Pod], mux *http.ServeMux) (*reflector.Reflector[*corev1.Pod], error) {
	registry := &reflector.Registry{} // registry.Sources() has the Status and Stats of each that runs
	page, err := debugpage.New(debugpage.Config{Registry: registry})
	if err != nil {
		return nil, err
	}
	ready, err := health.New(health.Config{Registry: registry, Expected: []string{"pods"}})
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /debug/reflectors", page)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /livez", health.Live())
	reg := prometheus.NewRegistry()
	if err := metrics.Register(reg, registry); err != nil {
		return nil, err
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, Name: "pods", Registry: registry})
}

func logging() {
	handler := slog.NewJSONHandler(os.Stderr, nil)
	fromLogr := slog.New(logr.ToSlogHandler(klog.Background())) // nodewatch's log lines go where klog's go
	toLogr := logr.FromSlogHandler(handler)                     // controller-runtime's go where yours go: ctrl.SetLogger(toLogr)
	klog.SetSlogLogger(slog.New(handler))                       // client-go's go where yours go
	_, _ = fromLogr, toLogr
}

func informer(cfg *rest.Config) (cache.SharedIndexInformer, error) {
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: cfg, Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	if err != nil {
		return nil, err
	}
	return cache.NewSharedIndexInformer(cacheadapter.NewListerWatcher(lw), &corev1.Pod{}, 0, cache.Indexers{}), nil
}

func feed(ctx context.Context, r reflector.Collection[*corev1.Pod]) error {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc) // or a DeltaFIFO, or a RealFIFO
	return cacheadapter.Feed(ctx, r, store)
}

func lister(r reflector.Collection[*corev1.Pod]) corev1listers.PodLister {
	return corev1listers.NewPodLister(cacheadapter.NewIndexer(r.Store()))
}

// TestEmbedding runs what docs/embedding.md shows.
func TestEmbedding(t *testing.T) {
	srv := listwatchtest.Start(listwatchtest.Config{})
	defer srv.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	web := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-b"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	must(srv.Create(web))
	for _, namespace := range []string{"shop", "mail", "other"} {
		must(srv.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	cfg := srv.RESTConfig()
	pods, err := podReflector(cfg)
	must(err)
	must(use(ctx, pods))
	found, err := lister(pods).Pods("shop").List(labels.Everything())
	if err != nil || len(found) != 1 {
		t.Errorf("the lister has %d pods, %v", len(found), err)
	}
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if err := handlers(short, pods); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Handle: %v", err)
	}
	subscribe(short, pods) // is over at once
	if err := feed(short, pods); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Feed: %v", err)
	}

	lw, err := dropped(cfg)
	must(err)
	defer lw.Close()
	kept, err := retained(lw)
	must(err)
	wg.Go(func() { kept.Run(ctx) })
	must(kept.WaitForSync(ctx))
	must(srv.Delete(web))
	for ev := range kept.Events(ctx) {
		if ev.Type == reflector.Deleted || ev.Type == reflector.Synced && kept.Store().Len() == 0 {
			break
		}
	}
	if p, ok := lastKnown(kept.Store(), web.UID); !ok || p.Name != "web-0" {
		t.Errorf("the deleted pod is not found by its UID: %v", p)
	}

	several, err := nodes(cfg)
	must(err)
	if several.Store().Len() != 0 {
		t.Error("the nodes' pods are there before Run")
	}
	onNodeA(several)
	mine, err := ofMyNode(cfg, "node-a")
	must(err)
	wg.Go(func() { mine.Run(ctx) })
	must(mine.WaitForSync(ctx))
	told, enough := context.WithCancel(ctx)
	wg.Go(func() { everyVersion(told, kept, func(reflector.Event[*corev1.Pod]) { enough() }) })
	enough()
	secrets, err := namespaces(cfg)
	must(err)
	wg.Go(func() { secrets.Run(ctx) })
	must(secrets.WaitForSync(ctx))
	if n := secrets.Store().Len(); n != 2 {
		t.Errorf("the union has %d secrets, want those of two namespaces", n)
	}
	must(pool(ctx, cfg))
	must(anyType(cfg))
	_, err = replica(cfg, 1, 3)
	must(err)
	_, err = slim(cfg)
	must(err)
	_, err = observe(lw, http.NewServeMux())
	must(err)
	i, err := informer(cfg)
	must(err)
	if i.HasSynced() {
		t.Error("an informer has synced before it runs")
	}
	_ = logging // sets process-wide loggers
}

// TestEmbeddingTables: there are the two tables that translate, with rows.
func TestEmbeddingTables(t *testing.T) {
	t.Parallel()
	doc := read(t, "docs/embedding.md")
	for _, want := range []string{"## Coming from client-go", "## Coming from controller-runtime"} {
		_, after, ok := strings.Cut(doc, want)
		if rows := strings.Count(strings.SplitN(after, "\n## ", 2)[0], "\n| "); !ok || rows < 10 {
			t.Errorf("%s has %d rows", want, rows)
		}
	}
}
