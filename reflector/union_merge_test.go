package reflector

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// merged is a merger of members 1, 2, ... and a subscriber of its store.
type merged struct {
	merger[*thing]
	m *mailbox[*thing]
}

func newMerging(indexes ...Index[*thing]) *merged {
	s := NewStore(indexes...)
	return &merged{
		merger: merger[*thing]{store: s, broken: func(*entry[*thing], *panicked) {}},
		m:      s.subscribe(Subscription[*thing]{Limit: 1000}),
	}
}

// apply is merger.apply with an entry that stands in a store.
func (g *merged) apply(member uint32, c change[*thing]) {
	c.e.hash = hashOf(c.e.key)
	g.merger.apply(member, c)
}

// told returns what the subscriber was told since.
func (g *merged) told() (all []string) {
	for {
		ev, ok, _ := g.m.popEvent()
		if !ok {
			return all
		}
		all = append(all, describe(ev))
	}
}

// tell takes "MEMBER CHANGE", or "MEMBER SYNCED@RV", with a "!" behind it where the server went back in time.
func (g *merged) tell(t *testing.T, text string) {
	t.Helper()
	member, what, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(member, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	what, rewound := strings.CutSuffix(what, "!")
	c := event(what)
	if c.typ == Synced {
		g.confirmed(uint32(n), c.e.rv, rewound)
		return
	}
	g.apply(uint32(n), c)
}

// TestUnionHistories: "a changed UID under one name is DELETE(old) then ADD(new), also from member to
// member, and what ended does not come back."
func TestUnionHistories(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want []string
		left     int // names that are contested in the end
	}{
		{
			"in order",
			[]string{"1 ADDED web/u1@1", "1 MODIFIED web/u1@2<1", "1 DELETED web/u1@3", "2 ADDED web/u2@4"},
			[]string{"ADDED web/u1@1", "MODIFIED web/u1@2<1", "DELETED web/u1@3", "ADDED web/u2@4"}, 0,
		},
		{
			"the new one first; all that comes late of the old one is swallowed",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u2@4", "1 MODIFIED web/u1@2<1", "2 MODIFIED web/u2@5<4", "1 DELETED web/u1@3", "2 MODIFIED web/u2@6<5"},
			[]string{"ADDED web/u1@1", "DELETED web/u1@1?", "ADDED web/u2@4", "MODIFIED web/u2@5<4", "MODIFIED web/u2@6<5"}, 0,
		},
		{
			"the old one is seen first when the new one is known",
			[]string{"2 ADDED web/u2@4", "1 ADDED web/u1@1", "1 DELETED web/u1@3"},
			[]string{"ADDED web/u2@4"}, 0,
		},
		{
			"there and back again",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u2@4", "1 DELETED web/u1@3", "1 ADDED web/u3@7", "2 DELETED web/u2@6", "1 MODIFIED web/u3@8<7"},
			[]string{"ADDED web/u1@1", "DELETED web/u1@1?", "ADDED web/u2@4", "DELETED web/u2@4?", "ADDED web/u3@7", "MODIFIED web/u3@8<7"}, 0,
		},
		{
			"a restored server: the new one has the lower version, and stays when the other goes",
			[]string{"2 ADDED web/u2@40", "1 ADDED web/u3@5", "2 DELETED web/u2@40?", "1 MODIFIED web/u3@6<5"},
			[]string{"ADDED web/u2@40", "DELETED web/u2@40?", "ADDED web/u3@5", "MODIFIED web/u3@6<5"}, 0,
		},
		{
			"the old one does not come back when the new one goes before its end is known",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u2@4", "2 DELETED web/u2@6", "1 MODIFIED web/u1@2<1", "1 DELETED web/u1@3", "1 ADDED web/u3@8"},
			[]string{"ADDED web/u1@1", "DELETED web/u1@1?", "ADDED web/u2@4", "DELETED web/u2@6", "ADDED web/u3@8"}, 0,
		},
		{
			"nor when a list found that the new one had gone",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u2@4", "2 DELETED web/u2@4?", "1 DELETED web/u1@3"},
			[]string{"ADDED web/u1@1", "DELETED web/u1@1?", "ADDED web/u2@4", "DELETED web/u2@4?"}, 0,
		},
		{
			"an old one that was never shown is not when the new one goes",
			[]string{"2 ADDED web/u2@4", "1 ADDED web/u1@1", "2 DELETED web/u2@6", "1 DELETED web/u1@3"},
			[]string{"ADDED web/u2@4", "DELETED web/u2@6"}, 0,
		},
		{
			"versions that are no numbers: the member that was heard last",
			[]string{"1 ADDED web/u1@a", "2 ADDED web/u2@b", "1 DELETED web/u1@a"},
			[]string{"ADDED web/u1@a", "DELETED web/u1@a?", "ADDED web/u2@b"}, 0,
		},
		{
			"names do not meet",
			[]string{"1 ADDED web/u1@1", "2 ADDED db/u2@2", "1 DELETED web/u1@3"},
			[]string{"ADDED web/u1@1", "ADDED db/u2@2", "DELETED web/u1@3"}, 0,
		},
		{
			"one object of two members is told once, whoever is first",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u1@1", "1 MODIFIED web/u1@2<1", "2 MODIFIED web/u1@2<1", "2 MODIFIED web/u1@3<2", "2 DELETED web/u1@4", "1 MODIFIED web/u1@3<2", "1 DELETED web/u1@4"},
			[]string{"ADDED web/u1@1", "MODIFIED web/u1@2<1", "MODIFIED web/u1@3<2", "DELETED web/u1@4"}, 0,
		},
		{
			"of two members one leaves: the object stays, and is the other's",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u1@1", "1 DELETED web/u1@1?", "2 MODIFIED web/u1@2<1", "2 DELETED web/u1@3"},
			[]string{"ADDED web/u1@1", "MODIFIED web/u1@2<1", "DELETED web/u1@3"}, 0,
		},
		{
			"and nothing is kept of the one that left",
			[]string{"1 ADDED web/u1@1", "2 ADDED web/u1@1", "1 DELETED web/u1@1?"},
			[]string{"ADDED web/u1@1"}, 0,
		},
		{
			"what a member that is gone told of a history that is lost does not hide what there is",
			[]string{"1 ADDED web/u1@10", "1 DELETED web/u1@20", "2 ADDED web/u1@10", "2 SYNCED@15", "3 SYNCED@15!"},
			[]string{"ADDED web/u1@10", "DELETED web/u1@20", "ADDED web/u1@10"}, 0,
		},
		{
			"the one that leaves was ahead: the object does not go back, and what the other has to catch up on is not told",
			[]string{"1 ADDED web/u1@5", "2 ADDED web/u1@3", "1 DELETED web/u1@5?", "2 MODIFIED web/u1@4<3", "2 MODIFIED web/u1@5<4", "2 MODIFIED web/u1@6<5"},
			[]string{"ADDED web/u1@5", "MODIFIED web/u1@6<5"}, 0,
		},
		{
			"the one that leaves was behind",
			[]string{"1 ADDED web/u1@3", "2 ADDED web/u1@5", "1 DELETED web/u1@3?"},
			[]string{"ADDED web/u1@3", "MODIFIED web/u1@5<3"}, 0,
		},
		{
			"the end of an object that another member has not seen the beginning of",
			[]string{"1 ADDED web/u1@3", "1 DELETED web/u1@5", "2 ADDED web/u1@3", "2 MODIFIED web/u1@4<3", "2 DELETED web/u1@5"},
			[]string{"ADDED web/u1@3", "DELETED web/u1@5"}, 0,
		},
		{
			"an object that leaves one member's selector for another's, the old one first",
			[]string{"1 ADDED web/u1@3", "1 DELETED web/u1@5", "2 ADDED web/u1@5", "2 MODIFIED web/u1@6<5"},
			[]string{"ADDED web/u1@3", "DELETED web/u1@5", "ADDED web/u1@5", "MODIFIED web/u1@6<5"}, 0,
		},
		{
			"and the new one first",
			[]string{"1 ADDED web/u1@3", "2 ADDED web/u1@5", "1 DELETED web/u1@5", "2 MODIFIED web/u1@6<5"},
			[]string{"ADDED web/u1@3", "MODIFIED web/u1@5<3", "MODIFIED web/u1@6<5"}, 0,
		},
		{
			"an object that leaves the selector of one of two, and comes to the other as a change of the same version",
			[]string{"1 ADDED web/u1@3", "2 ADDED web/u1@3", "1 DELETED web/u1@5", "2 MODIFIED web/u1@5<3"},
			[]string{"ADDED web/u1@3", "DELETED web/u1@5", "ADDED web/u1@5"}, 0,
		},
		{
			"what a list of the other member has at or after the end is there",
			[]string{"1 ADDED web/u1@3", "2 ADDED web/u1@3", "1 DELETED web/u1@5", "2 SYNCED@4", "2 SYNCED@5"},
			[]string{"ADDED web/u1@3", "DELETED web/u1@5", "ADDED web/u1@3"}, 0,
		},
		{
			"a list from before the end proves nothing",
			[]string{"1 ADDED web/u1@3", "2 ADDED web/u1@3", "1 DELETED web/u1@5", "2 SYNCED@4"},
			[]string{"ADDED web/u1@3", "DELETED web/u1@5"}, 1,
		},
		{
			"a server that was restored to when the old one was there: the member of the new one finds out first",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u2@20", "2 DELETED web/u2@20?", "2 SYNCED@15!", "1 SYNCED@15!"},
			[]string{"ADDED web/u1@10", "DELETED web/u1@10?", "ADDED web/u2@20", "DELETED web/u2@20?", "ADDED web/u1@10"}, 0,
		},
		{
			"and that of the old one does",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u2@20", "1 SYNCED@15!", "2 DELETED web/u2@20?", "2 SYNCED@15!"},
			[]string{"ADDED web/u1@10", "DELETED web/u1@10?", "ADDED web/u2@20", "DELETED web/u2@20?", "ADDED web/u1@10"}, 0,
		},
		{
			"a member that goes back takes the object with it",
			[]string{"1 ADDED web/u1@10", "1 MODIFIED web/u1@5<10", "1 SYNCED@6!"},
			[]string{"ADDED web/u1@10", "MODIFIED web/u1@5<10"}, 0,
		},
		{
			"of two, when both have",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u1@10", "1 MODIFIED web/u1@5<10", "1 SYNCED@6!", "2 MODIFIED web/u1@5<10", "2 SYNCED@6!"},
			[]string{"ADDED web/u1@10", "MODIFIED web/u1@5<10"}, 1,
		},
		{
			"a version that nobody has any more gives way to what a list proves",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u1@5", "1 DELETED web/u1@10?", "2 SYNCED@9", "2 SYNCED@12"},
			[]string{"ADDED web/u1@10", "MODIFIED web/u1@5<10"}, 0,
		},
		{
			"also when that list came before the one that has it leaves",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u1@5", "2 SYNCED@12", "1 DELETED web/u1@10?"},
			[]string{"ADDED web/u1@10", "MODIFIED web/u1@5<10"}, 0,
		},
		{
			"contents that differ under the same version, as a doubtful list finds them",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u1@10", "1 MODIFIED web/u1@10<10"},
			[]string{"ADDED web/u1@10", "MODIFIED web/u1@10<10"}, 1,
		},
		{
			"a relist of one of two that have the same is nothing to tell",
			[]string{"1 ADDED web/u1@10", "2 ADDED web/u1@10", "1 SYNCED@12", "2 SYNCED@12"},
			[]string{"ADDED web/u1@10"}, 1,
		},
		{
			"a delete of what is not there",
			[]string{"1 DELETED web/u1@3", "2 ADDED web/u2@4", "1 DELETED web/u0@2"},
			[]string{"ADDED web/u2@4"}, 0,
		},
		{
			"three members and three objects",
			[]string{"1 ADDED web/u1@1", "3 ADDED web/u3@9", "2 ADDED web/u2@5", "3 DELETED web/u3@11", "2 DELETED web/u2@7", "1 DELETED web/u1@3"},
			[]string{"ADDED web/u1@1", "DELETED web/u1@1?", "ADDED web/u3@9", "DELETED web/u3@11"}, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newMerging()
			for _, in := range c.in {
				g.tell(t, in)
			}
			if got := g.told(); !slices.Equal(got, c.want) {
				t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
			}
			if n := g.contested.len(); n != c.left {
				t.Errorf("%d names are contested in the end, want %d: %v", n, c.left, g.contested.m)
			}
		})
	}
}

// TestUnionLaggingMembers: objects move between members under the same names while what the members are
// told lags behind each other at random. A reader is never surprised, sees no object come back, and in the end
// has what there is.
func TestUnionLaggingMembers(t *testing.T) {
	const members, names, changes = 3, 4, 400
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		g := newMerging()
		var queues [members][]change[*thing] // what the server sent and the member has not read
		home := map[string]int{}
		server := map[string]*thing{}
		reader := newFold(false)
		ended := map[string]bool{}
		read := func(member int) {
			c := queues[member][0]
			queues[member] = queues[member][1:]
			g.apply(uint32(member+1), c)
			for {
				ev, ok, _ := g.m.popEvent()
				if !ok {
					return
				}
				reader.apply(ev)
				if ev.Type == Added && ended[ev.Object.uid] {
					t.Fatalf("seed %d: %s, and it had ended", seed, describe(ev))
				}
				ended[ev.Object.uid] = ended[ev.Object.uid] || ev.Type == Deleted
			}
		}
		for rv := range changes {
			name := fmt.Sprint("web-", random.IntN(names))
			have := server[name]
			send := func(typ EventType, uid string) {
				o := &thing{name: name, uid: uid, rv: strconv.Itoa(rv + 1)}
				c := change[*thing]{typ: typ, e: entryOf(o)}
				if typ == Modified {
					c.old = entryOf(have)
				}
				queues[home[name]] = append(queues[home[name]], c)
				server[name] = o
			}
			switch {
			case have == nil:
				home[name] = random.IntN(members)
				send(Added, strconv.Itoa(rv+1))
			case random.IntN(2) == 0:
				send(Modified, have.uid)
			default:
				send(Deleted, have.uid)
				delete(server, name)
			}
			for member := range queues {
				for len(queues[member]) > 0 && random.IntN(3) == 0 {
					read(member)
				}
			}
		}
		for member := range queues {
			for len(queues[member]) > 0 {
				read(member)
			}
		}
		if len(reader.faults) > 0 {
			t.Fatalf("seed %d: the reader was told wrong:\n%s", seed, strings.Join(reader.faults, "\n"))
		}
		want := (&fold{objects: server}).contents()
		if got := reader.contents(); got != want || contents(g.store) != want {
			t.Fatalf("seed %d: the reader has\n%s\nthe store\n%s\nthe server\n%s", seed, got, contents(g.store), want)
		}
		if n := g.contested.len(); n != 0 {
			t.Fatalf("seed %d: %d names are contested when all is read", seed, n)
		}
	}
}

// TestUnionIndexes: the union's indexes are its own, and a version for which a function of one panics is
// not in it, costs nothing else, and is told.
func TestUnionIndexes(t *testing.T) {
	broken := map[string]string{}
	g := newMerging(Index[*thing]{Name: "uid", Values: func(o *thing) []string {
		if o.rv == "13" {
			panic("13")
		}
		return []string{o.uid}
	}})
	g.broken = func(e *entry[*thing], p *panicked) {
		if delete(broken, e.key.Name); p != nil {
			broken[e.key.Name] = p.Error()
		}
	}
	check := func(want ...string) {
		t.Helper()
		if got := g.told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	g.tell(t, "1 ADDED a/u1@12")
	g.tell(t, "2 ADDED b/u2@13")
	check("ADDED a/u1@12")
	g.tell(t, "1 MODIFIED a/u1@13<12")
	check()
	if got := fmt.Sprint(broken); got != "map[a:panic: 13 b:panic: 13]" {
		t.Errorf("broken are %s", got)
	}
	if got := namesBy(g.store, "uid", "u1"); got != "a" {
		t.Errorf("under u1 there is %q, want the version before", got)
	}
	g.tell(t, "2 MODIFIED b/u2@14<13")
	g.tell(t, "1 MODIFIED a/u1@14<13")
	check("ADDED b/u2@14", "MODIFIED a/u1@14<12")
	g.tell(t, "2 ADDED a/u3@13") // older than what is shown
	g.tell(t, "1 DELETED a/u1@15")
	check("DELETED a/u1@15")
	g.tell(t, "1 ADDED c/u4@13")
	g.tell(t, "1 DELETED c/u4@15") // it was never there
	g.tell(t, "1 ADDED d/u5@10")
	g.tell(t, "2 ADDED d/u6@13")
	g.tell(t, "1 DELETED d/u5@11")
	check("ADDED d/u5@10", "DELETED d/u5@10?")
	if broken["d"] == "" {
		t.Errorf("d is not broken: %v", broken)
	}
	g.tell(t, "2 DELETED d/u6@15")
	if len(broken) != 0 {
		t.Errorf("still broken: %v", broken)
	}
	if got := namesBy(g.store, "uid", "u1") + namesBy(g.store, "uid", "u2"); got != "b" {
		t.Errorf("the index has %q, want b alone", got)
	}
}
