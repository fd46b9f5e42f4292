package reflector

import (
	"errors"
	"fmt"
	"time"
)

// Policy says what becomes of a subscriber that is behind by more than its Subscription.Limit.
type Policy uint8

const (
	// Coalesce merges the pending changes of each object (see Reflector.Events): memory is O(objects),
	// and nobody waits.
	Coalesce Policy = iota
	// Block makes the reflector wait, before its next change, until the subscriber has room: every version
	// is delivered, and the collection is as far behind as its slowest blocking subscriber. Nobody else is
	// held up: the store can be read, other subscribers get what there is, Status says what is waited for,
	// and Run's context as well as the subscriber's end the wait.
	//
	// It is for what is quick, or must see every version. A reflector that waits does not read; the
	// server may end its watch or list, which is resumed or read again from there, and one that waits for longer
	// than the server keeps its history lists anew, so that versions are missed after all. What
	// must never be done is to wait in the subscriber for something that needs the
	// next change.
	//
	// Promises, with their tests:
	//   - Nobody but the reflector waits for a blocking subscriber. Test: TestBlockHoldsUpTheReflectorAlone,
	//     TestBlockEndsWithEitherContext, TestBlockedWatchIsNotIdle.
	Block
	// Resync drops what is pending and keeps, for each object that changed, only what the subscriber knows.
	// When the subscriber comes back it is told the difference from that to the collection as it is then,
	// in one go: each object once, in the newest version, with Old the version that it knew; what is gone as
	// Deleted with FinalStateUnknown; and then Synced, once a list was complete. Memory is O(objects),
	// and unlike with Coalesce final states and what came and went cost nothing.
	//
	// Promises, with their tests:
	//   - A subscriber that resyncs is told the difference to the collection as it is, and then Synced. Test:
	//     TestResync, TestResyncIsBounded, TestModel.
	Resync
	policiesN
)

// policies are the words for them.
var policies = [policiesN]string{"coalesce", "block", "resync"}

// Policies are the words that String returns, in the order in which they are shown.
func Policies() []string { return policies[:] }

// String returns coalesce, block or resync.
func (p Policy) String() string {
	if p < policiesN {
		return policies[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// MarshalText is String, for JSON.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// DefaultLimit is how many unread changes a subscriber may have before its Policy acts. It is
// enough for the bursts of a node (some hundred pods times a few status updates) and
// costs about 100 KB when full, besides the versions that nobody else keeps.
const DefaultLimit = 1024

// MinReplay is the shortest period of Subscription.Replay.
const MinReplay = time.Second

// Subscription says what one subscriber wants. The zero value is what Events gives.
type Subscription[T any] struct {
	// Name stands in Stats and on debug pages; "" for none.
	Name string
	// OnStart, when set, is called on the subscriber's goroutine when the subscription has begun: what happens from
	// then on is told change by change, and is not found in the first snapshot. It is for who
	// starts the reflector after its subscribers.
	OnStart func()
	// Policy acts beyond Limit unread changes.
	Policy Policy
	// Limit is how many unread changes there may be before Policy acts; 0 is DefaultLimit. The objects of
	// the first snapshot do not count. Changes that come as one, such as the end of an object and
	// another one under its name, may pass it.
	Limit int
	// Where selects objects; nil is all. An object that begins to match is told as Added. One that ceases to
	// is told as Deleted, once, with Object the version that does not match any more, Old the last
	// one that did as the subscriber knew it, and without FinalStateUnknown.
	//
	// It is called when a version is delivered, on the subscriber's goroutine, with no lock held, and not at
	// all for versions that were coalesced. It must not change the object. Which objects the subscriber
	// was told is kept, some 50 bytes for each, so that no predicate, however odd,
	// makes it miss an end. A version for which it panics does not match; such panics are counted
	// (Stats.Panics) and logged, once a minute at most.
	//
	// Promises, with their tests:
	//   - An object that begins to match is told as Added, one that ceases to as Deleted. Test: TestWhere,
	//     TestWhereWhileBehind, TestWherePanics, TestModel.
	Where func(T) bool
	// Replay, when positive, is the period in which every object is told again, as Modified with
	// Event.Replay set and Old the same object; at least MinReplay. It is for what has to be
	// put right from time to time whatever happened, and is not needed to keep up with the server.
	//
	// Replays are spread evenly over the period, in the order of keys, from the first Synced on. They give
	// way to changes: an object is told again only when nothing is pending, so always in the version
	// that the subscriber knows, and what is late shifts the rest, so that they do not come in a heap.
	// There is no goroutine behind it; it costs 8 bytes an object, and a version that was replaced, or
	// deleted, may stay in memory for a period.
	//
	// Promises, with their tests:
	//   - Replays are off by default, flagged, and spread evenly over their period. Test: TestReplay,
	//     TestReplayGivesWay, TestEventsAfterTheFirstSync.
	Replay time.Duration
}

// Validate tells every fault of s at once.
func (s Subscription[T]) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reflector: Subscription."+format, args...))
	}
	if s.Policy >= policiesN {
		bad("Policy is %d: use Coalesce, Block or Resync", s.Policy)
	}
	if s.Limit < 0 {
		bad("Limit is %d: use a positive number of unread changes, or 0 for %d", s.Limit, DefaultLimit)
	}
	if s.Replay != 0 && s.Replay < MinReplay {
		bad("Replay is %v: use a period of at least %v, or 0 for none", s.Replay, MinReplay)
	}
	return errors.Join(errs...)
}

func (s Subscription[T]) withDefaults() Subscription[T] {
	if s.Limit == 0 {
		s.Limit = DefaultLimit
	}
	return s
}
