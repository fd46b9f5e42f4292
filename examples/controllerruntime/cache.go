package controllerruntime

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/cacheadapter"
)

// CacheOptions returns opts with nodewatch's path beneath the cache's informers:
//
//	opts, err := CacheOptions(cfg, cache.Options{}, Of[*corev1.Pod](), Of[*Widget]())
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Cache: opts})
//
// cfg is the manager's. Everything that opts says is kept to (namespaces, ByObject, selectors,
// transforms, SyncPeriod), except that bookmarks are always asked for.
//
// Go makes a decoder of a type that the program names, and of no other: of the types of
// builtin and custom resources those that are given. They are read from protobuf where they have it,
// else from JSON. Unstructured and metadata only need no naming. An informer of any other
// type is controller-runtime's own.
func CacheOptions(cfg *rest.Config, opts cache.Options, types ...Type) (cache.Options, error) {
	if opts.HTTPClient == nil {
		var err error
		if opts.HTTPClient, err = rest.HTTPClientFor(cfg); err != nil {
			return opts, err
		}
	}
	opts.HTTPClient = withProbe(opts.HTTPClient)
	types = append(types, Of[*unstructured.Unstructured](), Of[*metav1.PartialObjectMetadata]())
	newInformer := opts.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	opts.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		for _, t := range types {
			if !t.is(obj) {
				continue
			}
			collection, err := collectionOf(cfg, lw)
			if err != nil {
				// There is no way to return it: the informer tells it at each attempt to list.
				return newInformer(failing(err), obj, resync, indexers)
			}
			ours, done, err := t.open(collection)
			if err != nil {
				return newInformer(failing(err), obj, resync, indexers)
			}
			return informer{newInformer(ours, obj, resync, indexers), obj, done}
		}
		return newInformer(lw, obj, resync, indexers)
	}
	return opts, nil
}

// Type is a Go type whose informers get nodewatch's path; see [Of].
type Type interface {
	is(obj runtime.Object) bool
	open(c listwatch.Config) (toolscache.ListerWatcher, func(), error)
}

// Of names T, a pointer to the struct of one kind, such as *corev1.Pod.
func Of[T client.Object]() Type { return of[T]{} }

type of[T client.Object] struct{}

func (of[T]) is(obj runtime.Object) bool {
	_, ok := obj.(T)
	return ok
}

func (of[T]) open(c listwatch.Config) (toolscache.ListerWatcher, func(), error) {
	lw, err := listwatch.New[T](c)
	if err != nil {
		return nil, nil, err
	}
	return cacheadapter.NewListerWatcher[T](lw), lw.Close, nil
}

// failing is a ListerWatcher that has nothing but an error.
func failing(err error) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, err },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, err
		},
	}
}

// informer is client-go's informer of one of the named types.
type informer struct {
	toolscache.SharedIndexInformer
	obj  runtime.Object
	done func() // called when it has run
}

func (i informer) Run(stop <-chan struct{}) {
	defer i.done()
	i.SharedIndexInformer.Run(stop)
}

func (i informer) RunWithContext(ctx context.Context) {
	defer i.done()
	i.SharedIndexInformer.RunWithContext(ctx)
}

// SetTransform is called by the cache for each informer, with nil where there is nothing
// to transform. What is metadata only says on the wire that its kind is PartialObjectMetadata;
// here it learns what it is the metadata of, as controller-runtime's own way does.
func (i informer) SetTransform(f toolscache.TransformFunc) error {
	of, ok := i.obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return i.SharedIndexInformer.SetTransform(f)
	}
	return i.SharedIndexInformer.SetTransform(func(o any) (any, error) {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			m.TypeMeta = of.TypeMeta
		}
		if f == nil {
			return o, nil
		}
		return f(o)
	})
}

// collectionOf returns where lw's requests go. lw has the resource, the namespace
// and the selectors that the cache chose, and shows none of them; but it can be
// asked to make a request, which the probe in the cache's HTTP client notes and
// does not send.
func collectionOf(cfg *rest.Config, lw toolscache.ListerWatcher) (listwatch.Config, error) {
	var seen probed
	ctx := context.WithValue(context.Background(), probeKey{}, &seen)
	_, err := toolscache.ToListerWatcherWithContext(lw).ListWithContext(ctx, metav1.ListOptions{})
	if seen.url == nil {
		return listwatch.Config{}, fmt.Errorf("the informer's list did not come as far as the cache's HTTP client: %w", err)
	}
	c, err := parse(cfg, seen.url)
	if err != nil {
		return listwatch.Config{}, fmt.Errorf("the informer's list asks for %s: %w", seen.url.Path, err)
	}
	c.REST = cfg
	return c, nil
}

func withProbe(c *http.Client) *http.Client {
	probing := *c
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	probing.Transport = probe{next}
	return &probing
}
