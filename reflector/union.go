package reflector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// UnionConfig is the whole of a union. Only Member must be set.
type UnionConfig[T any] struct {
	// Name stands in logs, metrics and debug pages; it is not that of a member. Default: "union".
	Name string
	// Resource is what is watched, such as "pods". Default: that of the first member.
	Resource string
	// Member makes the member of a key, which is the caller's name for it: a node, a namespace, a
	// shard. It is called by Set, once each time that a key comes in, and returns a reflector that
	// was not run and has a Store of its own. All members are of one resource of one API server,
	// whose resourceVersions are compared, and decode alike. It must not call the union. Where it panics Set does, and nothing has changed.
	Member func(key string) (*Reflector[T], error)
	// Store is filled by this union and by nothing else. Default: a new one without indexes. The
	// functions of its indexes are called with the locks of a member's store and of the union
	// held, and must not use either; a version for which one panics is not in the union, and is
	// told in Status().Quarantined.
	Store *Store[T]
	// Retain keeps deleted objects for look-ups, in Store().Tombstones(); the zero value keeps none.
	Retain Retain
	// Registry is where the running union shows itself; nil is nowhere. Members have their own.
	Registry *Registry
	// Logger gets members that come and go, and panics of indexes' functions; nil discards. It is told the
	// latter with locks held, so its handler must not use the union then.
	Logger *slog.Logger
}

func (c UnionConfig[T]) withDefaults() UnionConfig[T] {
	if c.Name == "" {
		c.Name = "union"
	}
	if c.Store == nil {
		c.Store = NewStore[T]()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c UnionConfig[T]) validate() error {
	var errs []error
	if c.Member == nil {
		errs = append(errs, errors.New("reflector: UnionConfig.Member is nil: set the function that makes the reflector of a key"))
	}
	errs = append(errs, c.Retain.validate("reflector: UnionConfig.Retain"))
	return errors.Join(errs...)
}

// Union shows several reflectors, its members, as one collection: the pods of several nodes, the
// objects of several namespaces, the shards of a large collection. It has a Store of its own,
// with indexes of its own, and is consumed as a Reflector is. Its methods are safe from any goroutine.
//
// Members come and go at run time: see Set. A member is a whole Reflector, with its own requests,
// backoff and status, and one that fails costs the others nothing.
//
// An object that several members have is one object, in the newest version that any of them told.
// Under each name there is at most one object: where members have different ones (the watch of one
// lags while a pod is made anew on another node) it is the newest, and the older one is told as
// Deleted, with FinalStateUnknown, before it is told as Added; what comes late of the older one is
// not told. An object that goes from the collection of one member to that of another (its label was changed)
// may be told as Deleted and Added on its way.
//
// Synced is told when all members have a complete snapshot, again when a member that came
// later has its first one, and after each later list of any member. Its ResourceVersion is the oldest of the
// members' lists'. A union without members is complete, and empty. One member that never gets an answer thus keeps
// Synced from being told, and nothing else: the objects of the others are there and their changes
// are told, and Status says who is missing and why.
//
// Memory: objects are shared with the members' stores; the union has an entry of its own for each,
// as in any Store about 140 bytes, and 40 for each value of an index. A name that several members
// claim costs some 200 bytes more as long as they do. There is no goroutine, queue or copy between a member and the union: a
// change is in the union's store, and in the mailboxes of its subscribers, when the member's own
// lock is let go. A subscriber whose policy is Block holds up the members, each before its next
// change; up to one change of each member may pass its Limit.
//
// Promises, with their tests:
//   - The store of a union has, of each name, the newest object that its members have, and every
//     subscriber's events replay to it. Test: TestUnionModel, TestUnionRandomFaults.
//   - A changed UID under one name is DELETE(old) then ADD(new), also from member to member, and what
//     ended does not come back. Test: TestUnionHistories, TestUnionLaggingMembers.
//   - Per object, events reach a subscriber in server order, and nothing is delivered twice for the same
//     (UID, resourceVersion), however many members have the object. Test: TestUnionModel, TestUnionReplacement.
//   - What a member told of a history that the server lost, before it left, gives way to what the others have, as soon
//     as a list or a bookmark proves that, and where none does within 75 s they list once. Test:
//     TestUnionRestored, TestRestoredWhileResharding, TestUnionModel.
type Union[T any] struct {
	cfg  UnionConfig[T]
	log  *slog.Logger
	seen *observed
	ran  atomic.Bool
	done chan struct{} // closed when Run returns
	// settle holds a token when Run's goroutine has members to let go.
	settle chan struct{}
	failed chan error // of members whose Run failed

	// changing holds a token of who changes the set of members, a Member function's time included. It is a channel
	// and not a mutex, so that Run's goroutine can wait for it and for its own end. nextID is the last member's.
	changing chan struct{}
	nextID   uint32

	// mu comes after the lock of any member's store, and before that of the union's own. It makes the
	// union's store one of one writer.
	mu      sync.Mutex
	merger  merger[T]
	members []*member[T]
	running context.Context // of Run; nil before it
	stopped bool
	// settling: a member is being taken out, whose objects are there still.
	settling bool
	group    sync.WaitGroup
	// synced is closed while all members are synced, and made anew when one comes that is not.
	synced chan struct{}
	relist bool // a list was completed since Synced was told
	// gone is the newest resourceVersion that members which left were told.
	gone string
}

// NewUnion returns a union of the members of these keys that has not started. No keys is a union
// that is empty until Set brings some in.
func NewUnion[T any](c UnionConfig[T], keys ...string) (*Union[T], error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	u := &Union[T]{
		cfg:      c,
		log:      c.Logger.With("reflector", c.Name),
		seen:     newObserved(c.Name, c.Resource, StateWatching),
		done:     make(chan struct{}),
		settle:   make(chan struct{}, 1),
		changing: make(chan struct{}, 1),
		failed:   make(chan error, 1),
		synced:   make(chan struct{}),
	}
	u.merger = merger[T]{store: c.Store, broken: u.broken}
	if !c.Store.claim() {
		return nil, fmt.Errorf("reflector: UnionConfig.Store of %s is filled by another reflector; give each its own", c.Name)
	}
	if err := u.Set(keys...); err != nil {
		return nil, err
	}
	return u, nil
}

// Run runs all members until ctx ends, and then returns nil. Beside the caller's goroutine it needs
// one for each member. "Everything stops within 100 ms of its context", and what is stored stays readable.
//
// The other errors are ErrAlreadyRun, and a *MemberError of a member that cannot run.
//
// Promises, with their tests:
//   - A union stops with its context within 100 ms, and leaves no goroutine, connection or metric series, nor do
//     members that went before. Test: TestUnionStops, TestUnionCycles, TestNodesLeaveNothing.
func (u *Union[T]) Run(ctx context.Context) error {
	if u.ran.Swap(true) {
		return ErrAlreadyRun
	}
	ctx, cancel := context.WithCancel(ctx)
	defer close(u.done)
	defer u.cfg.Store.end()
	defer u.group.Wait()
	defer u.stop(cancel)
	if u.cfg.Registry != nil {
		u.cfg.Registry.add(u)
		defer u.cfg.Registry.remove(u)
	}
	u.cfg.Store.retain(u.cfg.Retain)
	u.start(ctx)
	var turn chan<- struct{} // nil, or changing while there are members to let go
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-u.failed:
			return err
		case <-u.settle:
			turn = u.changing
		case turn <- struct{}{}:
			turn = nil
			u.letGo()
			<-u.changing
		}
	}
}

// start makes the members run, those of now and those that come.
func (u *Union[T]) start(ctx context.Context) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running = ctx
	for _, m := range u.members {
		u.runLocked(m)
	}
}

// stop ends all members, and makes sure that no other one starts.
func (u *Union[T]) stop(cancel func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	cancel()
}

// WaitForSync waits until all members have a complete snapshot. When ctx ends before that, or Run
// does (ErrStopped), the error joins that with a *MemberError for each member that is missing.
func (u *Union[T]) WaitForSync(ctx context.Context) error {
	u.mu.Lock()
	synced := u.synced
	u.mu.Unlock()
	if err := waitFor(ctx, synced, u.done); err != nil {
		return u.missing(err)
	}
	// A member tells its store before it tells itself. Status has both when this returns.
	u.mu.Lock()
	var members []<-chan struct{}
	for _, m := range u.members {
		if m.synced {
			members = append(members, m.r.synced)
		}
	}
	u.mu.Unlock()
	for _, m := range members {
		if err := waitFor(ctx, m, u.done); err != nil {
			return u.missing(err)
		}
	}
	return nil
}

// missing says which members are not synced, and why.
func (u *Union[T]) missing(err error) error {
	wanted := 0
	var missing []string
	errs := []any{nil, err, nil}
	for _, m := range u.Status().Members {
		if m.Leaving {
			continue
		}
		if wanted++; m.Status.Synced {
			continue
		}
		missing = append(missing, "%w")
		errs = append(errs, &MemberError{Key: m.Key, Err: m.Status.LastError})
	}
	errs[0], errs[2] = u.cfg.Name, fmt.Sprintf("%d of %d", len(missing), wanted)
	if len(missing) == 0 { // they came just now
		return fmt.Errorf("%s not synced: %w", u.cfg.Name, err)
	}
	return fmt.Errorf("%s not synced: %w; missing %s: "+strings.Join(missing, "; "), errs...)
}

// MemberError is what keeps a member of a Union from being synced, or from running.
type MemberError struct {
	Key string
	// Err is the error of the last attempt, or nil: there is no complete answer yet.
	Err error
}

// Error names the member.
func (e *MemberError) Error() string {
	if e.Err == nil {
		return e.Key + ": no complete answer yet"
	}
	return e.Key + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *MemberError) Unwrap() error { return e.Err }

// Store returns the union's own store.
func (u *Union[T]) Store() *Store[T] { return u.cfg.Store }

// Events subscribes to the union: see Collection.
func (u *Union[T]) Events(ctx context.Context) iter.Seq[Event[T]] {
	return u.Subscribe(ctx, Subscription[T]{})
}

// Keys returns the keys that Set was given last, sorted.
func (u *Union[T]) Keys() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var keys []string
	for _, m := range u.members {
		if !m.leaving {
			keys = append(keys, m.key)
		}
	}
	slices.Sort(keys)
	return keys
}

var _ Collection[any] = (*Union[any])(nil)
