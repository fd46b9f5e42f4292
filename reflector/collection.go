package reflector

import (
	"context"
	"iter"
)

// Collection is what a consumer needs of a collection, whoever keeps it: a Reflector, one of several
// in a Union, or one that others have a part in. Code that takes a Collection and not a *Reflector
// works with all of them.
//
// One goroutine calls Run, and only once; all other methods are safe from any goroutine, before, while
// and after it runs. What each of them promises stands at Reflector's.
type Collection[T any] interface {
	// Run keeps the Store equal to the collection until ctx ends, and then returns nil.
	Run(ctx context.Context) error
	// WaitForSync waits until the Store has all of the collection. Its error says what is missing
	// and why; errors.As finds the *listwatch.Error.
	WaitForSync(ctx context.Context) error
	// Store has the objects, which are shared and immutable.
	Store() *Store[T]
	// Events is the collection and then its changes, for each range anew.
	Events(ctx context.Context) iter.Seq[Event[T]]
	// Subscribe is Events with what s asks for.
	Subscribe(ctx context.Context, s Subscription[T]) iter.Seq[Event[T]]
	// Handle calls h for each event, and catches its panics.
	Handle(ctx context.Context, h Handler[T]) error
}

var _ Collection[any] = (*Reflector[any])(nil)
