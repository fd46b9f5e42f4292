package bench

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func (r *remote) target(link loopback.Link, fields loopback.Fields) loopback.Target {
	return loopback.Target{URL: r.URLs[link], Link: link, CA: r.CA, MediaType: r.cfg.MediaType, Fields: fields, WatchList: r.cfg.WatchList}
}

// client is one implementation.
type client struct {
	name  string
	start loopback.Start
}

const (
	implNodewatch = "nodewatch" // as it is by default: objects share parts
	implPrivate   = "nodewatch-private"
	implCompact   = "nodewatch-compact"
	implClientGo  = "client-go"
	implDiscard   = "discard"
)

// clients are those that have a store.
var clients = []client{
	{implNodewatch, loopback.Nodewatch(reflector.ObjectsShared)},
	{implClientGo, startClientGo},
}

// listClients are those whose memory is of interest.
var listClients = []client{
	clients[0],
	{implPrivate, loopback.Nodewatch(reflector.ObjectsPrivate)},
	{implCompact, loopback.Nodewatch(reflector.ObjectsCompact)},
	clients[1],
}

// discard reads the same bytes and does nothing with them: what the transport alone costs.
var discard = client{implDiscard, loopback.Discard}

// watchedStore is client-go's own store, with a count of what the watch changed.
// It drops managedFields as the transform of a controller does, at less cost: there is no queue.
type watchedStore struct {
	cache.Store
	s      *loopback.Session
	drop   bool
	listed int64
	synced chan struct{}
}

func (w *watchedStore) keep(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && w.drop {
		pod.ManagedFields = nil
	}
}

func (w *watchedStore) Update(obj any) error {
	w.keep(obj)
	err := w.Store.Update(obj)
	w.s.Applied.Add(1)
	return err
}

func (w *watchedStore) Replace(list []any, version string) error {
	for _, obj := range list {
		w.keep(obj)
	}
	err := w.Store.Replace(list, version)
	w.listed += int64(len(list))
	select {
	case <-w.synced:
	default:
		close(w.synced)
	}
	return err
}

func newClientGo(at loopback.Target) (cache.ListerWatcher, func(), error) {
	c := &rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}, DisableCompression: at.Link != loopback.Gzip}
	c.ContentType = at.MediaType
	if at.Link == loopback.TLS {
		c.NextProtos = []string{"http/1.1"}
	}
	web, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, nil, err
	}
	cs, err := kubernetes.NewForConfigAndClient(c, web)
	if err != nil {
		return nil, nil, err
	}
	return cache.NewListWatchFromClient(cs.CoreV1().RESTClient(), "pods", specimen.Namespace, fields.Everything()), web.CloseIdleConnections, nil
}

// startClientGo runs a Reflector with a plain store.
func startClientGo(ctx context.Context, at loopback.Target) (*loopback.Session, error) {
	lw, closeIdle, err := newClientGo(at)
	if err != nil {
		return nil, err
	}
	s := &loopback.Session{Applied: loopback.NewCounter()}
	w := &watchedStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), s: s, drop: at.Fields == loopback.Dropped, synced: make(chan struct{})}
	r := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, w, cache.ReflectorOptions{})
	s.Get = func(name string) (*corev1.Pod, bool) {
		obj, ok, _ := w.GetByKey(specimen.Namespace + "/" + name)
		if !ok {
			return nil, false
		}
		return obj.(*corev1.Pod), true
	}
	s.Handed = func() int64 { return w.listed + s.Applied.Load() }
	stop := loopback.Run(ctx, func(ctx context.Context) error { r.RunWithContext(ctx); return nil })
	s.Stop = func() error {
		defer closeIdle()
		return stop()
	}
	select {
	case <-w.synced:
		return s, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), s.Stop())
	}
}

func podOf(obj runtime.Object) (*corev1.Pod, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, errors.New("not a pod: " + obj.GetObjectKind().GroupVersionKind().String())
	}
	return p, nil
}
