package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// Tracer makes spans of what a reflector does, for a program that traces: an
// adapter to OpenTelemetry is some thirty lines (examples/otel). The attributes
// have the keys of the log's lines.
//
// Promises, with their tests:
//   - The context that Start returns is the one with which the request is made, so that the spans of an
//     instrumented transport (rest.Config.WrapTransport) are its children. Test: TestSpansReachTheTransport.
//   - A Tracer that panics, or returns nil, does not stop the reflector. Test: TestBrokenTracer.
type Tracer interface {
	// Start begins a span, a child of the one in ctx if there is one. The
	// context that it returns comes of ctx and ends with it. The function that it
	// returns is called once, when what the span is of has ended: err is what it
	// failed with, nil for success and for a clean end.
	//
	// Both are called from Run's goroutine, which waits for them. A panic of theirs is caught and logged.
	Start(ctx context.Context, span SpanName, attrs ...slog.Attr) (context.Context, func(err error, attrs ...slog.Attr))
}

// SpanName is what a span is of. The set is closed.
//
// All spans begin with the attributes reflector, resource and rv: the
// resourceVersion that the request names, empty for the newest state. They end
// with outcome: "success", "error" or "stopped" (Run's context ended), with
// reason where an attempt ended with one (package reason), and with what is
// named below.
//
// Promises, with their tests:
//   - Every list, watch-list, relist and watch has its span, and every span is ended once, whenever
//     Run is stopped. Test: TestSpans, TestScriptsStoppedAnywhere.
type SpanName string

const (
	// SpanSync is from the start of Run until the first snapshot: all the lists,
	// watch-lists and waits that it took. Ends with attempts (how many lists and
	// watch-lists), rvAfter and objects.
	SpanSync SpanName = "sync"
	// SpanRelist is the same for each later snapshot: from the end of a watch that
	// cannot be resumed, whose reason it begins with, until the store equals the
	// collection again.
	SpanRelist SpanName = "relist"
	// SpanList is one list with all its pages, a child of SpanSync or SpanRelist.
	// Ends with rvAfter (of the list), items, skipped (items that were in the
	// store already), pages and bytes (of response bodies, as they came).
	SpanList SpanName = "list"
	// SpanWatchList is one watch-list up to the mark that ends the initial events,
	// a child like SpanList. Ends with rvAfter, items, skipped and bytes. The
	// stream goes on after it, and with it the transport's span.
	SpanWatchList SpanName = "watchlist"
	// SpanWatch is one watch, from the request to its end, or from the mark of a
	// watch-list: minutes, as a rule. Ends with rvAfter, events and bytes. A Tracer
	// that does not want these returns ctx and a function that does nothing.
	SpanWatch SpanName = "watch"
)

// spans is what is traced. Only Run's goroutine touches it.
type spans struct {
	// The sync or relist under way; end is nil when there is none.
	ctx      context.Context
	end      func(error, ...slog.Attr)
	attempts int
}

// traced runs the state to its end, in a span of its own if it is a request.
func (r *Reflector[T]) traced(ctx context.Context, s state) exit {
	if r.cfg.Tracer == nil {
		return r.step(ctx, s)
	}
	span, rv := SpanWatch, r.session.rv
	switch s := s.(type) {
	case listing:
		span, rv = SpanList, s.rv
	case watchListing:
		span, rv = SpanWatchList, s.rv
	case watching[T]:
	default:
		return r.step(ctx, s)
	}
	parent := ctx
	if r.spans.end != nil {
		parent = r.spans.ctx
		r.spans.attempts++
	}
	before := r.counts()
	inside, end := r.startSpan(parent, span, slog.String("rv", rv))
	e := r.step(inside, s)
	attrs := append(outcomeAttrs(e), slog.String("rvAfter", r.session.rv))
	end(failureOf(e), append(attrs, r.counts().since(before, span)...)...)
	return e
}

// trace begins and ends what several states belong to: one has been left with e.
func (r *Reflector[T]) trace(ctx context.Context, e exit) {
	if r.cfg.Tracer == nil {
		return
	}
	switch e.next.(type) {
	case watching[T], stopped:
		if r.spans.end == nil {
			return
		}
		r.spans.end(failureOf(e), append(outcomeAttrs(e), slog.String("rvAfter", r.session.rv),
			slog.Int("attempts", r.spans.attempts), slog.Int("objects", r.store.Len()))...)
		r.spans = spans{}
	case listing, watchListing:
		if r.spans.end == nil {
			r.beginSync(ctx, SpanRelist, slog.String("rv", r.session.rv), slog.String("reason", string(e.why)))
		}
	}
}

func (r *Reflector[T]) beginSync(ctx context.Context, span SpanName, attrs ...slog.Attr) {
	if r.cfg.Tracer != nil {
		r.spans.ctx, r.spans.end = r.startSpan(ctx, span, attrs...)
	}
}

// startSpan is the Tracer's Start. One that panics, or returns nil, costs spans and nothing else.
func (r *Reflector[T]) startSpan(ctx context.Context, span SpanName, attrs ...slog.Attr) (inside context.Context, end func(error, ...slog.Attr)) {
	var ended func(error, ...slog.Attr)
	r.tracing(span, func() { inside, ended = r.cfg.Tracer.Start(ctx, span, r.spanAttrs(attrs...)...) })
	if inside == nil {
		inside = ctx
	}
	return inside, func(err error, attrs ...slog.Attr) {
		if ended != nil {
			r.tracing(span, func() { ended(err, attrs...) })
		}
	}
}

// tracing calls a function of the Tracer's.
func (r *Reflector[T]) tracing(span SpanName, call func()) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("tracer panicked", "span", string(span), "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	call()
}

// spanAttrs puts in front of more what every span begins with.
func (r *Reflector[T]) spanAttrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("reflector", r.cfg.Name), slog.String("resource", r.cfg.Resource)}, more...)
}

// failureOf is the error of an exit that is one.
func failureOf(e exit) error {
	if e.why == reason.EOF || e.why == reason.Stopped {
		return nil
	}
	return e.err
}

func outcomeAttrs(e exit) []slog.Attr {
	outcome := success
	switch {
	case e.why == reason.Stopped:
		outcome = "stopped"
	case failureOf(e) != nil:
		outcome = failure
	}
	attrs := []slog.Attr{slog.String("outcome", outcome)}
	if e.why != "" {
		attrs = append(attrs, slog.String("reason", string(e.why)))
	}
	return attrs
}

// spanCounts are counters of the reflector: what a span tells is how far they went.
type spanCounts struct{ items, skips, pages, events, bytes uint64 }

func (r *Reflector[T]) counts() spanCounts {
	c := spanCounts{items: r.seen.items.Load(), skips: r.seen.skips.Load()}
	for i := range r.seen.events {
		c.events += r.seen.events[i].Load()
	}
	r.seen.update(func(_ *Status, s *Stats) { c.pages = s.Lists[success] + s.Lists[failure] })
	if t := transferOf(r.cfg.ListerWatcher); t != nil {
		c.bytes = t.WireBytes()
	}
	return c
}

// since returns the differences that are told of such a span.
func (c spanCounts) since(before spanCounts, span SpanName) []slog.Attr {
	attrs := []slog.Attr{slog.Uint64("bytes", c.bytes-before.bytes)}
	if span == SpanWatch {
		return append(attrs, slog.Uint64("events", c.events-before.events))
	}
	attrs = append(attrs, slog.Uint64("items", c.items-before.items), slog.Uint64("skipped", c.skips-before.skips))
	if span == SpanList {
		attrs = append(attrs, slog.Uint64("pages", c.pages-before.pages))
	}
	return attrs
}
