package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// transcript is what happened, in the order in which it happened.
type transcript struct {
	lines   []line
	failure *Failure // the first one
}

type line struct {
	at   time.Duration
	text string
}

// Failure is a broken promise.
type Failure struct {
	At      time.Duration
	Promise string // which one: a word that stays the same when a run is shrunk
	Text    string
}

func (f *Failure) String() string { return fmt.Sprintf("%v: %s: %s", f.At, f.Promise, f.Text) }

func (t *transcript) add(at time.Duration, format string, args ...any) {
	t.lines = append(t.lines, line{at, fmt.Sprintf(format, args...)})
}

func (t *transcript) fail(at time.Duration, promise, text string) {
	f := &Failure{at, promise, text}
	if t.failure == nil {
		t.failure = f
	}
	t.add(at, "BROKEN: %s: %s", promise, text)
}

// String returns the lines by time.
func (t *transcript) String() string {
	var b strings.Builder
	for _, l := range t.lines {
		fmt.Fprintf(&b, "%-14v %s\n", l.at, l.text)
	}
	return b.String()
}

// merged returns several transcripts as one, by time.
func merged(all ...*transcript) *transcript {
	m := &transcript{}
	for _, t := range all {
		m.lines = append(m.lines, t.lines...)
		if t.failure != nil && (m.failure == nil || t.failure.At < m.failure.At) {
			m.failure = t.failure
		}
	}
	slices.SortStableFunc(m.lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return m
}
