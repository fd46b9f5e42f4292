package debugpage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/health"
)

// The kinds of trouble, the worst first: the order of the page.
const (
	stopped     = "stopped"
	notSynced   = "not synced"
	notFresh    = "not fresh"
	backingOff  = "backing off"
	blocked     = "blocked"
	quarantined = "quarantined"
)

var troubles = []string{stopped, notSynced, notFresh, backingOff, blocked, quarantined}

// view is one reflector, as JSON shows it.
type view struct {
	Status reflector.Status
	Stats  reflector.Stats
	// Trouble is what is wrong with it, the worst first.
	Trouble []string `json:",omitempty"`
}

// viewsOf returns a view of each source: those in trouble first, the worst on top, then by name. The members
// of a union are in the order of their trouble.
func viewsOf(sources []reflector.Source, maxAge time.Duration, now time.Time) []view {
	all := make([]view, 0, len(sources))
	for _, source := range sources {
		v := view{Status: source.Status(), Stats: source.Stats()}
		v.Trouble = troubleOf(v.Status, v.Stats, maxAge, now)
		v.Status.Members = slices.Clone(v.Status.Members)
		slices.SortStableFunc(v.Status.Members, func(a, b reflector.Member) int {
			return cmp.Compare(rank(memberTrouble(a, maxAge, now)), rank(memberTrouble(b, maxAge, now)))
		})
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b view) int {
		return cmp.Or(cmp.Compare(rank(a.Trouble), rank(b.Trouble)), cmp.Compare(a.Status.Name, b.Status.Name),
			cmp.Compare(a.Status.Resource, b.Status.Resource))
	})
	return all
}

func troubleOf(s reflector.Status, c reflector.Stats, maxAge time.Duration, now time.Time) []string {
	var all []string
	switch {
	case s.State == reflector.StateStopped:
		all = append(all, stopped)
	case !s.Synced:
		all = append(all, notSynced)
	case health.NotReady(s, maxAge, now) != "":
		all = append(all, notFresh)
	}
	if s.State == reflector.StateBackingOff {
		all = append(all, backingOff)
	}
	if !c.BlockedSince.IsZero() {
		all = append(all, blocked)
	}
	if len(s.Quarantined) > 0 {
		all = append(all, quarantined)
	}
	return all
}

// memberTrouble is that of a reflector of a union, of which there are no Stats.
func memberTrouble(m reflector.Member, maxAge time.Duration, now time.Time) []string {
	return troubleOf(m.Status, reflector.Stats{}, maxAge, now)
}

// Bounds of the page and, unless ?limit says otherwise, of JSON: so many reflectors with all that is known of them,
// and lines in a list. One reflector alone has longer lists.
const (
	sectionsShown = 50
	linesShown    = 20
	linesOfOne    = 500
)

// linesFor is how long a list of one of views may be.
func linesFor(views []view) int {
	if len(views) == 1 {
		return linesOfOne
	}
	return linesShown
}

// pageView is what the template is given.
type pageView struct {
	Title   string
	Now     time.Time
	MaxAge  time.Duration
	Refresh int // seconds; 0 is not
	// One says that only the reflectors of Name are shown.
	One  bool
	Name string

	Counts []count
	Rows   []row
	// Shown is how many of the rows have a section on this page, Left how many have not.
	Shown, Left int
}

// count is one number on top.
type count struct {
	N     int
	Label string
	Bad   bool
}

// row is one reflector.
type row struct {
	view
	Now time.Time
	// ID is that of its section; empty when it is not on this page.
	ID string
	// Open: the section is shown unfolded.
	Open bool
	// Why is what the reflector's trouble comes of, fit to be shown; empty for none.
	Why      string
	Restarts uint64

	Quarantined     []reflector.Quarantined
	QuarantinedLeft int
	Mailboxes       []reflector.Mailbox
	MailboxesLeft   int
	Members         []member
	MembersLeft     int
}

// member is one reflector of a union.
type member struct {
	reflector.Member
	Trouble []string
	Why     string
}

// newPageView has the views in their order.
func newPageView(c Config, views []view, now time.Time) pageView {
	p := pageView{Title: c.Title, Now: now, MaxAge: c.MaxAge}
	lines := linesFor(views)
	for i, v := range views {
		r := newRow(v, c.MaxAge, now, lines)
		if i < sectionsShown {
			r.ID = fmt.Sprintf("r%d", i)
			p.Shown++
			r.Open = len(views) <= 3
		} else {
			p.Left++
		}
		p.Rows = append(p.Rows, r)
	}
	p.Counts = countsOf(views)
	return p
}

// rank is the place of the worst trouble; of none it is the last.
func rank(trouble []string) int {
	if len(trouble) == 0 {
		return len(troubles)
	}
	return slices.Index(troubles, trouble[0])
}

// countsOf are the numbers on top. A union counts for itself, and its objects only
// where its members are not shown beside it.
func countsOf(views []view) []count {
	shown := map[string]bool{}
	for _, v := range views {
		shown[v.Status.Name] = true
	}
	unions, fine, objects := 0, 0, 0
	of := map[string]int{}
	for _, v := range views {
		members := v.Status.Members
		if members != nil {
			unions++
		}
		if len(members) == 0 || !shown[members[0].Status.Name] {
			objects += v.Status.Objects
		}
		if len(v.Trouble) == 0 {
			fine++
		}
		for _, t := range v.Trouble {
			of[t]++
		}
	}
	counts := []count{{N: len(views) - unions, Label: plural(len(views)-unions, "reflector")}}
	if unions > 0 {
		counts = append(counts, count{N: unions, Label: plural(unions, "union")})
	}
	counts = append(counts, count{N: fine, Label: "fine"})
	for _, t := range troubles {
		if of[t] > 0 {
			counts = append(counts, count{N: of[t], Label: t, Bad: true})
		}
	}
	return append(counts, count{N: objects, Label: plural(objects, "object")})
}

func newRow(v view, maxAge time.Duration, now time.Time, lines int) row {
	r := row{view: v, Now: now, Why: why(v.Status, maxAge, now)}
	for _, n := range v.Stats.Restarts {
		r.Restarts += n
	}
	r.Quarantined, r.QuarantinedLeft = first(v.Status.Quarantined, lines)
	r.Mailboxes, r.MailboxesLeft = fullest(v.Stats.Mailboxes, lines)
	members, left := first(v.Status.Members, lines)
	r.MembersLeft = left
	for _, m := range members {
		r.Members = append(r.Members, member{m, memberTrouble(m, maxAge, now), why(m.Status, maxAge, now)})
	}
	return r
}

// fullest is first for mailboxes: where some are left out, it is not those which hold up the reflector or are behind.
func fullest(all []reflector.Mailbox, n int) ([]reflector.Mailbox, int) {
	if len(all) > n {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b reflector.Mailbox) int {
			return cmp.Or(cmp.Compare(blocks(b), blocks(a)), cmp.Compare(b.Depth, a.Depth))
		})
	}
	return first(all, n)
}

// blocks is 1 where the reflector waits for m.
func blocks(m reflector.Mailbox) int {
	if m.BlockedSince.IsZero() {
		return 0
	}
	return 1
}

// first returns the first n of all, and how many there are more.
func first[E any](all []E, n int) ([]E, int) {
	if len(all) <= n {
		return all, 0
	}
	return all[:n], len(all) - n
}

// why says what keeps a reflector from being current: the error of the last
// attempt, while there is none that goes well, or how far its list has come.
func why(s reflector.Status, maxAge time.Duration, now time.Time) string {
	ready := health.NotReady(s, maxAge, now) == ""
	switch {
	case s.State == reflector.StateWatching && ready:
		return ""
	case s.LastRestart != nil && s.LastRestart.Err != nil:
		return shortText(string(s.LastRestart.Reason) + ": " + s.LastRestart.Err.Error())
	case s.ListedItems > 0:
		return progress(s)
	}
	return ""
}
