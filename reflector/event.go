package reflector

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// EventType is what happened to an object of the collection.
type EventType uint8

const (
	Added    EventType = iota + 1 // the object was not in the collection before
	Modified                      // a new version of an object that was
	Deleted                       // it is gone, or no longer matches the selectors
	Synced                        // no object: a snapshot is complete
)

// String returns the word that the watch protocol has for it; Synced, which
// the protocol has not, is "SYNCED".
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	case Synced:
		return "SYNCED"
	}
	return "UNKNOWN"
}

// Event is one change of the collection.
//
// Promises, with their tests:
//   - A changed UID under one name is DELETE(old) then ADD(new). Test: TestUpsertAndRemove, C2-relist.txt,
//     C2-live.txt, C2-watchlist.txt.
type Event[T any] struct {
	Type EventType
	// Key and UID are strings of Object, as a rule: who keeps them for longer keeps copies.
	Key decode.Key
	UID types.UID
	// ResourceVersion is that of Object, for Synced that of the list.
	ResourceVersion string
	// Object is SHARED AND IMMUTABLE: copy it before changing anything. Other consumers have the same
	// object, and other objects, Old among them, have parts of it (see ObjectsShared). For
	// Deleted it is the last known state, usually the final one.
	Object T
	// Old is for Modified the version that the subscriber knew before, just as
	// shared and immutable. So it is for a Deleted of an object that does not match
	// Subscription.Where any more; else it is the zero T.
	Old T
	// Initial is set up to and including the first Synced of a subscription:
	// the event belongs to its first snapshot.
	Initial bool
	// FinalStateUnknown is set on a Deleted whose delete nobody saw: a list did
	// not have the object any more, another UID came under its name, or the
	// DELETED event did not decode; and on each that the catching up of policy Resync finds. Object
	// may be out of date.
	//
	// Promises, with their tests:
	//   - What is gone is deleted (FinalStateUnknown). Test: TestReplace, C5-expired.txt, C5-watchlist.txt.
	FinalStateUnknown bool
	// Replay is set on a Modified that repeats what the subscriber knows: see Subscription.Replay.
	Replay bool
}

// Events subscribes to the collection. The subscription begins when the result
// is ranged over, and each range is a subscription of its own:
//
//   - first a snapshot: Added for each object there is, in no particular order.
//     If a list was complete before, Synced follows at once, else after the
//     first that is;
//   - then every change, without gap or double between the two, and a Synced
//     after each later list or watch-list.
//
// Per object, events reach a subscriber in server order. Nothing is delivered
// twice for the same (UID, resourceVersion): an object that a list missed and a
// later one has again is told as Deleted, then Added. Only a server that went
// back in time (etcd was restored) gives resourceVersions out again; then
// contents are compared, and what differs is told as Modified.
//
// Slow subscribers cost O(objects): a coalescing mailbox, never a blocked
// socket; Subscribe has other policies. Up to 1,024 unread changes a subscriber gets every version. Beyond
// that pending changes of one object are merged (Added then Modified is one
// Added; Added then Deleted is nothing; Modified then Modified is one Modified
// whose Old is the version that the subscriber knew), and a pending Synced gives
// way to a later one, until it has caught up. Subscribers do not wait for each other.
//
// The loop ends when its body breaks, when ctx ends, and when Run has returned
// and all that came before is delivered. There is no goroutine behind it. A
// panic of the body is the caller's: it ends the subscription and goes on up;
// see Handle for a way that catches it.
//
// Promises, with their tests:
//   - Per object, events reach a subscriber in server order. Test: TestModel, TestModelConcurrent.
//   - Nothing is delivered twice for the same (UID, resourceVersion) except when a subscriber asked for
//     replay. Test: TestModel, F10-duplicates.txt, C13-told-twice.txt, TestBackToWhatTheSubscriberKnows.
//   - Slow subscribers cost O(objects): a coalescing mailbox, never a blocked socket. Test:
//     TestMailboxIsBounded, TestBlockedSubscriberHoldsUpNobody.
func (r *Reflector[T]) Events(ctx context.Context) iter.Seq[Event[T]] {
	return r.Subscribe(ctx, Subscription[T]{})
}

// Subscribe is Events with what s asks for. It panics where s.Validate returns an error: such a
// program is wrong before it sees an object, and a range has no place for an error. A program whose
// users choose the numbers calls Validate first.
func (r *Reflector[T]) Subscribe(ctx context.Context, s Subscription[T]) iter.Seq[Event[T]] {
	return r.store.events(ctx, s, r.log)
}
