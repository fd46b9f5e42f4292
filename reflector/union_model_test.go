package reflector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// homes is a server whose objects have a home each and a history of one number. The members of
// a union select some of the homes: the key "02" those that are called 0 and 2.
type homes struct {
	rng      *rand.Rand
	moves    bool // an object may change its home, as by a label; a pod cannot change its node
	rv       int
	uids     int
	restores int
	objects  map[string]*thing
	home     map[string]string // by resourceVersion
	history  []told
}

type told struct {
	rv   int
	typ  EventType
	o    *thing
	from string // the home before; "" of what is new
	home string // the home now; "" of what is gone
}

// change makes one change. Names are used again, in any home.
func (h *homes) change() {
	h.rv += 10
	name := "o" + strconv.Itoa(h.rng.IntN(8))
	c := told{rv: h.rv, typ: Modified, o: &thing{name: name, rv: strconv.Itoa(h.rv)}}
	have := h.objects[name]
	if have != nil {
		c.o.uid, c.from = have.uid, h.home[have.rv]
		c.home = c.from
	}
	switch {
	case have == nil:
		h.uids++
		c.typ, c.o.uid = Added, "u"+strconv.Itoa(h.uids)
		c.home = strconv.Itoa(h.rng.IntN(3))
	case h.rng.IntN(3) == 0:
		c.typ, c.home = Deleted, ""
	case h.moves && h.rng.IntN(2) == 0:
		c.home = strconv.Itoa(h.rng.IntN(3))
	}
	h.home[c.o.rv] = c.home
	h.history = append(h.history, c)
	h.objects = h.at(len(h.history))
}

// at is the collection after so many changes.
func (h *homes) at(n int) map[string]*thing {
	objects := map[string]*thing{}
	for _, c := range h.history[:n] {
		if c.typ == Deleted {
			delete(objects, c.o.name)
		} else {
			objects[c.o.name] = c.o
		}
	}
	return objects
}

// restore forgets the last n changes. Versions are not given out again: their last digit tells the histories apart.
func (h *homes) restore(n int) {
	if h.restores++; h.restores > 9 {
		return
	}
	h.history = h.history[:max(0, len(h.history)-n)]
	h.objects = h.at(len(h.history))
	h.rv = h.restores
	if len(h.history) > 0 {
		h.rv += h.history[len(h.history)-1].rv / 10 * 10
	}
}

func (h *homes) contents(keys []string) string {
	objects := maps.Clone(h.objects)
	maps.DeleteFunc(objects, func(_ string, o *thing) bool { return !selects(strings.Join(keys, ""), h.home[o.rv]) })
	return (&fold{objects: objects}).contents()
}

func selects(key, home string) bool { return home != "" && strings.Contains(key, home) }

// position is what a member was told.
type position struct {
	at     int // changes
	rv     int // of the newest of them
	listed bool
	torn   bool // the server was restored since
}

// modelUnion is a union whose members' stores are filled by hand.
type modelUnion struct {
	*Union[*thing]
	h   *homes
	pos map[uint32]*position
}

func newModelUnion(t *testing.T, h *homes, keys ...string) *modelUnion {
	u, err := NewUnion(UnionConfig[*thing]{
		Resource: "things",
		Store:    NewStore(Index[*thing]{Name: "uid", Values: func(o *thing) []string { return []string{o.uid} }}),
		Member: func(key string) (*Reflector[*thing], error) {
			return New(Config[*thing]{Name: key, Resource: "things", ListerWatcher: unused[*thing]{}})
		},
	}, keys...)
	if err != nil {
		t.Fatal(err)
	}
	u.ran.Store(true)
	return &modelUnion{u, h, map[uint32]*position{}}
}

// position returns that of a member; it belongs to who feeds it.
func (u *modelUnion) position(m *member[*thing]) *position {
	p := u.pos[m.id]
	if p == nil {
		p = &position{}
		u.pos[m.id] = p
	}
	return p
}

// list gives a member the collection as it was after so many changes. One of the newest state shows that the server
// went back in time to whoever asked what was known before.
func (u *modelUnion) list(m *member[*thing], n int) {
	p, s := u.position(m), m.r.store
	known := p.rv
	if n == len(u.h.history) {
		known = max(known, number(m.r.floor("")))
	}
	rv := 1
	if n > 0 {
		rv = u.h.history[n-1].rv
	}
	if n == len(u.h.history) {
		rv = max(rv, u.h.rv)
	}
	r := s.beginReplace()
	items := (&server{rng: u.h.rng, objects: u.h.at(n)}).list()
	for _, o := range items {
		if selects(m.key, u.h.home[o.rv]) && !r.testUnchanged(o.meta()) {
			r.testPut(o.meta(), o)
		}
	}
	r.commit(strconv.Itoa(rv), rv < known)
	*p = position{at: n, rv: rv, listed: true}
}

// watch gives a member the next change.
func (u *modelUnion) watch(m *member[*thing]) {
	p, s := u.position(m), m.r.store
	c := u.h.history[p.at]
	p.at, p.rv = p.at+1, c.rv
	switch {
	case selects(m.key, c.home):
		s.testUpsert(c.o.meta(), c.o)
	case selects(m.key, c.from):
		s.testRemove(c.o.meta(), c.o, u.h.rng.IntN(8) > 0)
	}
}

// bookmark tells a member where it is, and has it list where the union asks for that.
func (u *modelUnion) bookmark(m *member[*thing]) {
	p := u.position(m)
	if p.at == len(u.h.history) {
		p.rv = u.h.rv
	}
	u.mu.Lock()
	m.owesSince = time.Time{} // a watch is never late
	u.mu.Unlock()
	if later := m.passed(strconv.Itoa(p.rv)); later != "" {
		u.list(m, len(u.h.history))
	}
}

// number reads a resourceVersion.
func number(rv string) int {
	n, _ := strconv.Atoi(rv)
	return n
}

// step is something that happens to a member.
func (u *modelUnion) step(m *member[*thing]) {
	p := u.position(m)
	switch {
	case p.torn:
		u.list(m, len(u.h.history))
	case !p.listed || u.h.rng.IntN(25) == 0:
		u.list(m, p.at+u.h.rng.IntN(len(u.h.history)-p.at+1)) // of a cache that may lag
	case u.h.rng.IntN(10) == 0:
		u.bookmark(m)
	case p.at < len(u.h.history):
		u.watch(m)
	}
}

func (u *modelUnion) settled() bool {
	for _, m := range u.members {
		if p := u.position(m); m.leaving || !p.listed || p.torn || p.at < len(u.h.history) {
			return false
		}
	}
	return true
}

// everyone does what Run's goroutine does, and returns the members.
func (u *modelUnion) everyone() []*member[*thing] {
	u.changing <- struct{}{}
	defer func() { <-u.changing }()
	u.letGo()
	return u.members
}

// TestUnionModel runs random histories: objects that end and come again elsewhere under their names, or move, members
// that lag behind each other, select the same, list late and from caches that lag, come, go and are
// replaced, and servers that go back in time. Subscribers of all policies and limits read at random moments.
//
// "The store of a union has, of each name, the newest object that its members have, and every subscriber's events
// replay to it." "Per object, events reach a subscriber in server order, and nothing is delivered twice for the
// same (UID, resourceVersion), however many members have the object." "The objects of a member that is taken out
// leave."
func TestUnionModel(t *testing.T) {
	for seed := range uint64(120) {
		for i := range 4 {
			rewinds, moves := i%2 == 1, i > 1
			if !t.Run(fmt.Sprintf("seed=%d,rewinds=%t,moves=%t", seed, rewinds, moves), func(t *testing.T) { runUnionModel(t, seed, rewinds, moves) }) {
				return
			}
		}
	}
}

func runUnionModel(t *testing.T, seed uint64, rewinds, moves bool) {
	rng := rand.New(rand.NewPCG(seed, 11))
	h := &homes{rng: rng, moves: moves, rv: 10, objects: map[string]*thing{}, home: map[string]string{}}
	sets := [][]string{{"0", "1", "2"}, {"01", "2"}, {"0", "12"}, {"012"}, {"01", "12"}, {"0", "012"}, {"1"}, {}, {"02"}}
	u := newModelUnion(t, h, sets[rng.IntN(len(sets))]...)
	type reader struct {
		m     *mailbox[*thing]
		f     *fold
		ended map[string]string
	}
	var readers []*reader
	subscribe := func() {
		readers = append(readers, &reader{
			u.Store().subscribe(Subscription[*thing]{Policy: Policy(rng.IntN(int(policiesN))), Limit: 1 + rng.IntN(20)}),
			newFold(rewinds), map[string]string{},
		})
	}
	read := func(r *reader, n int) {
		for ; n > 0; n-- {
			ev, ok, _ := r.m.popEvent()
			if !ok {
				return
			}
			r.f.apply(ev)
			switch {
			case ev.Type == Deleted && !ev.FinalStateUnknown:
				r.ended[ev.Object.uid] = ev.Object.rv
			case ev.Type == Added && !rewinds && olderRV(ev.Object.rv, r.ended[ev.Object.uid]):
				r.f.fault(ev, "it ended at "+r.ended[ev.Object.uid])
			}
		}
	}
	check := func(when string) {
		t.Helper()
		if got, want := contents(u.Store()), h.contents(u.Keys()); got != want {
			t.Fatalf("%s the union of %q has\n%s\nthe server\n%s", when, u.Keys(), got, want)
		}
		if n := u.Store().byIndex[0].len(); n != u.Store().Len() {
			t.Fatalf("%s the index has %d values for %d objects", when, n, u.Store().Len())
		}
	}
	subscribe()
	for range 400 {
		switch rng.IntN(40) {
		case 0, 1:
			if err := u.Set(sets[rng.IntN(len(sets))]...); err != nil {
				t.Fatal(err)
			}
		case 2:
			if rewinds && rng.IntN(3) == 0 {
				h.restore(rng.IntN(20))
				for _, m := range u.members { // who was behind need not notice
					p := u.position(m)
					p.torn = p.torn || p.listed && (p.rv > h.rv || rng.IntN(4) == 0)
				}
			}
		case 3:
			if len(readers) < 4 {
				subscribe()
			}
		case 4, 5, 6, 7, 8, 9:
			h.change()
		default:
			if all := u.everyone(); len(all) > 0 {
				u.step(all[rng.IntN(len(all))])
			}
			if !rewinds && u.settled() {
				check("in step")
			}
		}
		for _, r := range readers {
			if rng.IntN(4) == 0 {
				read(r, rng.IntN(10))
			}
		}
	}
	for !u.settled() {
		for _, m := range u.everyone() {
			u.step(m)
		}
	}
	if rewinds {
		// What a member that is gone was told of a lost history hides what others have no longer than this.
		for _, m := range u.everyone() {
			u.bookmark(m)
		}
	}
	check("in the end")
	for i, r := range readers {
		read(r, 1_000_000)
		if len(r.f.faults) > 0 {
			t.Fatalf("subscriber %d (%s) was told wrong:\n%s", i, r.m.policy, strings.Join(r.f.faults, "\n"))
		}
		if got, want := r.f.contents(), contents(u.Store()); got != want || !r.f.synced {
			t.Fatalf("subscriber %d (%s, synced %t) believes in\n%s\nthe union has\n%s", i, r.m.policy, r.f.synced, got, want)
		}
	}
	if err := u.Set(); err != nil {
		t.Fatal(err)
	}
	check("without members")
	if n := u.merger.contested.len(); n != 0 {
		t.Fatalf("%d names are contested among no members", n)
	}
}

// TestUnionLeftIsNotHeard: what a member's reflector still does when the member was taken out changes nothing, and
// whoever comes under its key is another one.
func TestUnionLeftIsNotHeard(t *testing.T) {
	h := &homes{rng: rand.New(rand.NewPCG(1, 1)), objects: map[string]*thing{}, home: map[string]string{}}
	u := newModelUnion(t, h, "0", "1")
	left := u.members[0]
	upsertThing(left.r.store, "a/u1@1")
	upsertThing(u.members[1].r.store, "b/u2@2")
	if err := u.Set("1"); err != nil {
		t.Fatal(err)
	}
	upsertThing(left.r.store, "a/u1@3")
	upsertThing(left.r.store, "b/u2@4")
	left.r.store.beginReplace().commit("5", true)
	if got := contents(u.Store()); got != "b/u2@2" || u.Status().Synced {
		t.Errorf("the union has %s, synced %t", got, u.Status().Synced)
	}
	if err := u.Set("0", "1"); err != nil {
		t.Fatal(err)
	}
	if u.members[1] == left {
		t.Error("a member that left is one again")
	}
	upsertThing(u.members[1].r.store, "a/u1@6")
	if got := contents(u.Store()); got != "a/u1@6 b/u2@2" {
		t.Errorf("the union has %s", got)
	}
}

// TestUnionConcurrent is the same with a goroutine for each member, one that changes the set of members, and
// readers, for the race detector and against deadlocks.
func TestUnionConcurrent(t *testing.T) {
	h := &homes{rng: rand.New(rand.NewPCG(3, 4)), objects: map[string]*thing{}, home: map[string]string{}}
	for range 300 {
		h.change()
	}
	u := newModelUnion(t, h, "0", "1", "2")
	var members, readers sync.WaitGroup
	folds := make([]*fold, 6)
	for i := range folds {
		folds[i] = newFold(false)
		readers.Go(func() {
			sub := Subscription[*thing]{Policy: Policy(i % 3), Limit: 1 + i*10}
			for ev := range u.Subscribe(t.Context(), sub) {
				folds[i].apply(ev)
			}
		})
	}
	stop := make(chan struct{})
	feed := func(m *member[*thing], seed uint64) {
		own := &modelUnion{u.Union, &homes{rng: rand.New(rand.NewPCG(seed, 5)), rv: h.rv, objects: h.objects, home: h.home, history: h.history}, map[uint32]*position{}}
		for {
			select {
			case <-stop:
				own.list(m, len(h.history))
				return
			default:
			}
			u.mu.Lock()
			left := m.left
			u.mu.Unlock()
			if left {
				return
			}
			if own.step(m); own.position(m).at == len(h.history) {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	started := map[uint32]bool{}
	for i := range 100 {
		if err := u.Set([][]string{{"0", "1", "2"}, {"01", "2"}, {"012"}, {"0", "12"}}[i%4]...); err != nil {
			t.Fatal(err)
		}
		for _, m := range u.everyone() {
			if !started[m.id] {
				started[m.id] = true
				members.Go(func() { feed(m, uint64(m.id)) })
			}
		}
		if st := u.Status(); len(st.Members) == 0 || u.Stats().Subscribers > len(folds) {
			t.Fatalf("status %+v", st)
		}
		for ; i%10 == 0 && !u.Status().Synced; u.everyone() {
			runtime.Gosched()
		}
	}
	close(stop)
	members.Wait()
	u.everyone()
	u.Store().end()
	readers.Wait()
	want := h.contents([]string{"012"})
	if got := contents(u.Store()); got != want {
		t.Errorf("the union has\n%s\nthe server\n%s", got, want)
	}
	for i, f := range folds {
		if len(f.faults) > 0 || f.seen == 0 || f.contents() != want {
			t.Errorf("subscriber %d saw %d events, was told wrong: %q, and believes in\n%s\nthe server has\n%s", i, f.seen, f.faults, f.contents(), want)
		}
	}
}
