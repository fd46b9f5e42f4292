package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// TestScenario lets two controllers work through creates, updates and deletes and a restart of
// the API server: on controller-runtime's default cache, on the same cache
// with nodewatch's path beneath, and with one of them on a nodewatch reflector.
// All have to come to the same end, with caches that equal the server.
func TestScenario(t *testing.T) {
	srv := startServer(t)
	var worlds []*world
	for _, kind := range []string{"plain", "cache", "source"} {
		worlds = append(worlds, newWorld(t, srv.cfg, kind))
	}
	each := func(do func(*world)) {
		var wg sync.WaitGroup
		for _, w := range worlds {
			wg.Go(func() { do(w) })
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	each(func(w *world) { w.populate(); w.start(); w.settle(w.atFirst()) })
	srv.restart()
	each(func(w *world) { w.change(); w.settle(w.afterChange()); w.compareCache() })
	want := worlds[0].result()
	for _, w := range worlds[1:] {
		if diff := cmp.Diff(want, w.result()); diff != "" {
			t.Errorf("%s ended otherwise than the default cache:\n%s", w.kind, diff)
		}
	}
	// Who asked: the default cache's client has lists and watches of the cache, that of nodewatch's
	// path sends none, as they all go another way.
	for _, w := range worlds {
		if n := w.collectionRequests.Load(); (n == 0) != (w.kind == "cache") {
			t.Errorf("%s: the cache's HTTP client sent %d lists and watches", w.kind, n)
		}
	}
}

// world is one manager, in a namespace of its own.
type world struct {
	t    *testing.T
	kind string
	mgr  manager.Manager
	api  client.Client // without a cache
	// configMaps is where the first controller reads.
	configMaps func(context.Context, types.NamespacedName) (*corev1.ConfigMap, error)
	// collectionRequests is how many lists and watches the cache's HTTP client sent.
	collectionRequests atomic.Int64
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T, cfg *rest.Config, kind string) *world {
	t.Helper()
	w := &world{t: t, kind: kind}
	scheme := newScheme()
	var err error
	w.api, err = client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	must(t, w.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kind}}))

	// The cache sees one namespace, and of its ConfigMaps those with a label.
	http, err := rest.HTTPClientFor(cfg)
	must(t, err)
	http.Transport = counting{http.Transport, &w.collectionRequests}
	opts := cache.Options{
		HTTPClient:        http,
		DefaultNamespaces: map[string]cache.Config{kind: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: mine}},
	}
	if kind == "cache" {
		opts, err = CacheOptions(cfg, opts, Of[*corev1.ConfigMap](), Of[*Widget]())
		must(t, err)
	}
	w.mgr, err = ctrl.NewManager(cfg, ctrl.Options{
		Scheme:     scheme,
		Cache:      opts,
		Client:     client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	must(t, err)
	if kind == "source" {
		must(t, w.controlConfigMapsOfReflector(cfg))
	} else {
		must(t, w.controlConfigMaps())
	}
	must(t, w.controlWidgets())
	return w
}

var mine = labels.SelectorFromSet(labels.Set{"app": "scenario"})

// counting counts lists and watches.
type counting struct {
	http.RoundTripper
	collections *atomic.Int64
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, collection := range []string{"/configmaps", "/widgets", "/secrets"} {
		if strings.HasSuffix(req.URL.Path, collection) {
			c.collections.Add(1)
		}
	}
	return c.RoundTripper.RoundTrip(req)
}

// controlConfigMaps watches ConfigMaps as everybody does.
func (w *world) controlConfigMaps() error {
	w.configMaps = func(ctx context.Context, key types.NamespacedName) (*corev1.ConfigMap, error) {
		var cm corev1.ConfigMap
		return &cm, w.mgr.GetClient().Get(ctx, key, &cm)
	}
	return builder.ControllerManagedBy(w.mgr).Named("upper").For(&corev1.ConfigMap{}).Complete(reconcile.Func(w.upper))
}

// controlConfigMapsOfReflector watches them with a nodewatch reflector that the
// manager runs.
func (w *world) controlConfigMapsOfReflector(cfg *rest.Config) error {
	lw, err := listwatch.New[*corev1.ConfigMap](listwatch.Config{
		REST: cfg, Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: w.kind, LabelSelector: mine,
	})
	if err != nil {
		return err
	}
	r, err := reflector.New(reflector.Config[*corev1.ConfigMap]{ListerWatcher: lw, OnStop: lw.Close})
	if err != nil {
		return err
	}
	w.configMaps = func(_ context.Context, key types.NamespacedName) (*corev1.ConfigMap, error) {
		cm, ok := r.Store().Get(key.Namespace, key.Name)
		if !ok {
			return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
		}
		return cm.DeepCopy(), nil // shared
	}
	if err := w.mgr.Add(Runnable{r}); err != nil {
		return err
	}
	return builder.ControllerManagedBy(w.mgr).Named("upper").
		WatchesRawSource(NewSource(r, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})).
		Complete(reconcile.Func(w.upper))
}

// upper writes data.out, data.in in capitals.
func (w *world) upper(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cm, err := w.configMaps(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	out := strings.ToUpper(cm.Data["in"])
	if cm.Data["out"] == out {
		return reconcile.Result{}, nil
	}
	cm.Data["out"] = out
	return reconcile.Result{}, w.mgr.GetClient().Update(ctx, cm)
}

// controlWidgets watches a custom resource, and the metadata of Secrets.
func (w *world) controlWidgets() error {
	ofSameName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if kind := o.GetObjectKind().GroupVersionKind(); kind != secretMetadata().GroupVersionKind() {
			w.t.Errorf("%s: the metadata of a Secret says that it is of a %s", w.kind, kind)
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	return builder.ControllerManagedBy(w.mgr).Named("widgets").For(&Widget{}).
		WatchesMetadata(&corev1.Secret{}, ofSameName).
		Complete(reconcile.Func(w.phase))
}

// phase writes into a Widget's status whether there is a Secret of its name.
func (w *world) phase(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var widget Widget
	if err := w.mgr.GetClient().Get(ctx, req.NamespacedName, &widget); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	secret := secretMetadata()
	phase := "ready"
	switch err := w.mgr.GetClient().Get(ctx, req.NamespacedName, secret); {
	case apierrors.IsNotFound(err):
		phase = "waiting"
	case err != nil:
		return reconcile.Result{}, err
	}
	if widget.Status.Phase == phase {
		return reconcile.Result{}, nil
	}
	widget.Status.Phase = phase
	return reconcile.Result{}, w.mgr.GetClient().Status().Update(ctx, &widget)
}

func secretMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return m
}

// start runs the manager until the test ends.
func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("%s: the manager ended with %v", w.kind, err)
		}
	})
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.kind, Name: name, Labels: map[string]string{"app": "scenario"}}
}

func (w *world) create(o client.Object) {
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Errorf("%s: %v", w.kind, err)
	}
}

func (w *world) remove(o client.Object) {
	if err := w.api.Delete(w.t.Context(), o); err != nil {
		w.t.Errorf("%s: %v", w.kind, err)
	}
}

const count = 20

func (w *world) populate() {
	for i := range count {
		w.create(&corev1.ConfigMap{ObjectMeta: w.meta(fmt.Sprint("c", i)), Data: map[string]string{"in": fmt.Sprint("first-", i)}})
	}
	foreign := &corev1.ConfigMap{ObjectMeta: w.meta("foreign"), Data: map[string]string{"in": "not mine"}}
	foreign.Labels = nil
	w.create(foreign)
	for i := range 4 {
		w.create(&Widget{ObjectMeta: w.meta(fmt.Sprint("w", i)), Spec: WidgetSpec{Size: int64(i)}})
	}
	for i := range 2 {
		w.create(&corev1.Secret{ObjectMeta: w.meta(fmt.Sprint("w", i))})
	}
}

func (w *world) atFirst() map[string]string {
	want := map[string]string{
		"foreign": "not mine to ", "w0": "0 ready", "w1": "1 ready", "w2": "2 waiting", "w3": "3 waiting",
	}
	for i := range count {
		want[fmt.Sprint("c", i)] = fmt.Sprintf("first-%d to FIRST-%d", i, i)
	}
	return want
}

// change is made while the caches come back from the restart.
func (w *world) change() {
	for i := range count {
		cm := &corev1.ConfigMap{ObjectMeta: w.meta(fmt.Sprint("c", i))}
		if i%4 == 0 {
			w.remove(cm)
			continue
		}
		if i%2 == 0 {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"in":"second"}}`))
			if err := w.api.Patch(w.t.Context(), cm, patch); err != nil {
				w.t.Errorf("%s: %v", w.kind, err)
			}
		}
	}
	w.remove(&corev1.Secret{ObjectMeta: w.meta("w0")})
	w.create(&corev1.Secret{ObjectMeta: w.meta("w3")})
	w.remove(&Widget{ObjectMeta: w.meta("w1")})
	w.create(&Widget{ObjectMeta: w.meta("w4"), Spec: WidgetSpec{Size: 4}})
}

func (w *world) afterChange() map[string]string {
	want := w.atFirst()
	for i := range count {
		switch name := fmt.Sprint("c", i); {
		case i%4 == 0:
			delete(want, name)
		case i%2 == 0:
			want[name] = "second to SECOND"
		}
	}
	delete(want, "w1")
	maps.Copy(want, map[string]string{"w0": "0 waiting", "w3": "3 ready", "w4": "4 waiting"})
	return want
}

// result is what the server has: each ConfigMap's and Widget's content by name.
func (w *world) result() map[string]string {
	got, err := w.read(w.api)
	if err != nil {
		w.t.Errorf("%s: %v", w.kind, err)
	}
	return got
}

func (w *world) read(from client.Reader) (map[string]string, error) {
	got := make(map[string]string)
	var cms corev1.ConfigMapList
	var all WidgetList
	if err := errors.Join(from.List(w.t.Context(), &cms, client.InNamespace(w.kind)), from.List(w.t.Context(), &all, client.InNamespace(w.kind))); err != nil {
		return nil, err
	}
	for _, cm := range cms.Items {
		if cm.Name != "kube-root-ca.crt" { // the API server's own
			got[cm.Name] = cm.Data["in"] + " to " + cm.Data["out"]
		}
	}
	for _, o := range all.Items {
		got[o.Name] = fmt.Sprint(o.Spec.Size, " ", o.Status.Phase)
	}
	return got, nil
}

// settle waits until the server has what is wanted.
func (w *world) settle(want map[string]string) {
	var diff string
	await(w.t, func() bool {
		diff = cmp.Diff(want, w.result())
		return diff == ""
	}, func() { w.t.Errorf("%s: the controllers did not come to their end:\n%s", w.kind, diff) })
}

// await asks ok again and again, and calls failed when it takes too long.
func await(t *testing.T, ok func() bool, failed func()) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			failed()
			return
		case <-tick.C:
		}
	}
}

// compareCache waits until the cache reads as the server does: typed, custom, metadata
// only and unstructured, each with its resourceVersion and kind.
func (w *world) compareCache() {
	widgets := &unstructured.UnstructuredList{}
	widgets.SetGroupVersionKind(widgetVersion.WithKind("WidgetList"))
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &WidgetList{}, secrets, widgets} {
		var diff string
		await(w.t, func() bool {
			cached, err := w.objects(w.mgr.GetClient(), list)
			live, apiErr := w.objects(w.api, list)
			diff = cmp.Diff(live, cached) + fmt.Sprint(err, apiErr)
			return diff == "<nil> <nil>" && len(live) > 0
		}, func() { w.t.Errorf("%s: the cached %T differs from the server's:\n%s", w.kind, list, diff) })
	}
}

// objects lists into a copy of list, and returns what came by name.
func (w *world) objects(from client.Reader, list client.ObjectList) (map[string]client.Object, error) {
	list = list.DeepCopyObject().(client.ObjectList)
	err := from.List(w.t.Context(), list, client.InNamespace(w.kind), client.MatchingLabelsSelector{Selector: mine})
	got := make(map[string]client.Object)
	switch l := list.(type) {
	case *corev1.ConfigMapList:
		for _, o := range l.Items {
			got[o.Name] = typed(&o)
		}
	case *WidgetList:
		for _, o := range l.Items {
			got[o.Name] = typed(&o)
		}
	case *metav1.PartialObjectMetadataList:
		for _, o := range l.Items {
			o.TypeMeta = metav1.TypeMeta{} // see controlWidgets
			got[o.Name] = &o
		}
	case *unstructured.UnstructuredList:
		for _, o := range l.Items {
			got[o.GetName()] = &o
		}
	}
	return got, err
}

// typed leaves out the kind, which only the cache sets.
func typed[T client.Object](o T) T {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return o
}
