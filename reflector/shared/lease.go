package shared

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Lease is a part in a running reflector. It is consumed as the reflector itself is; what it ends with, ends its
// subscriptions too. Its methods are safe from any goroutine.
//
// What is in the store stays readable after the end, and is not kept up to date by this lease any more.
//
// Promises, with their tests:
//   - A lease ends with its context or Close, and so do its subscriptions, not those of others. Test: TestLeaseEnds.
//   - One whose reflector cannot run ends with the error of that. Test: TestSharedStoreIsRefused.
//   - A late lease gets the snapshot first, without a request. Test: TestLateLease.
type Lease[T any] struct {
	pool *Pool[T]
	of   *running[T]
	// ctx is the lease's life.
	ctx    context.Context
	cancel context.CancelCauseFunc
	ran    atomic.Bool
}

func (l *Lease[T]) letGo() { l.pool.letGo(l) }

// Close lets go of the reflector. The last one stops it, and does not wait until it has stopped. It may be
// called more than once.
func (l *Lease[T]) Close() {
	l.cancel(ErrReleased)
	l.letGo()
}

// Run holds the lease until ctx or the lease ends, and then closes it and returns nil. The reflector
// runs without it: Run is there for who takes a reflector.Collection.
func (l *Lease[T]) Run(ctx context.Context) error {
	if l.ran.Swap(true) {
		return reflector.ErrAlreadyRun
	}
	defer l.Close()
	select {
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return nil
}

// Store returns the reflector's store.
func (l *Lease[T]) Store() *reflector.Store[T] { return l.of.reflector.Store() }

// Status and Stats are the reflector's.
func (l *Lease[T]) Status() reflector.Status { return l.of.reflector.Status() }

// Stats is described at Status.
func (l *Lease[T]) Stats() reflector.Stats { return l.of.reflector.Stats() }

// WaitForSync waits until the reflector has its first complete snapshot. It ends with the lease, too. A snapshot that
// is there counts after the end, as it does with a reflector: the result is nil then, and not ErrReleased.
func (l *Lease[T]) WaitForSync(ctx context.Context) error {
	joined, done := l.join(ctx)
	defer done()
	err := l.of.reflector.WaitForSync(joined)
	if errors.Is(err, reflector.ErrStopped) {
		<-l.of.done // where Run failed, the lease has ended with its error then
		if end := l.ended(ctx); end != nil {
			err = fmt.Errorf("%w: %w", err, end)
		}
	}
	return err
}

// Events is the collection and then its changes, until ctx or the lease ends.
func (l *Lease[T]) Events(ctx context.Context) iter.Seq[reflector.Event[T]] {
	return l.Subscribe(ctx, reflector.Subscription[T]{})
}

// Subscribe is Events with what s asks for. Like that of a reflector it panics where s.Validate returns an error, at
// the call and not in the range.
func (l *Lease[T]) Subscribe(ctx context.Context, s reflector.Subscription[T]) iter.Seq[reflector.Event[T]] {
	if err := s.Validate(); err != nil {
		panic(err.Error())
	}
	return func(yield func(reflector.Event[T]) bool) {
		ctx, done := l.join(ctx)
		defer done()
		for ev := range l.of.reflector.Subscribe(ctx, s) {
			if !yield(ev) {
				return
			}
		}
	}
}

// Handle calls h for each event. Its error is that of ctx or of the lease (ErrReleased); nil means that the
// Pool was closed.
func (l *Lease[T]) Handle(ctx context.Context, h reflector.Handler[T]) error {
	joined, done := l.join(ctx)
	defer done()
	err := l.of.reflector.Handle(joined, h)
	if err == nil { // the last lease's end stops the reflector, too
		err = l.ended(ctx)
	}
	return err
}

// ended is the error of ctx, or of the lease, nil while both last. A context that join returned may not know yet.
func (l *Lease[T]) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxerr.Of(ctx)
	}
	return ctxerr.Of(l.ctx)
}

// join returns a context that ends with ctx and with the lease.
func (l *Lease[T]) join(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if l.ctx.Err() != nil { // now, and not soon
		cancel(context.Cause(l.ctx))
	}
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

var (
	_ reflector.Collection[any] = (*Lease[any])(nil)
	_ reflector.Source          = (*Lease[any])(nil)
)
