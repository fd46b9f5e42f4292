package reflector

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Member is one reflector of a union in the union's Status.
type Member struct {
	// Key is what Set calls it.
	Key string
	// Leaving says that it is not wanted any more, and goes when those that came for it are synced.
	Leaving bool
	Status  Status
}

// Status returns a copy of what the union knows of itself. Members has each member in full; the rest is
// their sum, as far as there is one:
//
//   - Synced: all members are. Unlike a reflector's it goes back when a member comes in.
//   - FreshAsOf is the oldest of theirs, and zero while one has none.
//   - Objects are those of the union, so an object of two members counts once, and Quarantined those
//     that an index of the union's store panicked at.
//   - ListedItems and RemainingItems are sums.
//   - State, Since, LastRestart, LastError and NextAttempt are those of the member that is furthest
//     behind: one that is not synced, else that of the oldest FreshAsOf. Detail names it, and how many are synced;
//     the errors are *MemberError. Without members State is Watching.
//
// Members that are leaving do not count. There is no ResourceVersion: each member has its own.
//
// Promises, with their tests:
//   - A member that fails costs the others nothing, and Status and WaitForSync name it with its error. Test:
//     TestUnionOneForbidden, H5.txtar.
func (u *Union[T]) Status() Status {
	u.mu.Lock()
	members, stopped := u.members, u.stopped
	s := u.seen.statusCopy()
	s.Members = make([]Member, len(members))
	for i, m := range members {
		s.Members[i] = Member{Key: m.key, Leaving: m.leaving}
	}
	select {
	case <-u.synced:
		s.Synced = true
	default:
	}
	u.mu.Unlock()
	s.Objects = u.cfg.Store.Len()
	var behind *Member
	synced, wanted := 0, 0
	for i := range s.Members {
		m := &s.Members[i]
		m.Status = members[i].r.Status()
		s.Resource = cmp.Or(s.Resource, m.Status.Resource)
		if m.Leaving {
			continue
		}
		wanted++
		if m.Status.Synced {
			synced++
		}
		s.ListedItems += m.Status.ListedItems
		s.RemainingItems += m.Status.RemainingItems
		if behind == nil || furtherBehind(m.Status, behind.Status) {
			behind = m
		}
	}
	switch {
	case behind != nil:
		b := behind.Status
		s.State, s.Since, s.FreshAsOf = b.State, b.Since, b.FreshAsOf
		s.LastRestart, s.NextAttempt = b.LastRestart, b.NextAttempt
		if r := b.LastRestart; r != nil && r.Err != nil {
			s.LastRestart = &Restart{Reason: r.Reason, At: r.At, Err: &MemberError{Key: behind.Key, Err: r.Err}}
		}
		if b.LastError != nil {
			s.LastError = &MemberError{Key: behind.Key, Err: b.LastError}
		}
		s.Detail = fmt.Sprintf("%d of %d members are synced; furthest behind is %s", synced, wanted, behind.Key)
	default:
		s.FreshAsOf = time.Now() // nothing is known in full
		s.Detail = "it has no members"
	}
	if stopped {
		s.State = StateStopped
	}
	return s
}

func furtherBehind(a, b Status) bool {
	if a.Synced != b.Synced {
		return b.Synced
	}
	return a.FreshAsOf.Before(b.FreshAsOf)
}

// Stats returns a copy of the union's counts: those of its subscribers, and of panics. What its members
// count is in their own.
func (u *Union[T]) Stats() Stats {
	c := u.seen.statsCopy()
	u.cfg.Store.deliveryStats().addTo(&c)
	return c
}

// Subscribe is Events with what s asks for.
func (u *Union[T]) Subscribe(ctx context.Context, s Subscription[T]) iter.Seq[Event[T]] {
	return u.cfg.Store.events(ctx, s, u.log)
}

// Handle calls h for each event of a subscription, and catches its panics: see Reflector.Handle.
func (u *Union[T]) Handle(ctx context.Context, h Handler[T]) error {
	return u.cfg.Store.handle(ctx, &h, u.log)
}

// broken notes that an index's function panicked at a version, or, with nil, that none did.
func (u *Union[T]) broken(e *entry[T], p *panicked) {
	if p == nil {
		u.seen.release(e.key)
		return
	}
	u.seen.panics.Add(1)
	u.seen.quarantine(decode.Meta{Namespace: e.key.Namespace, Name: e.key.Name, ResourceVersion: e.rv}, p)
	u.log.Error("panic caught", "key", ownKey(e.key).String(), "rv", strings.Clone(e.rv), "err", p.Error(), "stack", string(p.stack))
}

var _ Source = (*Union[any])(nil)
