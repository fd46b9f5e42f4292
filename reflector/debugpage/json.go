package debugpage

import (
	"encoding/json"
	"io"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// listing is what JSON shows. How much was left off stands beside each list that may be long, so that nobody takes a
// part for the whole.
type listing struct {
	Reflectors        []entry
	ReflectorsLeftOut int
}

// entry is one reflector in a listing.
type entry struct {
	view
	MembersLeftOut     int `json:",omitempty"`
	MailboxesLeftOut   int `json:",omitempty"`
	QuarantinedLeftOut int `json:",omitempty"`
}

// writeJSON writes at most limit of the views, and of each at most limit entries of each of its lists. 0 is as
// much as the page has.
func writeJSON(w io.Writer, views []view, limit int) error {
	reflectors, lines := sectionsShown, linesFor(views)
	if limit > 0 {
		reflectors, lines = limit, limit
	}
	views, left := first(views, reflectors)
	l := listing{Reflectors: make([]entry, 0, len(views)), ReflectorsLeftOut: left}
	for _, v := range views {
		l.Reflectors = append(l.Reflectors, newEntry(v, lines))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(l)
}

// newEntry cuts the lists of v, whose members are its own. What the members of a union have quarantined
// counts with its own, or a union would have as many such lists as members.
func newEntry(v view, lines int) entry {
	e := entry{view: v}
	s := &e.Status
	e.Stats.Mailboxes, e.MailboxesLeftOut = fullest(v.Stats.Mailboxes, lines)
	s.Members, e.MembersLeftOut = first(v.Status.Members, lines)
	room := lines
	take := func(all []reflector.Quarantined) []reflector.Quarantined {
		some, left := first(all, room)
		room -= len(some)
		e.QuarantinedLeftOut += left
		return some
	}
	s.Quarantined = take(s.Quarantined)
	for i := range s.Members {
		m := &s.Members[i].Status
		m.Quarantined = take(m.Quarantined)
	}
	return e
}
