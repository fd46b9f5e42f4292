package reflector

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a collection with a history of one number: enough of an API server
// to know what the store has to be.
type server struct {
	rng     *rand.Rand
	rv      int
	uids    int
	objects map[string]*thing
}

func (s *server) next() string {
	s.rv++
	return strconv.Itoa(s.rv)
}

// change makes one change and returns it: an upsert, or a delete with its final state.
func (s *server) change() (o *thing, deleted bool) {
	name := "o" + strconv.Itoa(s.rng.IntN(8))
	have := s.objects[name]
	switch {
	case have == nil:
		s.uids++
		o = &thing{name: name, uid: "u" + strconv.Itoa(s.uids), rv: s.next()}
	case s.rng.IntN(3) == 0:
		delete(s.objects, name)
		return &thing{name: name, uid: have.uid, rv: s.next()}, true
	default:
		o = &thing{name: name, uid: have.uid, rv: s.next()}
	}
	s.objects[name] = o
	return o, false
}

func (s *server) contents() string {
	var all []string
	for _, o := range s.objects {
		all = append(all, o.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// list returns the objects in a random order.
func (s *server) list() []*thing {
	all := slices.Collect(maps.Values(s.objects))
	slices.SortFunc(all, func(a, b *thing) int { return strings.Compare(a.name, b.name) })
	s.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// fold is a subscriber that believes what it is told, and says what is wrong with it.
type fold struct {
	objects map[string]*thing
	told    map[string]bool // (UID, resourceVersion) of the present life
	synced  bool
	rewinds bool              // versions may go back
	copies  bool              // each event may have objects of its own
	where   func(*thing) bool // nil: all
	faults  []string
	seen    int
	replays int
}

func newFold(rewinds bool) *fold {
	return &fold{objects: map[string]*thing{}, told: map[string]bool{}, rewinds: rewinds}
}

func (f *fold) fault(ev Event[*thing], why string) {
	f.faults = append(f.faults, describe(ev)+": "+why)
}

func (f *fold) apply(ev Event[*thing]) {
	f.seen++
	if ev.Initial == f.synced {
		f.fault(ev, fmt.Sprintf("Initial is %t, and a Synced came: %t", ev.Initial, f.synced))
	}
	if ev.Type == Synced {
		f.synced = true
		return
	}
	if strings.Contains(describe(ev), "BUT") {
		f.fault(ev, "event and object differ")
	}
	have := f.objects[ev.Key.Name]
	same := func(o *thing) bool { return have != nil && (have == o || f.copies && have.String() == o.String()) }
	matches := f.where == nil || f.where(ev.Object)
	if ev.Replay {
		f.replays++
		if ev.Type != Modified || ev.Old != ev.Object || !same(ev.Object) {
			f.fault(ev, fmt.Sprintf("a replay, and what was delivered before is %v", have))
		}
		return
	}
	if !matches && ev.Type != Deleted {
		f.fault(ev, "does not match")
	}
	switch ev.Type {
	case Added:
		if have != nil {
			f.fault(ev, "added, but "+have.String()+" is there")
		}
	case Modified:
		switch {
		case have == nil:
			f.fault(ev, "modified, but never added")
		case !same(ev.Old):
			f.fault(ev, "Old is not the version that was delivered before: "+have.String())
		case have.uid != ev.Object.uid:
			f.fault(ev, "modified into another object, was "+have.String())
		case !f.rewinds && !olderRV(have.rv, ev.Object.rv):
			f.fault(ev, "not newer than "+have.String())
		}
	case Deleted:
		if have == nil || have.uid != ev.Object.uid {
			f.fault(ev, fmt.Sprintf("deleted, but what is there is %v", have))
		}
		if ev.Old != nil && (matches || !same(ev.Old) || ev.FinalStateUnknown) {
			f.fault(ev, fmt.Sprintf("told not to match any more, and it matches: %t; what was delivered before is %v", matches, have))
		}
		delete(f.objects, ev.Key.Name)
		maps.DeleteFunc(f.told, func(k string, _ bool) bool { return strings.HasPrefix(k, ev.Object.uid+"@") })
		return
	}
	version := ev.Object.uid + "@" + ev.Object.rv
	if f.told[version] && !f.rewinds {
		f.fault(ev, "told twice")
	}
	f.told[version] = true
	f.objects[ev.Key.Name] = ev.Object
}

func (f *fold) contents() string { return (&server{objects: f.objects}).contents() }

// selected is what a subscriber with the predicate should believe in.
func selected(all string, where func(*thing) bool) string {
	if where == nil {
		return all
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(all), func(text string) bool { return !where(newThing(text)) }), " ")
}

// aSubscription draws one of any policy, predicate and replay.
func aSubscription(rng *rand.Rand) Subscription[*thing] {
	sub := Subscription[*thing]{Limit: rng.IntN(12), Policy: Policy(rng.IntN(3))}
	switch rng.IntN(4) {
	case 0:
		sub.Where = even
	case 1:
		sub.Where = func(o *thing) bool { return o.name < "o4" }
	}
	if rng.IntN(3) == 0 {
		sub.Replay = time.Hour
	}
	return sub
}

// TestModel runs random histories: changes that are watched, changes that are
// missed and found by a list or watch-list, repeats, late and early news, lists
// that break off, servers that go back in time. Subscribers with all kinds of
// limits, policies, predicates and replays read at random moments.
//
// It is run with objects and with the bytes of objects in the store.
//
// "Per object, events reach a subscriber in server order. Nothing is delivered
// twice for the same (UID, resourceVersion)." "After every list or watch-list
// the store equals the server's collection at that RV."
func TestModel(t *testing.T) {
	replays := 0
	for seed := range uint64(150) {
		for _, rewinds := range []bool{false, true} {
			as := Objects(seed % 3)
			if !t.Run(fmt.Sprintf("seed=%d,rewinds=%t,%v", seed, rewinds, as), func(t *testing.T) { replays += runModel(t, seed, rewinds, as) }) {
				return
			}
		}
	}
	if replays == 0 {
		t.Error("nothing was replayed in any history")
	}
}

func runModel(t *testing.T, seed uint64, rewinds bool, as Objects) (replays int) {
	keep := kept(t, as)
	upsert := func(s *Store[*thing], o *thing) outcome { return s.upsert(s.find(o.meta().Key()), metaOf(o), keep(o)) }
	remove := func(s *Store[*thing], o *thing, final bool) outcome {
		return s.remove(s.find(o.meta().Key()), metaOf(o), keep(o), final)
	}
	put := func(r *replacement[*thing], o *thing) { r.put(r.s.find(o.meta().Key()), metaOf(o), keep(o)) }
	rng := rand.New(rand.NewPCG(seed, 7))
	srv := &server{rng: rng, objects: map[string]*thing{}}
	s := NewStore(Index[*thing]{Name: "uid", Values: func(o *thing) []string { return []string{o.uid} }})

	type subscriber struct {
		*deliverer[*thing]
		sub Subscription[*thing]
		f   *fold
	}
	var subs []*subscriber
	subscribe := func() {
		sub := aSubscription(rng)
		f := newFold(rewinds)
		// Who resyncs does not learn of an object that went and came back as it was.
		f.copies, f.where = as == ObjectsCompact || sub.Policy == Resync || rewinds, sub.Where
		subs = append(subs, &subscriber{s.deliver(sub, nil), sub, f})
	}
	readSome := func(sub *subscriber, n int) {
		for ; n > 0; n-- {
			ev, ok, _ := sub.take()
			if !ok {
				return
			}
			sub.f.apply(ev)
		}
	}
	// again has one of the objects replayed, whatever is pending: then nothing may come.
	again := func(sub *subscriber) {
		all := sub.replay.list(sub.deliverer)
		if len(all) == 0 {
			return
		}
		sub.replay.began = time.Now().Add(-2 * sub.replay.every)
		sub.replay.pass, sub.replay.told = all, rng.IntN(len(all))
		pending := sub.m.stats(time.Now()).Depth
		ev, ok := sub.tellAgain(time.Now())
		if !ok {
			return
		}
		if pending > 0 {
			sub.f.fault(ev, fmt.Sprintf("a replay, and %d events are pending", pending))
		}
		sub.f.apply(ev)
	}
	live := func(o *thing, deleted bool) {
		if deleted {
			remove(s, o, rng.IntN(5) > 0)
		} else {
			upsert(s, o)
		}
	}
	check := func(when string) {
		t.Helper()
		if got, want := contents(s), srv.contents(); got != want {
			t.Fatalf("%s the store has\n%s\nthe server\n%s", when, got, want)
		}
		for _, o := range srv.objects {
			if got := len(maps.Collect(s.By("uid", o.uid))); got != 1 {
				t.Fatalf("%s the index has %d objects under %s", when, got, o.uid)
			}
		}
		if n := s.byIndex[0].len(); n != len(srv.objects) {
			t.Fatalf("%s the index has %d values, the server %d objects", when, n, len(srv.objects))
		}
	}
	inStep := true // the store has seen every change
	subscribe()
	for range 150 {
		switch rng.IntN(12) {
		case 0: // missed
			srv.change()
			inStep = false
		case 1: // a list that breaks off
			r := s.beginReplace()
			for _, o := range srv.list() {
				if rng.IntN(4) == 0 {
					break
				}
				put(r, o)
			}
			r.abandon()
		case 2, 3: // a list or watch-list, with changes in the middle of it
			back := rewinds && rng.IntN(3) == 0
			if back {
				// The server was restored from long ago: everything may be older.
				for _, o := range srv.list() {
					if rng.IntN(2) == 0 {
						rv, _ := strconv.Atoi(o.rv)
						srv.objects[o.name] = &thing{name: o.name, uid: o.uid, rv: strconv.Itoa(max(1, rv-1-rng.IntN(20)))}
					}
				}
			}
			r := s.beginReplace()
			items := srv.list()
			for _, o := range items {
				if !r.testUnchanged(o.meta()) {
					put(r, o)
				}
				if rng.IntN(6) == 0 {
					put(r, o) // twice
				}
			}
			for range rng.IntN(4) {
				live(srv.change())
			}
			r.commit(strconv.Itoa(srv.rv), back)
			inStep = true
			check("after a list")
		case 4: // told again, or late
			if len(srv.objects) > 0 {
				o := srv.list()[0]
				rv, _ := strconv.Atoi(o.rv)
				if inStep && rv > 1 {
					old := &thing{name: o.name, uid: o.uid, rv: strconv.Itoa(rv - 1)}
					if got := upsert(s, old); got != stale {
						t.Fatalf("late news: outcome %d", got)
					}
					if got := upsert(s, o); got != duplicate {
						t.Fatalf("told again: outcome %d", got)
					}
					gone := &thing{name: o.name, uid: "before", rv: srv.next()}
					if got := remove(s, gone, true); got != stale {
						t.Fatalf("a delete of the object before: outcome %d", got)
					}
				}
			}
		case 5:
			if len(subs) < 4 {
				subscribe()
			}
		default:
			o, deleted := srv.change()
			live(o, deleted)
			if inStep {
				check("after a change")
			}
		}
		for _, sub := range subs {
			if rng.IntN(3) == 0 {
				readSome(sub, rng.IntN(10))
			}
			if sub.replay != nil && sub.f.synced && rng.IntN(2) == 0 {
				again(sub)
			}
			if depth, limit := sub.m.stats(time.Now()).Depth, sub.m.limit; sub.sub.Policy != Block && depth > max(limit, 8+2*8+1)+8 {
				t.Fatalf("a backlog of %d events with a limit of %d", depth, limit)
			}
		}
	}
	for i, sub := range subs {
		readSome(sub, 1_000_000)
		if len(sub.f.faults) > 0 {
			t.Fatalf("subscriber %d of limit %d, %v, was told wrong:\n%s", i, sub.m.limit, sub.sub.Policy, strings.Join(sub.f.faults, "\n"))
		}
		if got, want := sub.f.contents(), selected(contents(s), sub.sub.Where); got != want {
			t.Fatalf("subscriber %d of limit %d, %v, believes in\n%s\nthe store has\n%s", i, sub.m.limit, sub.sub.Policy, got, want)
		}
		replays += sub.f.replays
	}
	return replays
}

// TestModelConcurrent is the same with one writer and readers in goroutines of
// their own, for the race detector: each reader ends with what the store has.
func TestModelConcurrent(t *testing.T) {
	s := NewStore[*thing]()
	s.stop = t.Context().Done() // it waits for those who block
	srv := &server{rng: rand.New(rand.NewPCG(1, 2)), objects: map[string]*thing{}}
	var wg sync.WaitGroup
	folds := make([]*fold, 12)
	for i := range folds {
		sub := Subscription[*thing]{Limit: []int{1, 3, 1000}[i%3], Policy: Policy(i / 3 % 3)}
		if i%2 == 1 {
			sub.Where = even
		}
		folds[i] = newFold(false)
		folds[i].where, folds[i].copies = sub.Where, sub.Policy == Resync
		wg.Go(func() {
			for ev := range s.events(t.Context(), sub, slog.New(slog.DiscardHandler)) {
				folds[i].apply(ev)
			}
		})
	}
	for i := range 5000 {
		o, deleted := srv.change()
		switch {
		case i%7 == 0: // missed
		case deleted:
			s.testRemove(o.meta(), o, true)
		default:
			s.testUpsert(o.meta(), o)
		}
		if i%100 == 99 {
			r := s.beginReplace()
			for _, o := range srv.list() {
				r.testPut(o.meta(), o)
			}
			r.commit(strconv.Itoa(srv.rv), false)
		}
	}
	s.end()
	wg.Wait()
	if got, want := contents(s), srv.contents(); got != want {
		t.Errorf("the store has\n%s\nthe server\n%s", got, want)
	}
	for i, f := range folds {
		if len(f.faults) > 0 || f.seen == 0 {
			t.Errorf("subscriber %d saw %d events and was told wrong:\n%s", i, f.seen, strings.Join(f.faults, "\n"))
		}
		if got, want := f.contents(), selected(srv.contents(), f.where); got != want {
			t.Errorf("subscriber %d believes in\n%s\nthe server has\n%s", i, got, want)
		}
	}
}
