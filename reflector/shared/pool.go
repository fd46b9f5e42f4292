package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/internal/hook"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Config is what all collections of a Pool have in common. Only REST must be set.
type Config[T any] struct {
	// REST says how to reach the API server.
	REST *rest.Config
	// ListWatch, when set, may change how requests are made (encoding, decoder, timeouts) before a
	// ListerWatcher is built. What a Scope has is set after it.
	//
	// It is called once for each reflector that is started, as Reflector is, with the Pool locked: neither
	// may call the Pool.
	ListWatch func(*listwatch.Config)
	// Reflector, when set, may change a reflector's configuration before it is built (first
	// sync, transform, backoff, name; a Store with indexes, which must be a new one each time). Its
	// ListerWatcher is set and may be wrapped. The end of the connections is added in front of an OnStop.
	//
	// Name is set, too: the collection in the words of Scope.String, cut to 120 bytes, so "pods" for all of them
	// and "pods of default, app=web" for some. It is a label of the metrics, which the reflector takes
	// with it when it stops. A Pool whose collections come and go by the thousand (one for each pod, say) should
	// give all of them one Name: the metrics then add them up, and a monitoring system does not keep
	// series for each that there ever was.
	Reflector func(*reflector.Config[T])
	// Linger is how long a reflector goes on when nobody holds it, so that who comes back
	// soon finds it running. 0 is not at all.
	Linger time.Duration
	// Registry is where running reflectors show themselves; nil is nowhere.
	Registry *reflector.Registry
	// Logger serves the requests and the reflectors; nil discards.
	Logger *slog.Logger
}

func (c Config[T]) withDefaults() Config[T] {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config[T]) validate() error {
	switch {
	case c.REST == nil:
		return errors.New("shared: Config.REST is nil: set it from a kubeconfig (clientcmd) or rest.InClusterConfig")
	case c.Linger < 0:
		return fmt.Errorf("shared: Config.Linger is %v: use a positive time, or 0 to stop at once", c.Linger)
	}
	return nil
}

// ErrClosed is what Acquire returns after Close.
var ErrClosed = errors.New("shared: the Pool is closed")

// ErrReleased is the cause of what ends with a Lease.
var ErrReleased = errors.New("shared: the Lease was let go")

// Pool has the reflectors of one type of objects. Its methods are safe from any goroutine.
//
// Promises, with their tests:
//   - One watch per (resource, namespace, selectors) however many ask for it. Test: TestOneWatchForEachCollection,
//     TestPoolUnderStress.
//   - Ref-counted and stopped when unused: 10,000 cycles leave goroutines, connections and metric series as they
//     were. Test: TestManyCycles, TestLinger.
//   - A failed construction is an error of who asked, and is tried anew by the next one. Test: TestFailedConstruction.
type Pool[T any] struct {
	cfg Config[T]

	mu      sync.Mutex
	closed  bool
	running map[key]*running[T]
	group   sync.WaitGroup // of the goroutines that run reflectors
}

// running is one reflector that runs. Pool.mu guards what changes.
type running[T any] struct {
	reflector *reflector.Reflector[T]
	cancel    context.CancelFunc
	done      chan struct{} // closed when it has stopped
	key       key
	leases    map[*Lease[T]]struct{}
	idle      int         // how often the last lease was let go
	linger    *time.Timer // stops it; nil while it is held
}

// New returns a Pool without reflectors. It makes no request.
func New[T any](c Config[T]) (*Pool[T], error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Pool[T]{cfg: c, running: map[key]*running[T]{}}, nil
}

// Acquire returns a lease on the reflector of s, which is started if nobody else holds it. It does not
// wait for the server. The lease ends with ctx, with its Close and with the Pool's. An error is one of the
// configuration, of the Pool (ErrClosed) or of ctx, and there is no lease then.
func (p *Pool[T]) Acquire(ctx context.Context, s Scope) (*Lease[T], error) {
	if ctx.Err() != nil {
		return nil, ctxerr.Of(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	s = s.normal()
	r, err := p.findLocked(s)
	if err != nil {
		if s.Resource.Resource == "" {
			return nil, fmt.Errorf("shared: %w", err)
		}
		return nil, fmt.Errorf("shared: %s: %w", s, err)
	}
	r.keepLocked()
	l := &Lease[T]{pool: p, of: r}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	r.leases[l] = struct{}{}
	context.AfterFunc(l.ctx, l.letGo)
	return l, nil
}

// findLocked returns the reflector of s, which is started if it does not run.
func (p *Pool[T]) findLocked(s Scope) (*running[T], error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	k := s.key()
	if r := p.running[k]; r != nil {
		return r, nil
	}
	return p.startLocked(k, s)
}

// startLocked builds the reflector of s and runs it.
func (p *Pool[T]) startLocked(k key, s Scope) (*running[T], error) {
	built, err := p.build(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background()) // it lives as long as its leases
	r := &running[T]{reflector: built, cancel: cancel, done: make(chan struct{}), key: k, leases: map[*Lease[T]]struct{}{}}
	p.running[k] = r
	p.group.Go(func() {
		defer close(r.done)
		defer cancel()
		if err := built.Run(ctx); err != nil {
			p.cfg.Logger.Error("shared reflector cannot run", "collection", s.String(), "err", err)
			p.fail(r, err)
		}
	})
	return r, nil
}

// fail ends the leases of a reflector that cannot run. The next one who asks tries anew.
func (p *Pool[T]) fail(r *running[T], err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range r.leases {
		l.cancel(err)
	}
	p.stopLocked(r)
}

func (p *Pool[T]) build(s Scope) (*reflector.Reflector[T], error) {
	lc := listwatch.Config{REST: p.cfg.REST, Logger: p.cfg.Logger}
	if p.cfg.ListWatch != nil {
		p.cfg.ListWatch(&lc)
	}
	lc.Resource, lc.Namespace, lc.Shard = s.Resource, s.Namespace, s.Shard
	lc.LabelSelector, lc.FieldSelector = s.LabelSelector, s.FieldSelector
	lw, err := listwatch.New[T](lc)
	if err != nil {
		return nil, err
	}
	rc := reflector.Config[T]{Name: s.name(), ListerWatcher: lw, Registry: p.cfg.Registry, Logger: p.cfg.Logger}
	if p.cfg.Reflector != nil {
		p.cfg.Reflector(&rc)
	}
	rc.OnStop = hook.Before(lw.Close, rc.OnStop) // nobody else knows lw
	return reflector.New(rc)
}

// letGo takes a lease away, once.
func (p *Pool[T]) letGo(l *Lease[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := l.of
	if _, held := r.leases[l]; !held {
		return
	}
	delete(r.leases, l)
	if len(r.leases) > 0 || p.running[r.key] != r {
		return
	}
	if p.cfg.Linger == 0 {
		p.stopLocked(r)
		return
	}
	r.idle++
	idle := r.idle
	r.linger = time.AfterFunc(p.cfg.Linger, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(r.leases) == 0 && r.idle == idle { // else it was too late to stop the timer
			p.stopLocked(r)
		}
	})
}

// keepLocked ends the wait for another holder.
func (r *running[T]) keepLocked() {
	if r.linger != nil {
		r.linger.Stop()
		r.linger = nil
	}
}

// stopLocked ends a reflector. Who asks for its collection from now on gets another one.
func (p *Pool[T]) stopLocked(r *running[T]) {
	r.cancel()
	r.keepLocked()
	if p.running[r.key] == r {
		delete(p.running, r.key)
	}
}

// Len returns how many reflectors run.
func (p *Pool[T]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running)
}

// Close stops all reflectors, whoever holds them, and waits until they have stopped. Leases stay readable. It
// may be called more than once, but not from a function that a reflector calls (Transform, Accept, an index).
func (p *Pool[T]) Close() {
	p.mu.Lock()
	p.closed = true
	for _, r := range p.running {
		p.stopLocked(r)
	}
	p.mu.Unlock()
	p.group.Wait()
}
