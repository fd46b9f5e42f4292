package simulator

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Schedule is all that will happen in a run. It is computed from a seed, and may
// be made smaller by leaving out elements of Ops, Faults and Consumers: what is
// left happens at the same time.
type Schedule struct {
	Seed      uint64
	Client    Client
	Server    Server
	Ops       []Op       // by time
	Faults    []Fault    // by time
	Consumers []Consumer // at least one
	// Chaos is when the faults stop, End when the server has been well for long
	// enough, Stop when the client is told to stop, which is before End in some
	// runs and in the middle of new faults in others.
	Chaos, End, Stop time.Duration

	stall bool // a consumer does not look for long
}

// Client is how the client is configured.
type Client struct {
	Initial      reflector.InitialSync
	Encoding     listwatch.EncodingPolicy
	Gzip         bool
	PageSize     int64
	WatchTimeout time.Duration
	IdleTimeout  time.Duration
	Objects      reflector.Objects
}

// hears reports whether a watch of the client's lives long enough for a
// bookmark of the server's.
func (s *Schedule) hears() bool {
	idle, timeout := s.Client.IdleTimeout, s.Client.WatchTimeout
	return (idle == 0 || idle > s.Server.Bookmarks) &&
		(timeout == 0 || timeout > goodbyes || timeout > s.Server.Bookmarks)
}

// Server is what the server does in all runs of its kind, well or not.
type Server struct {
	Step      int64         // between two resourceVersions
	Window    int           // how many versions the watch cache holds
	Bookmarks time.Duration // between two bookmarks
	// LowBookmarks: a watch from the server's future gets bookmarks all the
	// same, with the server's resourceVersion. Servers of today are silent.
	LowBookmarks bool
	Members      members       // how a watch is compressed, when the client asks for gzip
	Chunk        int           // the most bytes of one read; 0 is no limit
	Latency      time.Duration // of each answer
}

// goodbyes: watches that are asked to live longer are told a last bookmark
// shortly before their end.
const goodbyes = 10 * time.Second

// members says how a watch is cut into gzip members.
type members uint8

const (
	oneMember   members = iota // one for the stream, flushed after each event
	eachFlushed                // one an event, flushed and closed
	eachClosed                 // one an event, closed
	lateTrailer                // one an event, whose trailer comes with the next one
)

// OpKind is what a writer does.
type OpKind uint8

// The workload.
const (
	Touch     OpKind = iota // create what is not there, else change its status
	Delete                  // and nothing when it is not there
	Recreate                // delete, and create under the same name with a new UID
	Cross                   // enter or leave the selector
	Spoil                   // write what the client cannot decode
	Grow                    // write what is too large for the client
	Mend                    // write a good version of all that was spoiled
	Elsewhere               // write to another resource
	Storm                   // write Count times in a short time
)

var opNames = []string{"touch", "delete", "recreate", "cross", "spoil", "grow", "mend", "write elsewhere", "storm"}

// Op is one step of the workload.
type Op struct {
	At     time.Duration
	Kind   OpKind
	Object int
	Count  int
}

func (o Op) String() string {
	s := fmt.Sprintf("%-12v op    %s", o.At, opNames[o.Kind])
	switch o.Kind {
	case Elsewhere, Mend:
		return s
	case Storm:
		return fmt.Sprintf("%s of %d writes to p%02d and its neighbours", s, o.Count, o.Object)
	}
	return fmt.Sprintf("%s p%02d", s, o.Object)
}

// FaultKind is what goes wrong.
type FaultKind uint8

// The faults of the server and the network, for some time.
const (
	Down      FaultKind = iota // connections are refused
	Blackhole                  // no byte passes; what was open stays dead
	Sick                       // every request is answered with an error
	NoList                     // as Sick, for watch-lists only
	NoWatch                    // as Sick, for watches only
	Mute                       // streams opened meanwhile get no bookmark but the mark
	Brief                      // watches opened meanwhile are ended after a moment
	Restart                    // connections are cut and refused, the watch cache is lost
	Restore                    // the same, and etcd is as it was N writes ago
	Compact                    // no watch starts below what there is now; tokens expire

	// Of one request, the first of the right kind.
	Answer    // it is answered with an error
	Page      // it is answered with an HTML page and 200
	WrongType // a content type that the client does not read, or a Table
	Silence   // there is no answer
	Reset     // the connection is reset instead of an answer
	Stale     // a list or watch-list is of N writes ago, whatever was asked for
	CutList   // a list's body is cut
	HangList  // a list's body stops, and the connection stays open
	SlowList  // a list's body pauses
	NoMark    // N watch-lists end without their mark
	LostMark  // N watch-lists go on without their mark
	LateMark  // the mark comes late
	Early     // a watch-list begins with the state of N writes ago, and goes on to now before its mark

	// Of one watch stream.
	End         // the end of the body
	FIN         // the end of the connection
	RST         // reset
	Hang        // no byte any more
	CutEvent    // a part of the next event, then the end of the connection
	ErrorEvent  // an ERROR, then the end
	Again       // the last N events once more
	Replay      // N events from before the watch began
	Foreign     // an object of another kind
	UnknownType // an event type that nobody knows
	LowBookmark // a bookmark from before
	OddBookmark // a bookmark with little in it
	Garbage     // bytes that are no event
	Delay       // bytes come late
)

var faultNames = []string{
	"refuse connections", "black hole", "sick", "no watch-list", "no watch", "no bookmarks", "brief watches", "restart", "restore", "compact",
	"error answer", "HTML page", "wrong content type", "no answer", "reset request", "stale list", "cut list", "hang list", "slow list",
	"watch-list ends without mark", "watch-list loses mark", "late mark", "early start",
	"END", "FIN", "RST", "hang", "cut event", "ERROR", "events again", "replay", "foreign object", "unknown type",
	"low bookmark", "odd bookmark", "garbage", "delay",
}

// stream reports whether a fault befalls one watch stream.
func (k FaultKind) stream() bool { return k >= End }

// request reports whether a fault befalls one request.
func (k FaultKind) request() bool { return k >= Answer && k < End }

// Form is which of the errors that a server knows it says.
type Form uint8

// The forms of an error.
const (
	Expired410  Form = iota // 410, reason Expired
	Gone410                 // 410, reason Gone
	Bare410                 // 410, no reason
	ExpiredOnly             // reason Expired, no code
	Internal500
	Unavailable503
	Empty503 // without a body
	Throttled429
	Initializing429 // storage is (re)initializing
	TooLarge504     // too large resource version, with the cause
	TooLargeText504 // only the message says so
	Timeout504      // the server's own time limit
	Denied403
	Denied401
	NoRoute404
	Invalid422
	BadRequest400
	NotAllowed405
	NotAcceptable406
	NoSuchThing501
	Blank // a Status that says nothing

	forms = int(Blank) + 1
)

var formNames = []string{
	"410 Expired", "410 Gone", "410", "Expired without a code", "500", "503", "503 without a body", "429", "429 storage is (re)initializing",
	"504 too large resource version", "504 too large resource version, text only", "504 Timeout", "403", "401", "404", "422", "400", "405", "406", "501", "empty Status",
}

// Retry is how an answer says when to come back.
type Retry uint8

// The forms of Retry-After.
const (
	NoRetry Retry = iota
	Seconds
	Date
	Detail // details.retryAfterSeconds
	Nonsense

	retries = int(Nonsense) + 1
)

// Fault is one thing that goes wrong.
type Fault struct {
	At   time.Duration
	For  time.Duration
	Kind FaultKind
	Form Form
	// Retry and After are the wish of an error answer.
	Retry Retry
	After time.Duration
	// Verb is which request a fault of one request befalls; empty is any.
	Verb verb
	N    int
	// Part is where in a body, in hundredths.
	Part int
	// HTTP: an error event's Status is an HTTP answer instead; for a restart the
	// connections stay half open instead of being cut.
	HTTP bool
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12v fault %s", f.At, faultNames[f.Kind])
	if f.Kind == Answer || f.Kind == ErrorEvent || f.Kind == Sick || f.Kind == NoList || f.Kind == NoWatch {
		fmt.Fprintf(&b, " (%s)", formNames[f.Form])
		if f.Retry != NoRetry {
			fmt.Fprintf(&b, " retry form %d after %v", f.Retry, f.After)
		}
	}
	if f.Verb != "" {
		fmt.Fprintf(&b, " of a %s", f.Verb)
	}
	if f.For > 0 {
		fmt.Fprintf(&b, " for %v", f.For)
	}
	if f.N > 0 {
		fmt.Fprintf(&b, " n=%d", f.N)
	}
	return b.String()
}

// Consumer is one subscriber.
type Consumer struct {
	// Prompt: it is there from the start and never late, so that it sees every
	// version, and the collection of each SYNCED as the list had it.
	Prompt bool
	Join   time.Duration // when it subscribes
	// Latency is how long it takes for what it finds in its mailbox.
	Latency time.Duration
	// Stalls are times in which it does not look.
	Stalls []Span

	Policy reflector.Policy
	Limit  int           // 0 is the default
	Some   bool          // it wants some versions only, see matches
	Replay time.Duration // 0 is none
}

// matches reports whether it wants a version.
func (c Consumer) matches(rv int64) bool { return !c.Some || rv%3 != 0 }

// Span is a time from and to.
type Span struct{ From, To time.Duration }

func (c Consumer) String() string {
	if c.Prompt {
		return "is prompt"
	}
	return fmt.Sprintf("joins at %v, takes %v, stalls %v; %v at %d, wants some: %t, replay %v",
		c.Join, c.Latency, c.Stalls, c.Policy, c.Limit, c.Some, c.Replay)
}
