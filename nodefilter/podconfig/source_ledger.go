package podconfig

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// ledger is what a producer knows of itself: its status, and what is wrong by
// the place where it is wrong. One place has one thing wrong at a time. It is
// where "said once, cleared when fixed" is kept: the log gets a line when a
// fault appears or changes its text, and one when it is gone.
type ledger struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows
	status SourceStatus
	faults map[string]*SourceError
}

func newLedger(log *slog.Logger, source Source) *ledger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &ledger{log: log.With("source", string(source)), faults: make(map[string]*SourceError)}
}

// fail notes that something is wrong at a place, and says so if that is news.
// It returns how often this very thing has been seen in a row.
func (l *ledger) fail(where, message string) int {
	n := l.note(where, message)
	if n == 1 {
		l.log.Warn("pod source has a fault", "where", where, "err", message)
	}
	return n
}

// note is fail without the log.
func (l *ledger) note(where, message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.faults[where]
	if f == nil || f.Message != message {
		f = &SourceError{Where: where, Message: message, Since: time.Now()}
		l.faults[where] = f
	}
	f.Count++
	return f.Count
}

// mend notes that nothing is wrong at a place (any more).
func (l *ledger) mend(where string) {
	l.mu.Lock()
	_, had := l.faults[where]
	delete(l.faults, where)
	l.mu.Unlock()
	if had {
		l.log.Info("pod source has a fault no longer", "where", where)
	}
}

// mendOthers is mend for all places but those that keep says.
func (l *ledger) mendOthers(keep func(where string) bool) {
	l.mu.Lock()
	places := slices.Sorted(maps.Keys(l.faults))
	l.mu.Unlock()
	for _, where := range places {
		if !keep(where) {
			l.mend(where)
		}
	}
}

// told notes that a Change was told, after which the source has so many pods.
func (l *ledger) told(c Change, pods int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Seen = l.status.Seen || c.Full
	l.status.Pods = pods
	l.status.LastChange = time.Now()
}

// snapshot is a copy of the status, with the faults by their place.
func (l *ledger) snapshot() SourceStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	for _, f := range l.faults {
		s.Errors = append(s.Errors, *f)
	}
	slices.SortFunc(s.Errors, func(a, b SourceError) int { return cmp.Compare(a.Where, b.Where) })
	return s
}
