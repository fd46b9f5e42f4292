package cacheadapter

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// ListerWatcher serves a nodewatch ListerWatcher as client-go's, with and
// without a context. It has watch-list (KEP-3157): client-go's reflector uses
// it where its feature WatchListClient is on.
//
// T has to be what the informer is told to expect, such as *corev1.Pod.
//
// Errors are handed on as they are. Those of a *listwatch.ListerWatcher are
// apierrors.APIStatus, which is how client-go tells an expired
// resourceVersion, a too large one and 429 from the rest, and they unwrap to
// the socket's error, which is how it knows a refused connection.
type ListerWatcher[T runtime.Object] struct {
	lw reflector.ListerWatcher[T]
}

// NewListerWatcher adapts lw, usually a *listwatch.ListerWatcher[T].
func NewListerWatcher[T runtime.Object](lw reflector.ListerWatcher[T]) *ListerWatcher[T] {
	return &ListerWatcher[T]{lw: lw}
}

// ListWithContext makes one LIST request. The result is a *List[T]; when
// opts.Limit cut it short it has a continue token, which client-go's pager follows.
//
// An item that does not decode fails the list, with an error that names it:
// client-go has no place to note it, and would take it for deleted if it were
// left out. A nodewatch reflector does better; see Feed.
func (l *ListerWatcher[T]) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	var items collector[T]
	meta, err := l.lw.List(ctx, opts, &items)
	if err != nil {
		return nil, err
	}
	return &List[T]{ListMeta: meta, Items: items}, nil
}

// WatchWithContext opens one WATCH, which ends with ctx or Stop. See
// streamwatcher.AsWatch for the events it gives.
func (l *ListerWatcher[T]) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	stream, err := l.lw.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return streamwatcher.AsWatch(stream), nil
}

// List is ListWithContext without a way to stop it, for old callers.
func (l *ListerWatcher[T]) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// Watch is WatchWithContext for old callers: only Stop ends it.
func (l *ListerWatcher[T]) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

// collector is the sink of one LIST.
type collector[T any] []T

// Meta ignores the list's metadata; List returns it as well.
func (c *collector[T]) Meta(metav1.ListMeta) error { return nil }

// Item decodes and keeps one item.
func (c *collector[T]) Item(o *decode.Object[T]) error {
	obj, err := o.Decode()
	if err != nil {
		return fmt.Errorf("list item %s at resourceVersion %q: %w", o.Meta.Key(), o.Meta.ResourceVersion, err)
	}
	*c = append(*c, obj)
	return nil
}

// List is the answer to a LIST, in the shape that apimachinery's helpers for
// lists (meta.ExtractList, meta.ListAccessor) understand. It has no kind, as
// client-go's typed lists have none.
type List[T runtime.Object] struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []T
}

// DeepCopyObject implements runtime.Object.
func (l *List[T]) DeepCopyObject() runtime.Object {
	out := &List[T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	if l.Items != nil {
		out.Items = make([]T, len(l.Items))
		for i, item := range l.Items {
			out.Items[i] = item.DeepCopyObject().(T)
		}
	}
	return out
}

var (
	_ cache.ListerWatcher            = (*ListerWatcher[runtime.Object])(nil)
	_ cache.ListerWatcherWithContext = (*ListerWatcher[runtime.Object])(nil)
	_ runtime.Object                 = (*List[runtime.Object])(nil)
	_ metav1.ListInterface           = (*List[runtime.Object])(nil)
	_ metav1.ListMetaAccessor        = (*List[runtime.Object])(nil)
)
