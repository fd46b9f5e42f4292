package reflector

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// merger makes one history of those of several stores, and a Store of it.
//
// Two watches are not ordered with each other. An object that is deleted in one member's
// collection and created again under its name in another's (as the pods of a StatefulSet are, on
// another node) can come before it goes, and a reader who keeps objects by their names would then
// remove the new one. So it knows what each member has under a name, and shows the newest of
// them: resourceVersions of one resource are comparable (KEP-5504), and all those of an object are
// above all those of the one that had its name before.
//
// Nearly every name is claimed by one member, and shown as that member has it. This state costs
// nothing beside the entry in the store, whose field seen has the member. All others are contested,
// and what each member claims is kept until they agree.
//
// A claim can be known to be out of date: a later DELETED came from another member, or another object
// followed under the name. Then it is over, and the object does not come back for it, however long
// the member goes on to have it; until the member has it in a version, or in a list, of that time or later.
//
// It is guarded by Union.mu.
type merger[T any] struct {
	store     *Store[T]
	contested shrinkingMap[decode.Key, []claim[T]]
	// ended are the objects that a member told the end of, and those that left the union: another member that
	// lags may not have seen their beginning.
	ended graves
	// broken is told of a version that cannot be shown, and p is nil once a later one can.
	broken func(e *entry[T], p *panicked)
}

// claim is a member's word that an object is there.
type claim[T any] struct {
	member uint32
	e      *entry[T] // the member's, or the union's own of the same version
	// over: the object ended, or another one followed it, at this resourceVersion; "" while neither is known.
	over string
	// listed is up to which resourceVersion the member's word is known to hold: it listed there, or its watch came so
	// far. "" where that is not known.
	listed string
}

func (c *claim[T]) end(rv string) {
	// Of two ends the later one is harder to disprove.
	if c.over == "" || olderRV(c.over, rv) {
		c.over = rv
	}
}

// apply takes one change of a member's store, other than Synced.
func (g *merger[T]) apply(member uint32, c change[T]) {
	shown := g.store.find(c.e.key)
	if claims, contested := g.contested.get(c.e.key); contested {
		g.contend(member, c, shown, claims)
		return
	}
	switch mine := shown != nil && shown.seen == member; {
	case c.typ == Deleted && mine:
		g.drop(shown, c)
	case c.typ == Deleted && shown == nil:
		g.broken(c.e, nil)
	case mine || shown == nil && !g.buried(c.e):
		g.show(shown, claim[T]{member: member, e: c.e})
	case shown == nil:
		g.contend(member, c, nil, nil)
	default:
		g.contend(member, c, shown, []claim[T]{{member: shown.seen, e: shown}})
	}
	if c.typ == Deleted && !c.unknown {
		g.ended.bury(c.e.uid, c.e.rv)
	}
}

// buried reports whether e is from before what was told of its object last.
func (g *merger[T]) buried(e *entry[T]) bool {
	end, there := g.ended.rv[e.uid]
	return there && olderRV(e.rv, end)
}

// contend takes a change of a name of which members say different things.
func (g *merger[T]) contend(member uint32, c change[T], shown *entry[T], claims []claim[T]) {
	at := slices.IndexFunc(claims, func(have claim[T]) bool { return have.member == member })
	if c.typ == Deleted {
		if at >= 0 {
			claims = slices.Delete(claims, at, at+1)
		}
		if !c.unknown {
			// It went, and what was before it went before. A delete that a list found says
			// less: the server may have gone back in time.
			for i := range claims {
				if olderRV(claims[i].e.rv, c.e.rv) {
					claims[i].end(c.e.rv)
				}
			}
			g.ended.bury(c.e.uid, c.e.rv)
		}
		g.decide(member, c, shown, claims, onlyNewer)
		return
	}
	now, as := claim[T]{member: member, e: c.e}, onlyNewer
	if g.buried(c.e) {
		now.over = g.ended.rv[c.e.uid]
	}
	if at < 0 {
		claims = append(claims, now)
	} else {
		now.listed = claims[at].listed
		if was := claims[at]; was.e.uid == c.e.uid {
			if was.over != "" && !follows(c.e.rv, was.over) {
				now.end(was.over)
			}
			as = wordOf(was.e.rv, c.e.rv)
		}
		claims[at] = now
	}
	g.decide(member, c, shown, claims, as)
}

// word is what a member's version of what is shown counts for.
type word uint8

const (
	onlyNewer word = iota // it takes the place of an older one
	sameToo               // and of the same: the member found other contents (see replacement.doubtful)
	olderToo              // and of a newer: the server went back in time
)

// wordOf is that of a member that had was and says now.
func wordOf(was, now string) word {
	switch {
	case was == now:
		return sameToo
	case olderRV(now, was):
		return olderToo
	}
	return onlyNewer
}

// decide makes the store show what the claims come to, after member was heard.
func (g *merger[T]) decide(member uint32, c change[T], shown *entry[T], claims []claim[T], as word) {
	best := newest(claims, member)
	switch {
	case best == nil && shown != nil:
		g.drop(shown, c)
		shown = nil
	case best == nil:
		g.broken(c.e, nil)
	case shown == nil:
		shown = g.show(nil, *best)
	case shown.uid != best.e.uid:
		for i := range claims {
			if claims[i].e.uid == shown.uid {
				claims[i].end(best.e.rv)
			}
		}
		g.drop(shown, c)
		shown = g.show(nil, *best)
	case replaces(shown, best, member, as):
		shown = g.show(shown, *best)
	case !slices.ContainsFunc(claims, func(have claim[T]) bool { return have.member == shown.seen && have.e.rv == shown.rv }):
		shown = g.inherit(shown, *best)
	}
	g.keep(c.e.key, claims, shown)
}

// newest returns the claim to the object that has the name now, nil when there is none. Between equals it is
// that of the member that was heard last.
func newest[T any](claims []claim[T], heard uint32) *claim[T] {
	var best *claim[T]
	for i := range claims {
		if c := &claims[i]; c.over == "" && c.member == heard {
			best = c
		}
	}
	for i := range claims {
		if c := &claims[i]; c.over == "" && (best == nil || olderRV(best.e.rv, c.e.rv)) {
			best = c
		}
	}
	return best
}

// replaces reports whether the version that best claims takes the place of the shown one of the same object.
func replaces[T any](shown *entry[T], best *claim[T], heard uint32, as word) bool {
	if best.e.rv == shown.rv {
		return as == sameToo && best.member == heard
	}
	return !olderRV(best.e.rv, shown.rv) || as == olderToo && best.member == heard
}

// keep notes the claims to a name, if they say more than what is shown.
func (g *merger[T]) keep(k decode.Key, claims []claim[T], shown *entry[T]) {
	settled := len(claims) == 0
	if len(claims) == 1 && shown != nil {
		c := claims[0]
		settled = c.over == "" && c.member == shown.seen && c.e.uid == shown.uid && c.e.rv == shown.rv
	}
	switch _, contested := g.contested.get(k); {
	case settled:
		g.contested.delete(k)
	case contested:
		g.contested.set(k, claims)
	default:
		g.contested.set(ownKey(k), claims) // it stays for longer than this version
	}
}

// confirmed takes a member's complete list, at rv: what the member has is there, unless it is known to have
// ended later than that. rewound says that the server went back in time, so that what ended later did so in a
// history that is lost, whoever told it.
func (g *merger[T]) confirmed(member uint32, rv string, rewound bool) {
	if rewound {
		g.ended = graves{}
	}
	for _, k := range slices.Collect(maps.Keys(g.contested.m)) {
		claims, _ := g.contested.get(k)
		for _, of := range members(claims) {
			switch {
			case of == member:
				g.confirm(of, k, rv, rewound)
			case rewound:
				g.confirm(of, k, "", true)
			}
		}
	}
}

func members[T any](claims []claim[T]) []uint32 {
	all := make([]uint32, len(claims))
	for i, c := range claims {
		all[i] = c.member
	}
	return all
}

// passed is confirmed by a watch of the member's that has come to rv. It returns the resourceVersion of what was told
// later than that, and by nobody who is there, against something that the member has; "" for nothing.
func (g *merger[T]) passed(member uint32, rv string) (later string) {
	for _, k := range slices.Collect(maps.Keys(g.contested.m)) {
		g.confirm(member, k, rv, false)
		claims, _ := g.contested.get(k)
		at := slices.IndexFunc(claims, func(c claim[T]) bool { return c.member == member })
		if at < 0 {
			continue
		}
		switch c, shown := claims[at], g.store.find(k); {
		case c.over != "":
			later = newerRV(later, c.over)
		case shown != nil && shown.seen == member && olderRV(c.e.rv, shown.rv):
			later = newerRV(later, shown.rv)
		}
	}
	return later
}

// confirm takes that what a member has under k is there, at rv; "" says nothing of when.
func (g *merger[T]) confirm(member uint32, k decode.Key, rv string, rewound bool) {
	claims, _ := g.contested.get(k)
	at := slices.IndexFunc(claims, func(c claim[T]) bool { return c.member == member })
	if at < 0 {
		return // that of another member settled it
	}
	c, shown, as := &claims[at], g.store.find(k), onlyNewer
	switch {
	case !rewound:
		c.listed = newerRV(c.listed, rv)
	case rv != "" && shown != nil:
		c.listed = newerRV(rv, shown.rv) // that list came after all that is shown
	}
	if shown != nil && (rewound || !olderRV(rv, shown.rv)) {
		as = olderToo
	}
	switch {
	case c.over != "" && (rewound || !olderRV(rv, c.over)):
		c.over = ""
	case c.over == "" && as == olderToo && c.e.uid == shown.uid && olderRV(c.e.rv, shown.rv):
		// What is shown is of a member that left, and of a history that the server lost.
	default:
		return
	}
	g.decide(member, change[T]{typ: Modified, e: c.e}, shown, claims, as)
}

// show puts what is claimed into the store and returns what is there then; old is what is shown under its
// name, or nil. A version that an index's function panics at leaves old.
func (g *merger[T]) show(old *entry[T], c claim[T]) *entry[T] {
	d, p := g.store.adopt(c.e)
	g.broken(c.e, p)
	if p != nil {
		return old
	}
	d.seen = c.member
	g.store.set(old, d)
	return d.entry
}

// inherit makes c the claim that what is shown is of: the member whose it was does not have that any more. Nobody is
// told, as c is to the same version, or to one before it: objects do not go back because a member left that was ahead. Of the same
// version the heir has an object of its own, and that of the other, which nobody else holds, is let go. Where the heir
// had the one before in a later list, what is shown is of a history that the server lost, and that is told.
func (g *merger[T]) inherit(shown *entry[T], c claim[T]) *entry[T] {
	if olderRV(c.e.rv, shown.rv) && follows(c.listed, shown.rv) {
		return g.show(shown, c)
	}
	if c.e.rv == shown.rv && c.e != shown {
		if d, p := g.store.adopt(c.e); p == nil {
			g.store.exchange(shown, d)
			shown = d.entry
		}
	}
	shown.seen = c.member
	return shown
}

// drop takes what is shown out of the store. c is why: the delete of it, or news of another member or object.
func (g *merger[T]) drop(shown *entry[T], c change[T]) {
	last, unknown := shown, true
	if c.typ == Deleted && c.e.uid == shown.uid && !olderRV(c.e.rv, shown.rv) {
		last, unknown = c.e.copied(), c.unknown
		last.hash = shown.hash
	}
	g.store.drop(shown, last, unknown)
	g.ended.bury(last.uid, last.rv) // when it comes back, then not in an older version
	g.broken(shown, nil)
}

// adopt makes an entry for s of one of another store. They share the object; indexes have their own view of
// each.
func (s *Store[T]) adopt(e *entry[T]) (d draft[T], p *panicked) {
	defer func() {
		if v := recover(); v != nil {
			p = &panicked{v, debug.Stack()}
		}
	}()
	d = draft[T]{entry: e.copied()}
	if len(s.indexes) > 0 {
		d.values = indexValues(s.indexes, e.object(e.key))
	}
	return d, nil
}

// exchange puts d in the place of old, which is the same version.
func (s *Store[T]) exchange(old *entry[T], d draft[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reindex(s.byIndex, old, d)
	s.objects.replace(old, d.entry)
}

// copied is the same version for another store. What the next version is made with stays with the first.
func (e *entry[T]) copied() *entry[T] {
	return &entry[T]{key: e.key, uid: e.uid, rv: e.rv, content: content[T]{obj: e.obj, packed: e.packed}, hash: e.hash}
}

// panicked is a panic of a caller's function, as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }
