package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// ErrAlreadyRun is what a second Run returns: a reflector is run once.
//
// Promises, with their tests:
//   - Run twice is an error. Test: TestRunTwice.
var ErrAlreadyRun = errors.New("reflector: Run was called before; make a new Reflector")

// ErrStopped is what WaitForSync returns when Run ended before the first snapshot.
var ErrStopped = errors.New("reflector: stopped before the first snapshot")

// ErrEnded is what Union.Set returns after Run has ended.
var ErrEnded = errors.New("reflector: Run has ended; make a new Union")

// Reflector keeps a Store equal to a collection on the server. See the package
// comment for what it guarantees. Its methods are safe from any goroutine.
type Reflector[T any] struct {
	cfg      Config[T] // with defaults, never changed
	log      *slog.Logger
	resource schema.GroupVersionResource // zero when the ListerWatcher does not say
	store    *Store[T]
	seen     *observed
	ran      atomic.Bool
	synced   chan struct{} // closed at the first snapshot
	done     chan struct{} // closed when Run returns

	shape lineShape // tests have others
	among among     // nil where this is a member of no union

	// Only Run's goroutine touches these.
	session session
	backoff backoff
	kind    string // expected of objects; empty until it is known
	// What was told of refusals and of failures.
	denial   denial
	failures failures
	spans    spans
}

// New returns a Reflector that has not started. An error tells every fault of c at once.
func New[T any](c Config[T]) (*Reflector[T], error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &Reflector[T]{
		cfg:     c,
		log:     c.Logger.With("reflector", c.Name, "resource", c.Resource),
		store:   c.Store,
		synced:  make(chan struct{}),
		done:    make(chan struct{}),
		backoff: backoff{min: c.Backoff.Min, max: c.Backoff.Max, rand: c.Rand},
		kind:    c.Kind,
		shape:   newLineShape(),
	}
	r.resource, _ = resourceOf(c.ListerWatcher)
	r.seen = newObserved(c.Name, c.Resource, r.sync("").name())
	return r, nil
}

// Run lists and watches until ctx ends, and then returns nil: an end that the
// caller asked for is not an error. There is no other end; whatever the server
// does is retried. The only errors are ErrAlreadyRun, and that of a Store which
// another reflector fills.
//
// A resourceVersion that was refused is accepted again only from a read of the
// newest state, which is the truth whatever its number.
//
// "Everything stops within 100 ms of its context, from any point, leaks no
// goroutine and no socket." Run needs no goroutine but the caller's, except that large
// lists, and bursts of a watch, are decoded by up to four more, which end with the list or burst. Transform, Accept
// and the functions of indexes are called from the caller's and are waited for; a decoder
// of the caller's may be called from several at a time. A RoundTripper or an exec
// plugin of the caller's that ignores its context is not waited for: it keeps the
// goroutine that it was called in until it returns.
//
// Promises, with their tests:
//   - Any end of a watch (END, FIN, RST, 5xx, GOAWAY, idle) re-watches at the last RV. Test: D11-END.txt,
//     D11-FIN.txt, D11-RST.txt, D11-500.txt, D1.txt, D11-watchlist.txt.
//   - Only 410/Expired, RV regression, replay or too-large RV lead to a list. Test: TestSessionCycle,
//     A4-http.txt, A11-restored-etcd.txt, F9-replay.txt, A3-in-stream.txt. What else does, so that it is
//     never stuck: minutes of silence although bookmarks were asked for, four watches in a row that are
//     rejected or make no sense, and a server that names no RV to resume at.
//   - An RV that was refused is never accepted again: the second list of a cycle goes without RV. Test:
//     TestSessionCycle, A1.txt, A2.txt.
//   - Everything stops within 100 ms of its context, from any point (dial, header wait, mid-body, backoff,
//     handler), leaks no goroutine and no socket. Test: TestStopFromAnyPoint, TestScriptsStoppedAnywhere,
//     TestStopFromAnyPoint.
func (r *Reflector[T]) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if !r.store.claim() {
		return r.refuse()
	}
	defer r.end()
	for s := r.begin(ctx); s != nil; {
		s = r.pass(ctx, s)
	}
	return nil
}

// A reflector that watches has the frames of Run, pass and follow on its stack for nearly all of its life, and the
// runtime doubles a stack that they do not fit into. So what they call seldom is not inlined
// in them. See bench/idle.

// refuse is Run where the store has another reflector.
//
//go:noinline
func (r *Reflector[T]) refuse() error {
	r.leave()
	return fmt.Errorf("reflector %s: its Store is filled by another reflector; give each its own", r.cfg.Name)
}

// begin returns the first state.
//
//go:noinline
func (r *Reflector[T]) begin(ctx context.Context) state {
	if r.cfg.Registry != nil {
		r.cfg.Registry.add(r)
	}
	r.store.stop = ctx.Done()
	r.store.retain(r.cfg.Retain)
	s := r.sync("")
	r.enter(s)
	r.beginSync(ctx, SpanSync, slog.String("rv", ""))
	return s
}

// end undoes begin.
//
//go:noinline
func (r *Reflector[T]) end() {
	defer r.leave()
	if r.cfg.Registry != nil {
		defer r.cfg.Registry.remove(r)
	}
	r.store.end()
}

// leave tells that Run returns.
//
//go:noinline
func (r *Reflector[T]) leave() {
	defer close(r.done)
	if r.cfg.OnStop != nil {
		r.cfg.OnStop()
	}
}

// pass runs a state to its end and returns the next one, nil after the last.
func (r *Reflector[T]) pass(ctx context.Context, s state) state {
	w, ok := s.(watching[T])
	if !ok || r.cfg.Tracer != nil {
		return r.passAside(ctx, s)
	}
	a, err := r.reopen(ctx, w)
	if err == nil {
		err = r.follow(ctx, a)
	}
	return r.passOn(ctx, s, a, err)
}

// passOn leaves a watch.
//
//go:noinline
func (r *Reflector[T]) passOn(ctx context.Context, s state, a *attempt[T], err error) state {
	return r.transition(ctx, s, r.watchEnded(ctx, a, err))
}

// passAside is pass for states that do not last, and where there is a Tracer.
//
//go:noinline
func (r *Reflector[T]) passAside(ctx context.Context, s state) state {
	if _, last := s.(stopped); last {
		return nil
	}
	return r.transition(ctx, s, r.traced(ctx, s))
}

// state is what the machine is doing: one of listing, watchListing, watching,
// backingOff and stopped. Each carries only what is valid in it.
type state interface {
	name() State
	// detail is a sentence for Status.Detail, or empty.
	detail() string
}

// exit is how a state was left.
type exit struct {
	// why the attempt ended; empty when it did what it was for (a complete
	// list), or when there was none (a wait that is over).
	why  reason.Reason
	err  error
	next state
	pace pace
	hint time.Duration // the server's Retry-After
}

// step runs the state to its end.
func (r *Reflector[T]) step(ctx context.Context, s state) exit {
	switch s := s.(type) {
	case listing:
		return r.list(ctx, s)
	case watchListing:
		return r.watchList(ctx, s)
	case watching[T]:
		return r.watch(ctx, s)
	case backingOff:
		return r.wait(ctx, s)
	}
	return exit{next: stopped{}}
}

// transition leaves a state: it is the one place where a wait is put between
// two states, and where the end of an attempt is counted, logged and published.
func (r *Reflector[T]) transition(ctx context.Context, from state, e exit) state {
	if ctx.Err() != nil {
		if w, ok := e.next.(watching[T]); ok && w.open != nil {
			r.close(w.open)
		}
		e = exit{why: reason.Stopped, err: context.Cause(ctx), next: stopped{}}
	}
	switch e.why {
	case reason.RVRegressed, reason.RVTooLarge, reason.Replay:
		r.session.doubt = true
	}
	now := time.Now()
	attempt := r.backoff.waits + 1
	var delay time.Duration
	if _, waited := from.(backingOff); !waited {
		delay = r.backoff.next(e.pace, e.hint)
	}
	next := e.next
	if delay > 0 {
		next = backingOff{until: now.Add(delay), delay: delay, then: e.next, quiet: e.pace == quiet}
	}
	if e.why != "" {
		r.seen.update(func(s *Status, c *Stats) {
			c.Restarts[e.why]++
			s.LastRestart = &Restart{Reason: e.why, At: now, Err: e.err}
			if e.why == reason.EOF {
				s.LastRestart.Err = nil
			}
			if s.LastRestart.Err != nil && e.why != reason.Stopped {
				s.LastError = e.err
			}
		})
	}
	r.report(ctx, from, e, next, delay, attempt)
	r.trace(ctx, e)
	r.enter(next)
	return next
}

// enter publishes the state.
func (r *Reflector[T]) enter(s state) {
	now := time.Now()
	r.seen.update(func(st *Status, c *Stats) {
		st.State, st.Since, st.Detail = s.name(), now, s.detail()
		st.ResourceVersion = r.session.rv
		st.NextAttempt, c.BackoffDelay = time.Time{}, 0
		if b, ok := s.(backingOff); ok {
			st.NextAttempt, c.BackoffDelay = b.until, b.delay
		}
	})
}

// sync returns the state that reads the collection anew: a watch-list where the
// server has it, else a list. rv is the resourceVersion that it may not be
// older than; empty asks for the newest there is.
func (r *Reflector[T]) sync(rv string) state {
	if r.cfg.InitialSync == InitialList || time.Now().Before(r.session.listOnly) {
		return listing{rv: rv}
	}
	return watchListing{rv: rv}
}

// relist is the exit of a watch that cannot be resumed.
func (r *Reflector[T]) relist(why reason.Reason, err error, rv string, p pace) exit {
	return exit{why: why, err: err, next: r.sync(rv), pace: p}
}

// complete notes a snapshot that is in the store: the collection as it was at
// rv, asked for at the time asked.
func (r *Reflector[T]) complete(rv string, asked, fresh time.Time, res replaceResult) {
	r.session.synced(rv)
	r.seen.listed.Store(0)
	r.seen.lists.observe(time.Since(asked))
	r.seen.update(func(s *Status, _ *Stats) {
		s.Synced, s.FreshAsOf, s.ResourceVersion = true, fresh, rv
		s.RemainingItems = 0
	})
	r.log.Info("synced", "rv", rv, "objects", r.store.Len(), "added", res.added, "modified", res.modified,
		"deleted", res.deleted, "unchanged", res.unchanged)
	select {
	case <-r.synced:
	default:
		close(r.synced)
	}
}

// WaitForSync waits for the first complete snapshot. When ctx ends before that,
// the error joins ctx's own, its cause, and the last attempt's, so that errors.As
// finds the *listwatch.Error that says why. When Run ends before that it is ErrStopped. Where Run was not
// called, the error says so.
func (r *Reflector[T]) WaitForSync(ctx context.Context) error {
	err := waitFor(ctx, r.synced, r.done)
	if err == nil {
		return nil
	}
	if last := r.Status().LastError; last != nil {
		return fmt.Errorf("%s not synced: %w; last attempt: %w", r.cfg.Name, err, last)
	}
	if !r.ran.Load() {
		return fmt.Errorf("%s not synced: %w: Run was not called", r.cfg.Name, err)
	}
	return fmt.Errorf("%s not synced: %w", r.cfg.Name, err)
}

// waitFor waits for synced to be closed; when ctx ends, or Run has, before that, the error says so.
func waitFor(ctx context.Context, synced, ended <-chan struct{}) error {
	var err error
	select {
	case <-synced:
		return nil
	case <-ctx.Done():
		err = ctxerr.Of(ctx)
	case <-ended:
		err = ErrStopped
	}
	// Both may be ready; a snapshot that is there counts.
	select {
	case <-synced:
		return nil
	default:
		return err
	}
}

// Store returns the store.
func (r *Reflector[T]) Store() *Store[T] { return r.store }

// Status returns a copy of what the reflector knows of itself.
func (r *Reflector[T]) Status() Status {
	s := r.seen.statusCopy()
	s.Objects = r.store.Len()
	if waits := r.store.blocking(); waits != "" {
		s.Detail = waits
	}
	return s
}

// Stats returns a copy of the reflector's counts.
func (r *Reflector[T]) Stats() Stats {
	c := r.seen.statsCopy()
	r.store.deliveryStats().addTo(&c)
	if t := transferOf(r.cfg.ListerWatcher); t != nil {
		if n := t.Skipped(); n > 0 { // by the ListerWatcher: of another shard
			c.Ignored[Causes()[causeFiltered]] += n
		}
		c.WireBytes, c.DecodedBytes = t.WireBytes(), t.DecodedBytes()
	}
	return c
}

var _ Source = (*Reflector[any])(nil)
