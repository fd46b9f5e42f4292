// Package reflector keeps a typed store equal to a collection on a Kubernetes
// API server: it lists once, watches from there, and resumes, relists or backs
// off as the ends of its requests demand.
//
// # Vocabulary
//
// An attempt is one request: a LIST, or a WATCH and the stream that answers it.
// It dies with its body and never retries. A session is what is known between
// two lists: the resourceVersion up to which the store is known, and what the
// server refused since. The supervisor is Reflector.Run: it owns the states,
// the one backoff, status and counters, and never touches bytes.
//
// A cycle begins with a list (or watch-list) and lasts until a watch from that
// list's resourceVersion brings something. A snapshot is a complete list. A
// relist is a list that replaces an earlier one; what it did not bring is
// deleted with FinalStateUnknown, client-go's tombstone.
//
// # States
//
// Listing, WatchListing, Watching, BackingOff and Stopped, one file each
// (state_*.go) whose first comment names the exits. Every end of an attempt has
// a reason of the closed set in package reason; it is the log field, the metric
// label and Status().LastRestart.Reason. The transition is made, counted and
// logged in one function.
//
//	             ┌──────────────┐ mark   ┌──────────┐
//	start ──────▶│ WatchListing │───────▶│ Watching │◀─┐ resume at the last
//	             └──────┬───────┘        └─┬──▲─────┘──┘ resourceVersion
//	       unsupported, │       expired, … │  │
//	         incomplete ▼                  ▼  │ complete
//	             ┌──────────────────────────────┐
//	             │           Listing            │
//	             └──────────────────────────────┘
//
// Between any two of them there may be BackingOff; from everywhere the end of
// Run's context leads to Stopped.
//
// # Consuming
//
// A Store is read at any time: by name, by index, by labels, and where Config.Retain asks for
// it for what was deleted, too. Changes are read by Events, Subscribe (iterators) or Handle (functions): each is a
// subscription of its own, with the snapshot first. A Subscription says what becomes of who is
// behind (Coalesce, Block, Resync), which objects are wanted, and whether all is told again from time to time.
//
// # Guarantees
//
// Order. Per object, events reach a subscriber in server order. Nothing is
// delivered twice for the same (UID, resourceVersion), but for an object that a
// list missed and a later one has again: it is told as Deleted, then Added.
//
// Snapshot. After every list or watch-list the store equals the server's
// collection at that resourceVersion. Where the server may have gone back in
// time, contents are compared and not resourceVersions, which are given out
// again then. What no number and no content shows, nobody can know: an etcd that
// was restored and written past our resourceVersion before we came back.
//
// Resume first. Any end of a watch re-watches at the last resourceVersion; only
// where the server cannot resume there (expired, too large, gone back in time,
// replaying, or an endless silence) a list follows.
//
// Isolation. An object that does not decode, or whose transform fails, is
// quarantined by key and the rest goes on.
//
// Objects. What a store and its events hand out is shared and immutable: with
// every other consumer, and by default (ObjectsShared) in parts with other
// objects and versions. Config.Objects chooses; package mutationtest finds who breaks it.
//
// Stop. Everything ends with Run's context; Run makes no goroutine that
// outlives it.
package reflector
