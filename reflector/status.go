package reflector

import (
	"time"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// State of the machine.
type State string

// The states. A reflector that was not started yet shows the one it will start in.
const (
	StateListing      State = "Listing"
	StateWatchListing State = "WatchListing"
	StateWatching     State = "Watching"
	StateBackingOff   State = "BackingOff"
	StateStopped      State = "Stopped"
)

// Status is a snapshot of a reflector: a copy that nobody changes.
type Status struct {
	Name, Resource string
	State          State
	// Since is when State was entered.
	Since time.Time
	// Detail is a sentence on what State waits for, where that is not plain
	// from its name, or which subscribers of policy Block the reflector waits for; else empty.
	Detail string
	// Synced: the first complete snapshot is in the store, without what is Quarantined. It never goes back. A list whose
	// objects are all of another kind is none: see Config.Kind.
	Synced bool
	// ResourceVersion is where the next watch would start.
	//
	// Promises, with their tests:
	//   - The RV taken is the list's own, never an item's. Test: TestSessionAdvance, A7.txt.
	//   - RV never moves backwards because of an event. Test: TestSessionAdvance, F10-duplicates.txt.
	ResourceVersion string
	// FreshAsOf is the time up to which the store is known to be current: the
	// start of the request of the last complete list, or when the last event or
	// bookmark of a watch was dealt with. Readiness can be bound to its age. Zero
	// before the first sync.
	//
	// No event says when it was sent. Where a backlog is being worked off (a slow
	// Transform, a subscriber that blocks, a full socket) an event may have been sent earlier than it was
	// dealt with, and the store is that much behind.
	//
	// Promises, with their tests:
	//   - FreshAsOf is the time up to which the store is known current, and readiness can be bound to it.
	//     Test: TestFreshAsOf, TestNotReady.
	FreshAsOf time.Time
	// Objects is how many there are in the store.
	Objects int
	// LastRestart is how the last attempt ended; nil before the first end.
	LastRestart *Restart
	// LastError is the last error of an attempt, also when attempts since then
	// went well; nil if there was none. A clean end is not an error.
	LastError error
	// NextAttempt is when BackingOff ends; zero in other states.
	NextAttempt time.Time
	// ListedItems is how many items the list or watch-list under way brought.
	ListedItems int64
	// RemainingItems is how many more the server estimates; 0 when it does not say.
	RemainingItems int64
	// Quarantined are the objects that do not decode, by key.
	//
	// Promises, with their tests:
	//   - An object that does not decode is quarantined by key (error kept, metric, status) and the rest goes
	//     on; a later good version frees it. Test: TestQuarantineCopiesItsKey, F5.txt, F5-watchlist.txt.
	Quarantined []Quarantined
	// Members are those of a Union, whose Status comment says what the fields above mean then. It is nil
	// for a Reflector, and not nil for a union that has none.
	Members []Member `json:",omitempty"`
}

// Restart is the end of an attempt.
type Restart struct {
	Reason reason.Reason
	At     time.Time
	Err    error // nil for a clean end
}

// Quarantined is an object that does not decode, or whose transform failed. An
// older version of it that is in the store stays there.
type Quarantined struct {
	Key             decode.Key
	ResourceVersion string
	Since           time.Time
	Err             error
}
