package simulator

import (
	"net/url"
	"slices"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// The promises, by the words under which a failure is told.
const (
	promiseOrder     = "order"       // 1
	promiseTwice     = "twice"       // 1
	promiseSnapshot  = "snapshot"    // 2
	promiseIdentity  = "identity"    // 2
	promiseResume    = "resume"      // 3
	promiseRelist    = "relist"      // 3
	promiseRefused   = "refused"     // 3
	promiseAlive     = "alive"       // 4
	promiseFresh     = "fresh"       // 4
	promisePolite    = "polite"      // 5
	promiseRetry     = "retry after" // 5
	promiseIsolation = "isolation"   // 7
	promiseWatchList = "watch-list"  // 8
	promiseStop      = "stop"        // 9
	promiseEnd       = "end state"   // all of them together
)

// class is what an answer is to the client.
type class uint8

const (
	classNone      class = iota
	classTransport       // there was no answer
	classExpired
	classTooLarge
	classSick     // 429, 5xx
	classDenied   // 401, 403
	classNonsense // other 4xx, and what is no answer to the question
)

// attempt is one request and what became of it.
type attempt struct {
	id       int
	verb     verb
	query    url.Values
	rv       string
	enc      decode.Encoding
	gzip     bool
	jsonOnly bool
	asked    time.Duration
	answered time.Duration
	lag      time.Duration // how old a list's state was when it was answered
	timeout  time.Duration
	h        *history

	code      int
	ended     int // the code of an ERROR that was read
	class     class
	notBefore time.Duration // the server asked not to come back before

	opened   bool          // it is a stream
	complete bool          // the list, or the watch-list's mark, was read
	state    int64         // the newest resourceVersion of what a list may have brought
	marked   int64         // the resourceVersion of the mark
	brought  int           // events and bookmarks read
	clean    bool          // the server ended it cleanly
	hung     bool          // nothing comes any more
	replay   bool          // it brought what lies before its start
	low      bool          // it brought a bookmark from before
	marks    int           // bookmarks read, but for the mark
	lastMark time.Duration // when the last of them was
	gap      time.Duration // the longest time without one
	lastRead time.Duration // when bytes were read last
	lastInit time.Duration // when an initial event was read last
	closed   time.Duration // 0: open
}

// failed notes an answer that is of no use.
func (a *attempt) failed(c class) { a.class = c }

// refused notes an error answer that was given, or an ERROR that was read, at now.
func (a *attempt) refused(c class, code int, now, hint time.Duration) {
	a.class, a.code = c, code
	if hint > 0 {
		a.notBefore = now + min(hint, time.Minute)
	}
}

// shadow is what a client that keeps the promises knows, by what it has read.
type shadow struct {
	s      *server
	cur    *attempt // the last request
	synced bool     // a list was complete
	rv     int64    // where the next watch starts
	// older are resourceVersions at which it may start as well: those before
	// events of which the client could read nothing, not even who they are about.
	older []int64

	h *history // of which rv is
	// tainted: rv is of a history that etcd does not have any more, and no answer
	// has shown it. No client can know.
	tainted bool
	// blind: once a list replaced such a state without showing it. Versions that
	// have the same UID and resourceVersion in two histories cannot be told apart.
	blind bool
	// heard is the newest resourceVersion of which a list that was not complete
	// may have brought something.
	heard   int64
	heardOf *history // the last one that such a list was of
	mixed   bool     // such lists were of several histories

	allowed string // why a list may come next; empty: none may
	refused int64  // the resourceVersion at which the last watch expired
	// newest: the next list must ask for the newest state.
	newest   bool
	tooLarge int           // answers in a row that the resourceVersion is too large
	quiet    time.Duration // of watches in a row that brought nothing, see settle
	failed   bool          // a watch ended before its time since the server was heard last
	stuck    int           // watches in a row that were rejected or brought nonsense
	noMark   int           // watch-lists in a row that were opened and ended without their mark
	earned   bool
	spent    []time.Duration // requests that were not earned

	// slack is how long before it was read what was read last was true: it was
	// under way, or came from a replica that lags. The client cannot know.
	slack time.Duration
	// snapshots are the lists that were accepted.
	snapshots []snapshot
}

// snapshot is a complete list: the history after n versions.
type snapshot struct {
	h  *history
	n  int
	rv int64
	at time.Duration
}

// request checks a request against all that was read before.
func (sh *shadow) request(a *attempt) {
	prev := sh.cur
	if prev != nil && prev.verb == a.verb && !prev.jsonOnly && a.jsonOnly && (prev.code == 406 || prev.code == 415) &&
		a.asked == prev.answered && a.query.Encode() == prev.query.Encode() {
		// The second choice of encoding belongs to the same attempt.
		sh.cur = a
		return
	}
	sh.cur = a
	if a.verb == page {
		if prev == nil || prev.verb != list && prev.verb != page || !prev.complete {
			sh.s.fail(promiseRelist, "request %d asks for a page of a list that was not read", a.id)
			return
		}
		a.lag, a.state, a.h = prev.lag, prev.state, prev.h
		return
	}
	if prev != nil {
		sh.settle(prev)
		if a.asked < prev.notBefore && (prev.class == classSick || prev.class == classDenied) && !sh.fallsBack(prev, a) {
			sh.s.fail(promiseRetry, "request %d comes %v before the time that the answer to %d asked for", a.id, prev.notBefore-a.asked, prev.id)
		}
	}
	sh.polite(a)
	if a.verb == watch {
		sh.watch(a)
	} else {
		sh.sync(a, prev)
	}
}

// fallsBack: a watch-list that the server does not have is followed by a list at once.
func (sh *shadow) fallsBack(prev, a *attempt) bool {
	if prev.verb != watchList || a.verb != list {
		return false
	}
	switch max(prev.code, prev.ended) {
	case 400, 403, 405, 406, 415, 422, 501:
		return true
	}
	return prev.opened && sh.noMark >= 3 || prev.class == classDenied
}

// enoughQuiet is how much silence lets the client look what is up.
const enoughQuiet = 150 * time.Second

// settle draws the conclusions from the end of an attempt.
func (sh *shadow) settle(a *attempt) {
	until := a.closed
	if until == 0 {
		until = sh.s.now()
	}
	lived := until - a.answered
	sh.earned = false
	if a.verb == list || a.verb == page || a.verb == watchList && !a.complete {
		switch a.class {
		case classTooLarge:
			sh.tooLarge++
		case classExpired:
			// A token that expired says nothing of the resourceVersion.
			sh.newest = sh.newest || a.verb != page
		}
		if a.verb == watchList && a.opened && a.marked == 0 && a.class != classExpired && a.class != classTooLarge {
			sh.noMark++
		}
		if !a.complete {
			if a.state > 0 {
				sh.mixed = sh.mixed || sh.heardLost(a.h)
				sh.heard, sh.heardOf = max(sh.heard, a.state), a.h
			}
			if sh.allowed == "" {
				sh.allowed = "the list before was not complete"
			}
			return
		}
		sh.noMark = 0
		return
	}
	if a.complete {
		sh.noMark = 0
	}
	// From here on a was a watch.
	if !a.clean || lived < a.timeout*4/5 {
		defer func() { sh.failed = true }()
	}
	sh.earned = a.clean && (a.brought > 0 || lived >= min(a.timeout*4/5, 10*time.Second))
	switch a.class {
	case classExpired:
		sh.allowed, sh.refused = "expired", number(a.rv)
		if a.verb == watchList {
			sh.refused = a.marked
		}
		return
	case classTooLarge:
		sh.tooLarge++
		if sh.tooLarge >= 2 {
			sh.allowed = "too large twice"
		}
		return
	case classNonsense:
		if sh.stuck++; sh.stuck >= 4 {
			sh.allowed = "stuck"
		}
		return
	}
	switch {
	case a.low:
		sh.allowed = "a bookmark from before"
	case a.replay:
		sh.allowed = "replay"
	case a.brought == 0 && a.opened && a.class == classNone:
		// Two watches that lived their time in silence may be of another history,
		// and so may be any number of shorter ones that come to as much: two and
		// a half minutes.
		switch {
		case sh.failed && until-a.asked >= 75*time.Second:
			// One is enough after a watch that ended before its time.
			sh.quiet = enoughQuiet
		case lived >= a.timeout*4/5 || lived >= 75*time.Second:
			sh.quiet += enoughQuiet / 2
		case !a.clean:
			sh.quiet += lived
		}
		if sh.quiet >= enoughQuiet {
			sh.allowed = "silence"
		}
	}
}

// watch checks the start of a watch.
func (sh *shadow) watch(a *attempt) {
	if !sh.synced {
		sh.s.fail(promiseSnapshot, "request %d watches before a list was complete", a.id)
		return
	}
	rv := number(a.rv)
	if rv != sh.rv && !slices.Contains(sh.older, rv) {
		sh.s.fail(promiseResume, "request %d watches from %d; what was read last is %d", a.id, rv, sh.rv)
	}
	if rv == sh.refused && sh.refused != 0 {
		sh.s.fail(promiseRefused, "request %d watches from %d, at which a watch expired", a.id, rv)
	}
}

// sync checks a list or watch-list.
func (sh *shadow) sync(a, prev *attempt) {
	if prev != nil && sh.allowed == "" {
		sh.s.fail(promiseRelist, "request %d lists although the watch before it can be resumed", a.id)
	}
	if a.rv != "" && number(a.rv) != sh.rv && !slices.Contains(sh.older, number(a.rv)) {
		sh.s.fail(promiseResume, "request %d lists from %s; what was read last is %d", a.id, a.rv, sh.rv)
	}
	if a.rv != "" && sh.newest {
		sh.s.fail(promiseRefused, "request %d asks for %s once more", a.id, a.rv)
	}
	if a.rv != "" && sh.tooLarge >= 2 {
		sh.s.fail(promiseRefused, "request %d asks for %s, which was too large twice", a.id, a.rv)
	}
	if a.verb == watchList && sh.noMark >= 3 {
		sh.s.fail(promiseWatchList, "request %d is a watch-list after %d without a mark", a.id, sh.noMark)
	}
}

// Bounds of politeness: requests that the client has not earned by a watch that
// worked, in any 10 s and in any minute. With a full jitter of 0.8 s, doubled up
// to 30 s, more than 12 waits within 10 s have a probability of 1e-9, and more
// than 20 within a minute one of 1e-11; a wait may be followed by two requests,
// where the first one asked for something that can be given up.
const (
	most10s = 24
	most60s = 40
)

func (sh *shadow) polite(a *attempt) {
	if sh.earned {
		return
	}
	sh.spent = append(sh.spent, a.asked)
	for _, bound := range []struct {
		n  int
		in time.Duration
	}{{most10s, 10 * time.Second}, {most60s, time.Minute}} {
		if i := len(sh.spent) - bound.n - 1; i >= 0 && a.asked-sh.spent[i] < bound.in {
			sh.s.fail(promisePolite, "request %d is the last of %d within %v", a.id, bound.n+1, a.asked-sh.spent[i])
		}
	}
}

// accepts reports whether the client takes a list at rv that it asked for with a.
func (sh *shadow) accepts(a *attempt, rv int64) bool {
	return a.rv == "" || rv >= sh.rv && rv != sh.refused
}

// listed: the last byte of a page was read.
func (sh *shadow) listed(a *attempt, h *history, n int, last bool) {
	a.complete = true
	if !last {
		return
	}
	rv := h.rvOf(n)
	if !sh.accepts(a, rv) {
		a.complete, sh.newest = false, true
		return
	}
	sh.complete(a, h, n, rv)
	sh.slack = a.lag
}

// marked: the end of a watch-list's initial events was read.
func (sh *shadow) marked(a *attempt, h *history, n int, rv int64, at time.Duration) {
	if a.complete {
		return
	}
	if !sh.accepts(a, rv) {
		sh.newest, a.marked = true, rv
		return
	}
	a.complete, a.brought, a.marked = true, 1, rv
	sh.complete(a, h, n, rv)
	sh.slack = a.lag + sh.s.now() - at
}

// complete: a list was accepted.
func (sh *shadow) complete(a *attempt, h *history, n int, rv int64) {
	before := sh.rv
	early := rv < sh.heard
	lost := sh.synced && (sh.tainted || sh.h != h && sh.rv > sh.s.world.shared(sh.h, h)) ||
		sh.mixed || sh.heardLost(h)
	sh.heard, sh.heardOf, sh.mixed = 0, nil, false
	sh.synced, sh.rv, sh.older, sh.h, sh.tainted = true, rv, nil, h, false
	sh.allowed, sh.refused, sh.newest = "", 0, false
	if early {
		// A list that was cut may have brought something newer, which the
		// client has; then it does not take this one.
		sh.allowed = "the list before may have brought more"
		sh.older = append(sh.older, before)
	}
	if lost {
		// The client may find out at the end of the list, by an object or by the
		// mark, and list once more. Or no number shows it.
		sh.allowed = "the history was replaced"
		sh.older = append(sh.older, before)
		sh.blind = sh.blind || rv >= before
	}
	sh.tooLarge, sh.quiet, sh.stuck, sh.noMark = 0, 0, 0, 0
	sh.failed = false
	sh.snapshots = append(sh.snapshots, snapshot{h, n, rv, sh.s.now()})
	sh.s.log.add(sh.s.now(), "  %d: complete at %d", a.id, rv)
}

// heardLost reports whether something that was heard is not of h.
func (sh *shadow) heardLost(h *history) bool {
	return sh.heardOf != nil && sh.heardOf != h && sh.heard > sh.s.world.shared(sh.heardOf, h)
}

// resumed: a watch was answered.
func (sh *shadow) resumed(h *history) {
	if sh.h != h && sh.h != nil {
		sh.tainted = sh.tainted || sh.rv > sh.s.world.shared(sh.h, h)
		if !sh.tainted {
			sh.h = h
		}
	}
}

// event: an event about v was read.
func (sh *shadow) event(a *attempt, v *version, at time.Duration) {
	if a.verb == watchList && !a.complete {
		// A new object cannot be told from a late initial event.
		if !v.wasThere() {
			a.lastInit = sh.s.now()
		}
		a.state = max(a.state, v.rv)
		return
	}
	a.brought++
	if v.content().flaw == huge && !v.gone {
		sh.older = append(sh.older, sh.rv)
	} else {
		sh.older = nil
	}
	sh.progress(v.rv, at)
}

func (sh *shadow) progress(rv int64, at time.Duration) {
	sh.rv = max(sh.rv, rv)
	sh.tooLarge, sh.quiet, sh.stuck = 0, 0, 0
	sh.failed = false
	sh.slack = sh.s.now() - at
}

func (sh *shadow) bookmark(a *attempt, rv int64, at time.Duration) {
	if a.verb == watchList && !a.complete {
		return
	}
	if rv < sh.rv {
		a.low = true
		return
	}
	a.brought++
	sh.older = nil
	sh.progress(rv, at)
	since := a.lastMark
	if a.marks == 0 {
		since = a.answered
	}
	now := sh.s.now()
	a.marks, a.lastMark, a.gap = a.marks+1, now, max(a.gap, now-since)
}

// initial: an initial event of a watch-list was read.
func (sh *shadow) initial(a *attempt, v *version) {
	a.lastInit = sh.s.now()
	a.state = max(a.state, v.rv)
}

// replayed: an event from before the start of the watch was read.
func (sh *shadow) replayed(a *attempt, at time.Duration) {
	a.replay = true
	sh.slack = sh.s.now() - at // it was sent after all that came before
}

// skipped: something was read that is none of the client's business.
func (sh *shadow) skipped(a *attempt) {
	if a.complete || a.verb == watch {
		a.brought++
	}
}

// closed: the client let go of a body.
func (sh *shadow) closed(a *attempt) {
	now := sh.s.now()
	if a.hung && a.opened {
		limit := sh.s.sched.Client.IdleTimeout
		switch {
		case limit > 0:
		case a.marks < 2:
			limit = 3 * time.Minute
		default:
			limit = max(3*a.gap, 30*time.Second)
		}
		if quiet := now - max(a.lastRead, a.answered); quiet > limit+time.Second {
			sh.s.fail(promiseAlive, "request %d was silent for %v before it was given up", a.id, quiet)
		}
	}
	if a.verb == watchList && a.opened && !a.complete {
		if wait := now - max(a.lastInit, a.answered); wait > 76*time.Second {
			sh.s.fail(promiseWatchList, "request %d waited %v for its mark", a.id, wait)
		}
	}
}

// position returns the state that the client's collection should have; known
// is false where no client can have it.
func (sh *shadow) position() (h *history, n int, known bool) {
	if !sh.synced || sh.tainted {
		return nil, 0, false
	}
	return sh.h, sh.h.after(sh.rv), true
}
