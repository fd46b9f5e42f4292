package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// ListerWatcher is what a reflector needs of the server; *listwatch.ListerWatcher is one.
//
// Both methods make one request and do not retry. Both end with ctx, the stream
// that Watch returns too. Errors carry their reason (reason.Carrier); one that
// does not is taken for reason.Transport.
//
// Where it also has
//
//	Resource() schema.GroupVersionResource
//	Kind() string
//	Transfer() *streamwatcher.Transfer
//
// the reflector takes the resource's name, the kind of its objects ("" is not
// known) and the byte counts from there. A wrapper has to pass them on.
type ListerWatcher[T any] interface {
	List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[T]) (metav1.ListMeta, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[T], error)
}

// InitialSync says how the collection is read first, and again at a relist.
//
// Promises, with their tests:
//   - Watch-list (sendInitialEvents) is the default where the server has it. Test: TestConfigDefaults,
//     B4-retry.txt.
//   - It ends only on a bookmark annotated k8s.io/initial-events-end. Test: B6-false-mark.txt, B1.txt,
//     B5.txt.
//   - It is bounded: three tries that end without the mark, or 75 s without it after the last initial
//     event. Test: B1.txt, B2.txt, B2-silent.txt.
//   - It falls back to list+watch on 400/403/405/406/415/422/501 or on a missing end mark, and the
//     decision is remembered per resource and retried later. Test: TestRefusesInitialEvents, B4-400.txt,
//     B4-strict.txt, B1-retried-later.txt.
type InitialSync uint8

const (
	// InitialAuto is a watch-list (KEP-3157) where the server has it, else list and watch.
	InitialAuto InitialSync = iota
	// InitialWatchList is a watch-list and nothing else. Where the server has none
	// the reflector reports watchlist_unsupported or watchlist_incomplete, backs
	// off, and tries again: it is never synced. For who wants to be sure that the
	// server is asked in this way, such as a benchmark.
	InitialWatchList
	// InitialList is LIST, then WATCH.
	InitialList
)

// String returns auto, watchlist or list.
func (i InitialSync) String() string {
	switch i {
	case InitialAuto:
		return "auto"
	case InitialWatchList:
		return "watchlist"
	case InitialList:
		return "list"
	}
	return fmt.Sprintf("InitialSync(%d)", uint8(i))
}

// Backoff is the one backoff of the whole cycle. A field that is 0 has its
// default; there is no way to ask for no backoff.
//
// Promises, with their tests:
//   - One exponential backoff with jitter for the whole cycle, reset only after a healthy period, never by
//     one good LIST. Test: TestBackoffPaces, G1.txt, G5-reset.txt.
//   - Retry-After (seconds or date) and details.retryAfterSeconds, in a response or in an ERROR event, are
//     honoured, capped and jittered. Test: TestParseRetryAfter, G2.txt, G2-date.txt, G2-header.txt,
//     G2-watchlist.txt.
//   - 403/401 back off long, with one clear message that names verb, resource, user and the node-selector
//     rule. Test: TestForbiddenNamesTheNodeRuleOnlyToANodeThatBrokeIt, H1.txt, H1-401.txt.
type Backoff struct {
	// Min is the longest first wait, default 800 ms; at least 10 ms.
	Min time.Duration
	// Max is the longest wait, default 30 s. A server that is down (nobody
	// listens, nothing reached it) is asked again within 4 s however long that
	// lasts, or within Max where that is less, or Min where that is more. A
	// refusal (401, 403) waits longer, from Max/4 to four times Max, and a
	// Retry-After of the server is honoured up to a minute, whatever Max is.
	Max time.Duration
}

// Config is the whole of a reflector. Only ListerWatcher must be set.
type Config[T any] struct {
	// Name stands in logs, metrics and debug pages; the caller keeps the number
	// of different names small. Default: Resource.
	Name string
	// Resource is what is watched, such as "pods". Default: what ListerWatcher's
	// Resource() says, without the version.
	Resource string
	// Kind is the kind that objects of the collection have; what says another
	// kind is never stored. Default: what ListerWatcher's Kind() says, else
	// decode.KindOf T, else the kind of the first object.
	//
	// Promises, with their tests:
	//   - An object of another kind or with no name is never stored. Test: F3.txt, F3-list.txt,
	//     F3-watchlist.txt.
	//   - A list or watch-list that has objects, and all of another kind, is an error and no empty collection: nothing
	//     is deleted for it, it is asked for again, and Status and WaitForSync say what came. Test:
	//     TestNothingOfTheKind, F3-other-list.txt.
	Kind string
	// ListerWatcher makes the requests.
	ListerWatcher ListerWatcher[T]
	// Store is filled by this reflector and no other. Default: a new one without indexes.
	Store *Store[T]
	// InitialSync says how to list.
	InitialSync InitialSync
	// Objects says what the store keeps of each object. With ObjectsCompact there can be no Transform.
	Objects Objects
	// PageSize is how many items to ask for in one LIST; 0 is all.
	PageSize int64
	// WatchTimeout: each watch asks the server to end it after a random time
	// between this and twice this, so that many clients do not come back at
	// once. Default 5 min; at least 1 s, since the API counts in seconds.
	//
	// Promises, with their tests:
	//   - A client-side deadline of the server timeout plus a margin. Test: D8-outlived.txt.
	WatchTimeout time.Duration
	// IdleTimeout is the longest silence on a watch before the connection is
	// taken for dead. Default: tuned to the bookmarks seen on that connection.
	//
	// Promises, with their tests:
	//   - A read watchdog, armed only while blocked on a read, tuned to the bookmark cadence seen (3×, at
	//     least 30 s, 3 min until the first). Test: TestSlowConsumersAreNoSilence, TestSlowCallerIsNotIdle,
	//     D1-tuned.txt.
	IdleTimeout time.Duration
	// Backoff is the wait between attempts.
	Backoff Backoff
	// Transform is called once for each received object, before it is visible
	// to anybody, from Run's goroutine. It may change its argument. An error or
	// a panic quarantines the object. It costs what ObjectsShared saves: to leave fields
	// out, listwatch.Config.Decode is the better place.
	Transform func(T) (T, error)
	// Accept says whether an object, after Transform, belongs to the collection. It is called
	// from Run's goroutine, once for each, and must not change the object.
	// A stored object whose new version is refused is deleted.
	Accept func(T) bool
	// Retain says which deleted objects Store.Tombstones has; by default none.
	Retain Retain
	// Rand is the source of jitter: of the waits and the watch timeouts. Only
	// Run's goroutine uses it. nil is the runtime's.
	Rand *rand.Rand
	// OnStop is called once, from Run's goroutine, when Run ends: there is no
	// request any more. It is the place to close what only this reflector uses,
	// such as the ListerWatcher's idle connections.
	OnStop func()
	// Registry is where the running reflector shows itself; nil is nowhere.
	Registry *Registry
	// Logger gets transitions and what went wrong; nil discards. docs/seeing.md
	// lists the messages and their keys.
	Logger *slog.Logger
	// Tracer makes spans of lists, watch-lists, relists and watches; nil is none,
	// and costs nothing.
	Tracer Tracer
}

// What stands for a field of Config that is 0, and the least of Backoff.Min.
const (
	DefaultBackoffMin   = 800 * time.Millisecond
	DefaultBackoffMax   = 30 * time.Second
	MinBackoff          = 10 * time.Millisecond
	DefaultWatchTimeout = 5 * time.Minute
	// DefaultIdleTimeout is the longest silence of a healthy watch: the limit until
	// the bookmarks of a connection tell a shorter one.
	DefaultIdleTimeout = 3 * time.Minute
)

func (c Config[T]) withDefaults() Config[T] {
	if c.Resource == "" {
		if gvr, ok := resourceOf(c.ListerWatcher); ok {
			c.Resource = gvr.GroupResource().String()
		}
	}
	if c.Name == "" {
		c.Name = c.Resource
	}
	if c.Kind == "" {
		c.Kind = kindOf(c.ListerWatcher)
	}
	if c.Kind == "" {
		c.Kind = decode.KindOf[T]()
	}
	if c.Store == nil {
		c.Store = NewStore[T]()
	}
	if c.WatchTimeout == 0 {
		c.WatchTimeout = DefaultWatchTimeout
	}
	// A given bound moves the default of the other one out of its way.
	b := &c.Backoff
	switch {
	case b.Min == 0 && b.Max == 0:
		b.Min, b.Max = DefaultBackoffMin, DefaultBackoffMax
	case b.Min == 0:
		b.Min = min(DefaultBackoffMin, b.Max)
	case b.Max == 0:
		b.Max = max(DefaultBackoffMax, b.Min)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config[T]) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reflector: Config."+format, args...))
	}
	if c.ListerWatcher == nil {
		bad("ListerWatcher is nil: set what lists and watches, such as one of listwatch.New")
	}
	if c.Resource == "" && c.ListerWatcher != nil {
		bad(`Resource is empty and the ListerWatcher does not name one: set it, such as "pods"`)
	}
	if c.InitialSync > InitialList {
		bad("InitialSync is %d: use InitialAuto, InitialWatchList or InitialList", c.InitialSync)
	}
	switch {
	case c.Objects > ObjectsCompact:
		bad("Objects is %d: use ObjectsShared, ObjectsPrivate or ObjectsCompact", c.Objects)
	case c.Objects == ObjectsCompact && c.Transform != nil:
		bad("Transform cannot go with Objects: ObjectsCompact, which keeps the bytes that came: leave fields out by the decoder (listwatch.Config.Decode), or use ObjectsPrivate")
	}
	errs = append(errs, c.Retain.validate("reflector: Config.Retain"))
	if c.PageSize < 0 {
		bad("PageSize is %d: use 0 for one page or a positive number of items", c.PageSize)
	}
	if c.WatchTimeout < time.Second {
		bad("WatchTimeout is %v: use at least 1s, the API counts in whole seconds", c.WatchTimeout)
	}
	if c.IdleTimeout < 0 {
		bad("IdleTimeout is %v: use a positive time, or 0 to follow the bookmarks", c.IdleTimeout)
	}
	if c.Backoff.Min < MinBackoff {
		bad("Backoff.Min is %v: use at least %v, or 0 for the default of %v", c.Backoff.Min, MinBackoff, DefaultBackoffMin)
	}
	if c.Backoff.Max < c.Backoff.Min {
		bad("Backoff.Max is %v, below Backoff.Min of %v: raise it, or leave it 0", c.Backoff.Max, c.Backoff.Min)
	}
	return errors.Join(errs...)
}

// resourceOf asks lw what it lists.
func resourceOf(lw any) (schema.GroupVersionResource, bool) {
	named, ok := lw.(interface {
		Resource() schema.GroupVersionResource
	})
	if !ok {
		return schema.GroupVersionResource{}, false
	}
	return named.Resource(), true
}

// kindOf asks lw for the kind of its objects; "" is not known.
func kindOf(lw any) string {
	if sure, ok := lw.(interface{ Kind() string }); ok {
		return sure.Kind()
	}
	return ""
}

// transferOf returns lw's byte counters, or nil.
func transferOf(lw any) *streamwatcher.Transfer {
	if counted, ok := lw.(interface {
		Transfer() *streamwatcher.Transfer
	}); ok {
		return counted.Transfer()
	}
	return nil
}
