package reflector

import (
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// Stats are the counts of one reflector since it was made: a copy, taken at
// one moment. Counters never go back.
type Stats struct {
	// Lists is how many LIST requests ended, by outcome ("success" or "error");
	// a paged list counts once a page. WatchLists the same for watch-lists.
	Lists, WatchLists map[string]uint64
	// ListItems is how many items lists and watch-lists brought, whatever became of them. What a watch-list brings
	// twice because its line was not all of it counts once; what a list that is asked for again brings again counts again.
	ListItems uint64
	// ListSkips is how many of them were in the store already, same UID and
	// resourceVersion, and were neither decoded nor touched.
	ListSkips uint64
	// Watches is how many WATCH requests, those of watch-lists included, were
	// answered with a stream.
	Watches uint64
	// Events is how many watch events came, by type as the server wrote it;
	// what is not a known type is counted under "UNKNOWN".
	Events map[string]uint64
	// Restarts is how many attempts ended, by reason.
	Restarts map[reason.Reason]uint64
	// DecodeErrors is how many objects did not decode, or were failed by Transform.
	DecodeErrors uint64
	// Ignored is how many events and items were not applied, by cause: "duplicate",
	// "stale", "foreign" (another kind, no name), "filtered" (refused by Accept, or of another shard).
	//
	// Promises, with their tests:
	//   - Unknown event types are skipped and counted. Test: F3.txt, TestUnknownTypeIsPassedOn.
	Ignored map[string]uint64
	// Regressions is how often the server went back in time.
	//
	// Promises, with their tests:
	//   - A server that went back in time (restored etcd: bookmark or list RV below ours) is detected, counted
	//     and answered by a full replace with real deletes. Test: A11-restored-etcd.txt,
	//     A12-silent-future.txt, A12-restored-while-down.txt.
	Regressions uint64
	// Panics is how many panics of transforms, handlers and predicates were caught.
	Panics uint64
	// WireBytes and DecodedBytes are response bodies before and after decompression.
	WireBytes, DecodedBytes uint64
	// LastByte and LastBookmark are zero until the first.
	LastByte, LastBookmark time.Time
	// BackoffDelay is the wait under way, 0 when not backing off.
	BackoffDelay time.Duration
	// BackoffTotal is the time spent waiting between attempts.
	BackoffTotal time.Duration
	// ListDuration is from request until the store equals the list, WatchDuration
	// from request to the end, HandlerDuration the time a consumer took for one event.
	ListDuration, WatchDuration, HandlerDuration Histogram
	// Mailboxes are those of the subscribers, in the order in which they came.
	Mailboxes []Mailbox
	// Subscribers and MailboxDepth: how many there are, and the longest backlog of undelivered events among them.
	Subscribers, MailboxDepth int
	// MailboxAge is how long the oldest undelivered event has been waiting; 0 without one.
	MailboxAge time.Duration
	// Coalesced is how many events were merged into a later one because a
	// subscriber was behind.
	Coalesced uint64
	// Resyncs is how often what a subscriber had not read was dropped, and the difference told instead.
	Resyncs uint64
	// BlockedSince is since when the reflector has been waiting for a subscriber of policy Block; zero when it
	// does not. Status.Detail names the subscribers. BlockedTotal is the time that it waited in all.
	BlockedSince time.Time
	BlockedTotal time.Duration
	// Retained is how many deleted objects are kept (Config.Retain).
	Retained int
}

// The words of the keys in Stats, each set closed and in the order in which it is shown.
const (
	success = "success"
	failure = "error"

	unknownType = "UNKNOWN"
)

// cause is why an event or an item was not applied.
type cause uint8

const (
	causeDuplicate cause = iota
	causeStale
	causeForeign
	causeFiltered
	causesN
)

// eventIndex is a type of events, as it is counted.
type eventIndex uint8

const (
	indexAdded eventIndex = iota
	indexModified
	indexDeleted
	indexBookmark
	indexError
	indexUnknown
	indexesN
)

func typeIndex(typ watch.EventType) eventIndex {
	switch typ {
	case watch.Added:
		return indexAdded
	case watch.Modified:
		return indexModified
	case watch.Deleted:
		return indexDeleted
	case watch.Bookmark:
		return indexBookmark
	case watch.Error:
		return indexError
	}
	return indexUnknown
}

// Outcomes are the keys of Stats.Lists and Stats.WatchLists.
func Outcomes() []string { return []string{success, failure} }

// EventTypes are the keys of Stats.Events, those of eventIndex in their order.
func EventTypes() []string {
	return []string{string(watch.Added), string(watch.Modified), string(watch.Deleted), string(watch.Bookmark), string(watch.Error), unknownType}
}

// Causes are the keys of Stats.Ignored, those of cause in their order.
func Causes() []string {
	return []string{"duplicate", "stale", "foreign", "filtered"}
}
