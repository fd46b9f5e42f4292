package controllerruntime

import (
	"context"
	"errors"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// Source is a source.TypedSyncingSource that tells a controller what happens in
// a collection. It does not run the collection: see [Runnable].
type Source[T client.Object, R comparable] struct {
	collection reflector.Collection[T]
	handler    handler.TypedEventHandler[T, R]
	predicates []predicate.TypedPredicate[T]
	delivered  chan struct{} // closed when the handler has had the first snapshot
}

// NewSource returns a source that tells h what happens in c, where all of
// predicates agree. It is started once, by the controller that it is given to:
//
//	builder.ControllerManagedBy(mgr).Named("pods").
//		WatchesRawSource(NewSource(c, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})).
func NewSource[T client.Object, R comparable](c reflector.Collection[T], h handler.TypedEventHandler[T, R], predicates ...predicate.TypedPredicate[T]) *Source[T, R] {
	return &Source[T, R]{collection: c, handler: h, predicates: predicates, delivered: make(chan struct{})}
}

// Start begins a subscription that ends with ctx. It does not block. A panic of
// the handler is caught and counted, see reflector.Collection's Handle.
func (s *Source[T, R]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R]) error {
	first := true
	go func() {
		// The error is that of ctx, which the controller knows.
		_ = s.collection.Handle(ctx, reflector.Handler[T]{
			OnAdd: func(ev reflector.Event[T]) {
				e := event.TypedCreateEvent[T]{Object: ev.Object, IsInInitialList: ev.Initial}
				if s.all(func(p predicate.TypedPredicate[T]) bool { return p.Create(e) }) {
					s.handler.Create(ctx, e, queue)
				}
			},
			OnUpdate: func(ev reflector.Event[T]) {
				e := event.TypedUpdateEvent[T]{ObjectOld: ev.Old, ObjectNew: ev.Object}
				if s.all(func(p predicate.TypedPredicate[T]) bool { return p.Update(e) }) {
					s.handler.Update(ctx, e, queue)
				}
			},
			OnDelete: func(ev reflector.Event[T]) {
				e := event.TypedDeleteEvent[T]{Object: ev.Object, DeleteStateUnknown: ev.FinalStateUnknown}
				if s.all(func(p predicate.TypedPredicate[T]) bool { return p.Delete(e) }) {
					s.handler.Delete(ctx, e, queue)
				}
			},
			OnSynced: func(reflector.Event[T]) {
				if first {
					first = false
					close(s.delivered)
				}
			},
		})
	}()
	return nil
}

// WaitForSync waits until the handler has been told the whole first snapshot, so
// that no worker starts before. When ctx passes its deadline before that, the
// error says why (errors.As finds the *listwatch.Error); when it is cancelled,
// the manager stops, and that is none.
func (s *Source[T, R]) WaitForSync(ctx context.Context) error {
	err := s.collection.WaitForSync(ctx)
	if err == nil {
		select {
		case <-s.delivered:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

func (s *Source[T, R]) all(agrees func(predicate.TypedPredicate[T]) bool) bool {
	for _, p := range s.predicates {
		if !agrees(p) {
			return false
		}
	}
	return true
}

var _ source.SyncingSource = (*Source[client.Object, reconcile.Request])(nil)
