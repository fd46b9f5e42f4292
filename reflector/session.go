package reflector

import (
	"strings"
	"time"
)

const (
	// watchListTries: so many watch-lists may end without their mark before the
	// collection is listed instead.
	watchListTries = 3
	// tooLargeTries: so many requests at one resourceVersion may be told that it
	// is too large; a server that is behind catches up within a second.
	tooLargeTries = 2
	// stuckTries: so many watches in a row from one resourceVersion may end in
	// bytes that make no sense, or be rejected, before a list goes around it.
	stuckTries = 4
	// silentLimit is how much silence is accepted before a list looks what is
	// up, in points of session.silence: two watches that lived their time.
	silentLimit = 4
	// silentLimitMax bounds the doubling of it: with the default timeouts, one
	// list in some hours.
	silentLimitMax = 128
	// replayTries: so many events in a row from before a watch's start, all of
	// them known already, are a server that replays its history.
	replayTries = 100
)

// session is what is known between two lists. Only Run's goroutine touches it.
type session struct {
	// rv is up to where the store is known, and where the next watch starts.
	// Empty before the first list, or when the server does not name any.
	rv string
	// cycle is set from a complete list until a watch from it brings something.
	// Within a cycle a resourceVersion was used already and got us nowhere: the
	// second list of a cycle goes without one.
	cycle bool
	// heard is the newest resourceVersion among the items of lists that did not
	// come to their end: those items are in the store. Empty when there are none.
	heard string
	// doubt is set when the server may have lost the history that the store is
	// of (etcd was restored), until the next complete list. In doubt a list is
	// compared by content: resourceVersions are given out again, so the same UID
	// and resourceVersion is no proof of the same version.
	doubt bool
	// refused is the last resourceVersion at which a watch was told that it
	// expired. A list that answers with it is accepted only as a read of the
	// newest state: what was asked for without a resourceVersion.
	refused string
	// tooLarge and stuck count watches or lists in a row that ended so, expired the watches since the last event or
	// bookmark.
	tooLarge, stuck, expired int
	// silent is the silence so far, and patience how much is accepted now; see silence.
	silent, patience int
	// quiet is what silences too short to count have come to; see silence.
	quiet time.Duration
	// failed: a watch ended before its time, or none came about, since the last
	// event or bookmark. The server may have been restarted meanwhile.
	failed bool
	// tries is how many watch-lists in a row ended without their mark.
	tries int
	// listOnly is until when watch-list is not tried, after the server proved
	// not to have it.
	listOnly time.Time
	// resumed is when the last watch was opened without a wait.
	resumed time.Time
	// waited is when the last wait was over; zero when that was made use of, see arrival.
	waited time.Time
}

// arrival is how to go on with a request that follows from the answer to the
// first one after a wait. Waits are jittered, so the client has a place of its
// own among all clients, and the second request may go at once; only one may. A
// client that got its answer late has lost its place: it stood in a queue with
// others (a server that starts accepts connections seconds before it serves
// them), and all of them were answered in one instant.
func (s *session) arrival(now time.Time) pace {
	waited := s.waited
	s.waited = time.Time{}
	switch {
	case waited.IsZero():
		return spread
	case now.Sub(waited) < shortWatch:
		return atOnce
	}
	return queued
}

// watchListRetry is how long a server without watch-list is listed before it is
// asked again: API servers get upgraded.
const watchListRetry = 30 * time.Minute

// relistRV is the resourceVersion that the next list asks for. It is the last
// one, so that the list may come from the server's watch cache but not from
// before what is known, and the empty one (a read of the newest state) when
// that resourceVersion got us nowhere already.
func (s *session) relistRV() string {
	if s.cycle {
		return ""
	}
	return s.rv
}

// newest returns the newest resourceVersion of which the store has something. A
// list from before would take back what is there.
func (s *session) newest() string {
	if s.rv == "" || olderRV(s.rv, s.heard) {
		return s.heard
	}
	return s.rv
}

// lags notes an answer that the resourceVersion is too large, and reports
// whether the server may be asked for it once more.
func (s *session) lags() bool {
	s.tooLarge++
	return s.tooLarge < tooLargeTries
}

// synced notes a complete list or watch-list at rv.
func (s *session) synced(rv string) {
	s.rv, s.heard, s.cycle, s.doubt = rv, "", true, false
	s.tooLarge, s.stuck, s.silent, s.tries = 0, 0, 0, 0
	s.failed, s.quiet = false, 0
}

// progress notes that a watch brought an event or a bookmark.
func (s *session) progress() {
	s.cycle = false
	s.tooLarge, s.stuck, s.expired, s.silent = 0, 0, 0, 0
	s.failed, s.waited, s.quiet = false, time.Time{}, 0
	s.patience = silentLimit
}

// advance moves rv to that of an event which was applied, or of a bookmark. It
// never moves backwards. resourceVersions that are no numbers cannot be
// compared; then the server's order counts.
//
// A session without a resourceVersion is advanced by bookmarks alone: the watch
// began with the collection itself in no particular order, and an item's
// resourceVersion says nothing about the others.
func (s *session) advance(rv string, bookmark bool) {
	if rv == "" || s.rv == "" && !bookmark {
		return
	}
	if s.rv != "" && olderRV(rv, s.rv) {
		return
	}
	s.rv = strings.Clone(rv) // which may be a part of something larger
}

// silence notes a watch that brought nothing although bookmarks were asked for,
// and reports whether it is time to list. due says that a bookmark was due in
// the time that it lived; without, it is the time that counts, so that a short
// idle limit of the caller's does not make lists of watches that can be resumed.
//
// An API server before which the resourceVersion lies (etcd was restored)
// answers such a watch with 200 and stays silent until its own history has
// caught up, which may be never. Two in a row are looked into. One is enough
// where suspicious: it is over a minute long, and there was a failure since the
// server was last heard of. It takes a restart to put a server back, and once
// its history has caught up nothing tells any more that it is another one.
//
// A server that simply sends no bookmarks looks the same, so each look that
// found nothing doubles the silence that is accepted, until something comes.
func (s *session) silence(due, suspicious bool, lived time.Duration) bool {
	switch {
	case suspicious:
		s.silent += silentLimit
	case due:
		s.silent += 2
	default:
		if s.quiet += lived; s.quiet < bookmarkDue/2 {
			return false
		}
		s.quiet = 0
		s.silent++
	}
	limit := max(s.patience, silentLimit)
	if s.silent < limit {
		return false
	}
	s.patience = min(2*limit, silentLimitMax)
	return true
}

// suspects reports whether the next silence of over a minute will be looked into.
func (s *session) suspects() bool { return s.failed && s.patience <= silentLimit }
