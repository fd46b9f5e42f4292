package reflector

import (
	"encoding/json"
	"time"
)

// The JSON forms of Status and Stats, as debug pages show them. An error is its
// text: the fields of one are not for everybody to see, and need not have a JSON
// form. A duration is a number of seconds, under a name that says so. What there
// is none of (a time that has not come, an error, a wait) is left out.

// hidden, in a struct around another one, takes a field of that name away.
type hidden struct{}

// MarshalJSON leaves out the times that are zero, and LastError where there is none.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status // without this method
	return json.Marshal(struct {
		plain
		Since, FreshAsOf, NextAttempt time.Time `json:",omitzero"`
		LastError                     string    `json:",omitempty"`
	}{plain(s), s.Since, s.FreshAsOf, s.NextAttempt, errorText(s.LastError)})
}

// MarshalJSON leaves Err out for a clean end.
func (r Restart) MarshalJSON() ([]byte, error) {
	type plain Restart
	return json.Marshal(struct {
		plain
		Err string `json:",omitempty"`
	}{plain(r), errorText(r.Err)})
}

// MarshalJSON writes the key as namespace/name.
func (q Quarantined) MarshalJSON() ([]byte, error) {
	type plain Quarantined
	return json.Marshal(struct {
		Key string
		plain
		Err string
	}{q.Key.String(), plain(q), errorText(q.Err)})
}

// MarshalJSON leaves out the times and waits that are zero.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	return json.Marshal(struct {
		plain
		LastByte, LastBookmark, BlockedSince time.Time `json:",omitzero"`

		BackoffDelay, BackoffTotal, MailboxAge, BlockedTotal hidden  `json:",omitzero"`
		BackoffDelaySeconds                                  float64 `json:",omitzero"`
		BackoffTotalSeconds                                  float64
		MailboxAgeSeconds                                    float64 `json:",omitzero"`
		BlockedTotalSeconds                                  float64
	}{
		plain: plain(s), LastByte: s.LastByte, LastBookmark: s.LastBookmark, BlockedSince: s.BlockedSince,
		BackoffDelaySeconds: s.BackoffDelay.Seconds(), BackoffTotalSeconds: s.BackoffTotal.Seconds(),
		MailboxAgeSeconds: s.MailboxAge.Seconds(), BlockedTotalSeconds: s.BlockedTotal.Seconds(),
	})
}

// MarshalJSON leaves out the times that are zero.
func (m Mailbox) MarshalJSON() ([]byte, error) {
	type plain Mailbox
	return json.Marshal(struct {
		plain
		Since, BlockedSince time.Time `json:",omitzero"`
		Age                 hidden    `json:",omitzero"`
		AgeSeconds          float64   `json:",omitzero"`
	}{plain: plain(m), Since: m.Since, BlockedSince: m.BlockedSince, AgeSeconds: m.Age.Seconds()})
}

// MarshalJSON writes Sum as SumSeconds.
func (h Histogram) MarshalJSON() ([]byte, error) {
	type plain Histogram
	return json.Marshal(struct {
		plain
		Sum        hidden `json:",omitzero"`
		SumSeconds float64
	}{plain: plain(h), SumSeconds: h.Sum.Seconds()})
}

// MarshalJSON writes UpperBound as UpperBoundSeconds.
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		UpperBoundSeconds float64
		Count             uint64
	}{b.UpperBound.Seconds(), b.Count})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
