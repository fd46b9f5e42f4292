package reflector

import "time"

// Policy says what becomes of a subscriber that is behind by more than its Subscription.Limit.
type Policy uint8

const (
	// Coalesce merges the pending changes of each object: memory is O(objects) and nobody waits.
	Coalesce Policy = iota
	// Block makes the reflector wait until the subscriber has room: every version is delivered, and
	// the collection is as far behind as its slowest blocking subscriber.
	Block
	// Resync drops what is pending; the subscriber is told the collection anew, as the difference from
	// what it knew, and then Synced.
	Resync
)

// DefaultLimit is how many unread changes a subscriber may have before its Policy acts.
const DefaultLimit = mailboxLimit

// Subscription says what one subscriber wants. The zero value is what Events gives.
type Subscription[T any] struct {
	// Name stands in Stats and on debug pages; "" for none.
	Name string
	// Policy acts beyond Limit unread changes.
	Policy Policy
	// Limit is how many unread changes there may be before Policy acts; 0 is DefaultLimit.
	Limit int
	// Where selects objects; nil is all. It is called once for each version, with a store's lock
	// held: it must be quick, pure, and must not change the object. An object that begins to match is
	// told as Added, one that ceases to as Deleted.
	Where func(T) bool
	// Replay, when positive, is the period in which every object is told again, spread evenly over
	// it, as Modified with Replay set and Old the same object.
	Replay time.Duration
}
