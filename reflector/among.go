package reflector

import (
	"strings"
	"time"
)

// among is what a reflector asks of the union that it is a member of.
//
// Each reflector notices by itself that the server went back in time, if it was told of a time after that. One that was
// not has nothing to notice. But another member may have been told, have left before it noticed, and have told the
// union of ends and versions that are no more: what it told would hide what this one has. Two signs show it. A
// list of the newest state that is older than what anybody knew before it was asked for is proof. And a watch that
// comes to where the other one was and still has the object proves that, too; one that does not get there although
// it had time is looked into by a list, which is proof one way or the other.
type among interface {
	// known returns the newest resourceVersion that any member was told, those that left included.
	known() string
	// passed takes a bookmark at rv of the member's own watch. Where something that this one has is hidden
	// by what a member that left told of a time after rv, and the watch had time to come so far, it returns that
	// time, else "".
	passed(rv string) (later string)
}

// floor is the resourceVersion that the answer to a list is not older than, unless the server went back in time. It
// is asked for before the request, and says something only of a read of the newest state.
func (r *Reflector[T]) floor(asked string) string {
	if r.among == nil || asked != "" {
		return ""
	}
	return r.among.known()
}

// goneLocked notes that m left.
func (u *Union[T]) goneLocked(m *member[T]) {
	u.gone = newerRV(u.gone, m.newest)
	for _, m := range u.members {
		if !m.owes {
			m.owes, m.owesSince = true, time.Now()
		}
	}
}

// listedLocked notes a complete list of the member's at rv.
func (m *member[T]) listedLocked(rv string, rewound bool) {
	if !rewound {
		m.reachedLocked(rv)
		return
	}
	// What others were told is history, but for those that are there and have not noticed.
	m.newest, m.u.gone = rv, ""
	for _, m := range m.u.members {
		m.owes = false
	}
}

// reachedLocked notes that the member was told of all that happened until rv.
func (m *member[T]) reachedLocked(rv string) {
	m.newest = newerRV(m.newest, rv)
	m.owes = m.owes && m.u.gone != "" && !follows(rv, m.u.gone)
}

// known implements among.
func (m *member[T]) known() string {
	u := m.u
	u.mu.Lock()
	defer u.mu.Unlock()
	rv := u.gone
	for _, m := range u.members {
		rv = newerRV(rv, m.newest)
	}
	return rv
}

// passed implements among.
func (m *member[T]) passed(rv string) (later string) {
	u := m.u
	u.mu.Lock()
	defer u.mu.Unlock()
	rv = strings.Clone(rv) // which may be a part of something larger
	if m.owes && !m.left {
		later = u.merger.passed(m.id, rv)
	}
	m.reachedLocked(rv)
	if time.Since(m.owesSince) < bookmarkDue {
		return ""
	}
	return later
}

var _ among = (*member[any])(nil)
