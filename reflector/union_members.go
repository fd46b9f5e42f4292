package reflector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// member is one reflector of a union, and the subscriber of its store that tells the union.
type member[T any] struct {
	u      *Union[T]
	id     uint32
	key    string
	r      *Reflector[T]
	cancel context.CancelFunc // nil until it runs

	// Union.mu guards these.
	synced   bool
	listedAt string // the resourceVersion of its last complete list
	newest   string // the newest that it was told: of an object, a list or a bookmark
	// owes: it is not known to be where the members were that left.
	owes      bool
	owesSince time.Time
	// leaving: it is not wanted any more, and goes when those that came for it are synced.
	leaving    bool
	successors []*member[T]
	left       bool
}

// Set makes the union one of these keys, in any order. Members whose keys are in the set stay as
// they are, whatever their state; a new one is started at once; one that is not wanted any more is
// stopped, its connections are closed, and its objects, unless another member has them, leave as Deleted
// with FinalStateUnknown: they may exist still, but not in this collection.
//
// A call that brings members in and takes others out is a replacement: the old ones go on, and
// what they have is in the union, until all the new ones have a complete snapshot. An object that both
// have is not touched: no event, and no gap in which changes of it are missed. So the shards of a
// collection can be cut anew. Who wants old members gone whatever becomes of the new ones calls
// Set twice, first with all of both. Before Run old members have nothing, and go at once. A key that comes back while its member is on its way out keeps it.
//
// Set does not wait for new members; WaitForSync does. When it takes members out only, their objects
// have left when it returns, and no Block subscriber is waited for. An error is one of the Member
// function or of what it returned, joined for all keys, and changes nothing; after Run has returned it is ErrEnded.
//
// Promises, with their tests:
//   - What members that are replaced have in common with the new ones is untouched. Test:
//     TestUnionReplacement, TestUnionModel.
//   - The objects of a member that is taken out leave as Deleted with FinalStateUnknown, unless another member
//     has them. Test: TestUnionSet, TestUnionModel.
func (u *Union[T]) Set(keys ...string) error {
	u.changing <- struct{}{}
	defer func() { <-u.changing }()

	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	fresh, err := u.newMembers(keys)
	if err != nil {
		return err
	}
	if err := u.exchange(keys, fresh); err != nil {
		return err
	}
	for _, m := range fresh {
		u.log.Debug("member added", "member", m.key)
	}
	u.letGo()
	return nil
}

// newMembers makes what is missing of keys.
func (u *Union[T]) newMembers(keys []string) ([]*member[T], error) {
	u.mu.Lock()
	have, stopped := slices.Clone(u.members), u.stopped
	u.mu.Unlock()
	if stopped {
		return nil, u.tooLate()
	}
	var fresh []*member[T]
	var errs []error
	good := false
	defer func() {
		for _, m := range fresh {
			if !good { // also where Member panicked
				m.r.discard()
			}
		}
	}()
	for _, key := range keys {
		if slices.ContainsFunc(have, func(m *member[T]) bool { return m.key == key }) {
			continue
		}
		m, err := u.newMember(key, append(have, fresh...))
		if err != nil {
			errs = append(errs, &MemberError{Key: key, Err: err})
			continue
		}
		fresh = append(fresh, m)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("reflector: members of %s: %w", u.cfg.Name, errors.Join(errs...))
	}
	good = true
	return fresh, nil
}

func (u *Union[T]) newMember(key string, others []*member[T]) (*member[T], error) {
	r, err := u.cfg.Member(key)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, errors.New("UnionConfig.Member returned nil for it")
	case r.ran.Load():
		return nil, errors.New("its reflector was run already; UnionConfig.Member has to make a new one each time")
	case r.store == u.cfg.Store:
		return nil, errors.New("its reflector has the Store of the union; leave reflector.Config.Store empty")
	case r.store.taken():
		return nil, errors.New("its reflector has a Store that another one fills or has filled; give each a new one")
	}
	for _, other := range others {
		if other.r.store == r.store {
			return nil, fmt.Errorf("its reflector has the Store of %q; give each its own", other.key)
		}
	}
	u.nextID++
	m := &member[T]{u: u, id: u.nextID, key: key, r: r, owes: true, owesSince: time.Now()}
	r.among = m
	return m, nil
}

func (u *Union[T]) tooLate() error { return fmt.Errorf("%s: %w", u.cfg.Name, ErrEnded) }

// exchange makes the fresh members ones, and notes which of the others are to go.
func (u *Union[T]) exchange(keys []string, fresh []*member[T]) error {
	for _, m := range fresh {
		m.r.store.join(m) // it does not run, so nothing is told yet
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		for _, m := range fresh {
			m.r.discard()
		}
		return u.tooLate()
	}
	for _, m := range u.members {
		_, wanted := slices.BinarySearch(keys, m.key)
		switch {
		case wanted:
			m.leaving, m.successors = false, nil
		case !m.leaving:
			m.leaving, m.successors = true, fresh
		}
	}
	for _, m := range fresh {
		u.members = append(u.members, m)
		if u.running != nil {
			u.runLocked(m)
		}
	}
	if len(fresh) > 0 {
		u.unsyncLocked()
	}
	return nil
}

// runLocked starts a member.
func (u *Union[T]) runLocked(m *member[T]) {
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(u.running)
	u.group.Go(func() {
		defer m.cancel()
		if err := m.r.Run(ctx); err != nil {
			select {
			case u.failed <- &MemberError{Key: m.key, Err: err}:
			default: // the first one ends it
			}
		}
	})
}

// letGo takes out the members that are not wanted and not needed any more, and tells Synced when that or
// a list has made the union complete. Its caller holds changing.
func (u *Union[T]) letGo() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.settling = true
	for !u.stopped { // else what is stored stays
		i := slices.IndexFunc(u.members, (*member[T]).canGo)
		if i < 0 {
			break
		}
		m := u.members[i]
		// A slice of its own: Status may have the old one.
		u.members = slices.Concat(u.members[:i], u.members[i+1:])
		m.left, m.successors = true, nil
		u.goneLocked(m)
		u.mu.Unlock()
		u.detach(m)
		u.mu.Lock()
	}
	u.settling = false
	u.tellSyncedLocked()
}

// canGo reports whether nobody needs m: those that came for it are synced, or have gone themselves. Before Run it
// has nothing.
func (m *member[T]) canGo() bool {
	return m.leaving && (!m.u.ran.Load() || !slices.ContainsFunc(m.successors, func(s *member[T]) bool { return !s.synced && !s.left }))
}

// detach stops a member and takes its objects out of the union.
func (u *Union[T]) detach(m *member[T]) {
	if m.cancel != nil {
		m.cancel()
	} else {
		m.r.discard()
	}
	u.log.Debug("member removed", "member", m.key)
	s := m.r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsubscribeLocked(m)
	for _, e := range s.objects.slots {
		if e != nil {
			m.push(change[T]{typ: Deleted, e: e, unknown: true}, time.Time{})
		}
	}
}

// unsyncLocked notes that not all is there.
func (u *Union[T]) unsyncLocked() {
	select {
	case <-u.synced:
		u.synced = make(chan struct{})
	default:
	}
	u.cfg.Store.unsync()
}

// tellSyncedLocked tells Synced where there is one to tell, and all of the members that are wanted, and no
// others, are there.
func (u *Union[T]) tellSyncedLocked() {
	if u.settling || u.stopped {
		return // what is to leave has not left
	}
	rv := ""
	for i, m := range u.members {
		if m.leaving || !m.synced {
			return
		}
		if i == 0 || olderRV(m.listedAt, rv) {
			rv = m.listedAt
		}
	}
	select {
	case <-u.synced:
		if !u.relist {
			return
		}
	default:
		close(u.synced)
	}
	u.relist = false
	u.cfg.Store.sync(rv)
}

// wake makes Run's goroutine look after the members.
func (u *Union[T]) wake() {
	select {
	case u.settle <- struct{}{}:
	default:
	}
}

// push implements subscriber: the member's store tells a change, with its lock held.
func (m *member[T]) push(c change[T], _ time.Time) {
	u := m.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.typ != Synced {
		m.newest = newerRV(m.newest, c.e.rv)
		u.merger.apply(m.id, c)
		return
	}
	m.synced, m.listedAt, u.relist = true, c.e.rv, true
	m.listedLocked(c.e.rv, c.rewound)
	u.merger.confirmed(m.id, c.e.rv, c.rewound)
	if slices.ContainsFunc(u.members, func(m *member[T]) bool { return m.leaving }) {
		u.wake() // members are let go without the lock of another one's store
		return
	}
	u.tellSyncedLocked()
}

// end implements subscriber. The union ends by itself.
func (m *member[T]) end() {}

// stats implements subscriber. What the union's subscribers have not read is told by the union; here
// it counts whether the member waits for them.
func (m *member[T]) stats(time.Time) Mailbox {
	box := Mailbox{Name: "union " + m.u.cfg.Name}
	for _, of := range m.u.cfg.Store.deliveryStats().mailboxes {
		if since := of.BlockedSince; !since.IsZero() && (box.BlockedSince.IsZero() || since.Before(box.BlockedSince)) {
			box.Policy, box.BlockedSince = Block, since
		}
	}
	return box
}

// room implements blocker: the member waits for those who subscribed to the union.
func (m *member[T]) room() <-chan struct{} { return m.u.cfg.Store.room() }

// join makes sub a subscriber of a store that is empty.
func (s *Store[T]) join(sub subscriber[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joinLocked(sub, time.Now())
}

// taken reports whether the store has its writer.
func (s *Store[T]) taken() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claimed
}

// sync tells that the store has all of the collection, and unsync that it has not any more.
func (s *Store[T]) sync(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.syncedRV = true, rv
	s.publishLocked(syncedAt[T](rv))
}

func (s *Store[T]) unsync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = false
}

// discard gives back what a reflector that will never run has.
func (r *Reflector[T]) discard() {
	if !r.ran.Swap(true) && r.cfg.OnStop != nil {
		r.cfg.OnStop()
	}
}

var (
	_ subscriber[any] = (*member[any])(nil)
	_ blocker         = (*member[any])(nil)
)
