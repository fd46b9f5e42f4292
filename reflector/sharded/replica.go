package sharded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/internal/hook"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Config is the whole of a replica. REST and Resource of ListWatch must be set.
type Config[T any] struct {
	// ListWatch names the collection and the server. Its Shard is not used.
	ListWatch listwatch.Config
	// Shard is what the replica begins with. The zero value is all of the collection.
	Shard shard.Shard
	// Reflector, when set, may change the configuration of the reflector of a shard before it is built. Its
	// ListerWatcher is set, and its Store has to stay unset. It must not call the Replica.
	Reflector func(*reflector.Config[T])
	// Store is filled by this replica and no other. Default: a new one without indexes.
	Store *reflector.Store[T]
	// Name stands in logs, metrics and debug pages. Default: that of the resource.
	Name string
	// Registry is where the replica, and the reflector of each shard, shows itself; nil is nowhere.
	Registry *reflector.Registry
	// Logger gets changes of shards, and serves reflectors and requests; nil discards.
	Logger *slog.Logger
}

func (c Config[T]) withDefaults() Config[T] {
	if c.Name == "" {
		c.Name = c.ListWatch.Resource.GroupResource().String()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Replica is the collection as one of several replicas has it: its shard. It is a reflector.Collection, and is
// consumed as a reflector is.
//
// Promises, with their tests:
//   - While replicas go from shards to other shards, no object is in nobody's store. Test: TestNoObjectIsNobodys.
//   - At rest each object is in the store of exactly one. Test: TestNoObjectIsNobodys, TestShardedReplicas.
//   - What the old and the new shard have in common is untouched. Test: TestReshardLeavesCommonObjectsAlone.
//   - An etcd that is restored meanwhile hides nothing for good: what the old shard was told of a lost history gives way
//     to what the new one has. Test: TestRestoredWhileResharding.
type Replica[T any] struct {
	reflector.Collection[T]
	cfg   Config[T]
	union *reflector.Union[T]
	// moving holds a token while nobody is re-sharding.
	moving chan struct{}

	mu   sync.Mutex             // guards held
	held map[string]shard.Shard // by their names, which are the keys of the union's members
}

// New returns a Replica that has not started. It makes no request.
func New[T any](c Config[T]) (*Replica[T], error) {
	c = c.withDefaults()
	if err := c.Shard.Validate(); err != nil {
		return nil, fmt.Errorf("sharded: Config.Shard: %w", err)
	}
	r := &Replica[T]{cfg: c, moving: make(chan struct{}, 1), held: map[string]shard.Shard{c.Shard.String(): c.Shard}}
	r.moving <- struct{}{}
	var err error
	r.union, err = reflector.NewUnion(reflector.UnionConfig[T]{
		Name: c.Name, Resource: c.ListWatch.Resource.GroupResource().String(), Member: r.member,
		Store: c.Store, Registry: c.Registry, Logger: c.Logger,
	}, c.Shard.String())
	if err != nil {
		return nil, fmt.Errorf("sharded: %w", err)
	}
	r.Collection = r.union
	return r, nil
}

// member makes the reflector of a shard.
func (r *Replica[T]) member(key string) (*reflector.Reflector[T], error) {
	r.mu.Lock()
	s := r.held[key]
	r.mu.Unlock()
	lc := r.cfg.ListWatch
	lc.Shard = s
	if lc.Logger == nil {
		lc.Logger = r.cfg.Logger
	}
	lw, err := listwatch.New[T](lc)
	if err != nil {
		return nil, err
	}
	rc := reflector.Config[T]{Name: r.cfg.Name + " " + key, ListerWatcher: lw, Registry: r.cfg.Registry, Logger: r.cfg.Logger}
	if r.cfg.Reflector != nil {
		r.cfg.Reflector(&rc)
	}
	rc.OnStop = hook.Before(lw.Close, rc.OnStop) // nobody else knows lw
	return reflector.New(rc)
}

// Status and Stats are those of the union of the shards that the replica holds.
func (r *Replica[T]) Status() reflector.Status { return r.union.Status() }

// Stats is described at Status.
func (r *Replica[T]) Stats() reflector.Stats { return r.union.Stats() }

// Shards returns what the replica holds: one shard at rest, more while it is re-sharding, in no order.
func (r *Replica[T]) Shards() []shard.Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.held))
}

// Reshard makes `to` the replica's shard:
//
//  1. `to` is held beside what was, and listed;
//  2. when it is synced, agreed is called, which returns when all replicas have got so far;
//  3. what was is let go: its objects, but for those in `to`, leave as Deleted with FinalStateUnknown.
//
// How replicas agree is the caller's: a Lease or ConfigMap that each writes to, readiness that a rollout waits
// for, or a wait that is longer than any of them takes to list (as long as nothing better is there). nil agrees at
// once, which is right for a replica whose old objects need no other owner, and leaves a gap otherwise.
//
// Where ctx ends or agreed fails before step 3, the replica goes on with all that it holds, which is
// too much and never too little; the next Reshard goes on from there. Calls of several goroutines come one
// after another. Run must be under way, or nothing is ever synced.
func (r *Replica[T]) Reshard(ctx context.Context, to shard.Shard, agreed func(context.Context) error) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	select {
	case <-r.moving:
		defer func() { r.moving <- struct{}{} }()
	case <-ctx.Done():
		return ctxerr.Of(ctx)
	}
	begun := r.Shards()
	if err := r.hold(append(begun, to)...); err != nil {
		return errors.Join(err, r.hold(begun...))
	}
	if err := r.union.WaitForSync(ctx); err != nil {
		return fmt.Errorf("sharded: %s is not synced: %w", to, err)
	}
	if agreed != nil {
		if err := agreed(ctx); err != nil {
			return fmt.Errorf("sharded: %s is synced, and what was before is held until replicas agree: %w", to, err)
		}
	}
	if ctx.Err() != nil { // while nobody waited for it
		return fmt.Errorf("sharded: %s is synced, and what was before is held: %w", to, ctxerr.Of(ctx))
	}
	if err := r.hold(to); err != nil {
		return err
	}
	r.cfg.Logger.InfoContext(ctx, "re-sharded", "reflector", r.cfg.Name, "shard", to.String())
	return nil
}

// hold makes the union one of these shards.
func (r *Replica[T]) hold(shards ...shard.Shard) error {
	held := map[string]shard.Shard{}
	for _, s := range shards {
		held[s.String()] = s
	}
	r.mu.Lock()
	r.held = held
	r.mu.Unlock()
	if err := r.union.Set(slices.Collect(maps.Keys(held))...); err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	return nil
}

var (
	_ reflector.Collection[any] = (*Replica[any])(nil)
	_ reflector.Source          = (*Replica[any])(nil)
)
