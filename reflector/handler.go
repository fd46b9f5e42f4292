package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
)

// Handler is a set of functions, one for each type of event. Those that are nil
// are not called. See Event for what each is given: Initial is client-go's isInInitialList,
// and a replay comes to OnUpdate with Replay set.
type Handler[T any] struct {
	// Subscription is what is handled; the zero value is all of the collection.
	Subscription Subscription[T]

	OnAdd    func(Event[T])
	OnUpdate func(Event[T])
	OnDelete func(Event[T])
	OnSynced func(Event[T])
}

func (h Handler[T]) of(t EventType) func(Event[T]) {
	switch t {
	case Added:
		return h.OnAdd
	case Modified:
		return h.OnUpdate
	case Deleted:
		return h.OnDelete
	case Synced:
		return h.OnSynced
	}
	return nil
}

// Handle calls h for each event of a subscription of its own, one after the
// other on the caller's goroutine, with what Events promises and h.Subscription asks for.
// It returns ctx's error joined with its cause when ctx ends, nil when Run has returned
// and all is delivered, or at once what is wrong with the subscription.
//
// A panicking handler is caught, counted, and does not stop the loop: the event
// counts as delivered and is not repeated.
//
// Promises, with their tests:
//   - A panicking handler or transform is caught, counted, and does not stop the loop. Test:
//     TestHandlerPanicIsCaughtAndCounted, C11-panic.txt.
func (r *Reflector[T]) Handle(ctx context.Context, h Handler[T]) error {
	return r.store.handle(ctx, &h, r.log)
}

// handle does not copy h, which would stand on the stack twice for as long as there is nothing to handle.
func (s *Store[T]) handle(ctx context.Context, h *Handler[T], log *slog.Logger) error {
	if err := h.Subscription.Validate(); err != nil {
		return err
	}
	for ev := range s.events(ctx, h.Subscription, log) {
		if call := h.of(ev.Type); call != nil {
			s.guard(ctx, call, ev, log)
		}
	}
	return ctxerr.Of(ctx)
}

// guard makes one call and catches its panic. Of the object the log has the key
// alone; the panic's value is the handler's, who decides what is in it.
func (s *Store[T]) guard(ctx context.Context, call func(Event[T]), ev Event[T], log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			s.delivery.panics.Add(1)
			log.ErrorContext(ctx, "event handler panicked", "event", ev.Type.String(), "key", ev.Key.String(),
				"rv", ev.ResourceVersion, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	call(ev)
}
