package reflector

import (
	"context"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// A burst is the events of a watch (of a watch-list: see initialEvents) that came at once, so that Run's goroutine does not wait for any of them: after an outage,
// or when a controller writes to each object. Behind the first few they go through a line, as the items of a list do.
//
// Whatever else there is to do is done when the line is empty: an event in it is in the store, and its resourceVersion counts, before
// the next event is waited for, before an event of another type is dealt with, and before the watch ends. So an event
// that comes alone is decoded where it is read, and nothing that can be seen depends on how the stream was cut
// into reads.
//
// When the context ends, what is in the line is given up, and nothing that came after it is applied.
type burst[T any] struct {
	r     *Reflector[T]
	ctx   context.Context
	a     *attempt[T]
	line  *line[T]      // of this burst; nil before it is long enough
	came  int           // news behind which more had come, up to the first that went into the line
	ended error         // the context ended while there was a line
	mark  time.Duration // of store.waited
}

// beginBurst makes ready for the events of a.
//
//go:noinline
func (r *Reflector[T]) beginBurst(ctx context.Context, a *attempt[T]) {
	a.burst = &burst[T]{r: r, ctx: ctx, a: a, mark: r.store.waited}
	a.sw.OnWait(a.burst.end)
}

// add takes the object of an event that is news into the line. If it returns false the line is empty.
func (b *burst[T]) add(ev *streamwatcher.Event[T], old *entry[T]) bool {
	if b == nil || b.r.shape.workers < 2 || b.line == nil && !b.a.sw.More() {
		return false
	}
	if b.came++; b.came <= b.r.shape.first {
		return false
	}
	if b.line == nil {
		b.line = &line[T]{r: b.r, ctx: b.ctx, settle: b.settle, came: b.r.shape.first}
	}
	return b.line.add(&ev.Object, old)
}

// await makes sure that no version of the object is on its way. An error is why the event that is to be dealt with is
// not.
func (b *burst[T]) await(k decode.Key) error {
	if b == nil {
		return nil
	}
	if b.line != nil {
		b.line.await(k)
	}
	return b.over()
}

// drain empties the line. An error is as of await.
func (b *burst[T]) drain() error {
	if b == nil {
		return nil
	}
	if b.line != nil {
		b.line.drain()
	}
	return b.over()
}

// over returns an error once something in the line may have been given up.
func (b *burst[T]) over() error {
	if b.line != nil && b.ended == nil && b.ctx.Err() != nil {
		b.ended = &fault{reason.Stopped, context.Cause(b.ctx)}
	}
	return b.ended
}

// end ends the burst: what comes next is waited for.
func (b *burst[T]) end() {
	b.came = 0
	if b.line != nil {
		b.line.close()
		_ = b.over() // which the next event will be told
		b.line = nil
	}
}

// settle takes an object that was decoded.
func (b *burst[T]) settle(j *job[T]) {
	b.r.applyNews(b.a, j.old, &j.o.Meta, &j.c, j.err)
	b.noteWaited()
}

// noteWaited notes that the time for which subscribers were waited for is no part of the watch's cadence.
func (b *burst[T]) noteWaited() {
	waited := b.r.store.waited
	b.a.cadence.waited += waited - b.mark
	b.mark = waited
}
