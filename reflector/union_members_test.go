package reflector

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"testing"
)

// replacedUnion is a union of the member "old", which has some things, that is being replaced by "new".
func replacedUnion(t *testing.T, handler slog.Handler, things ...string) (u *Union[*thing], from, to *member[*thing]) {
	t.Helper()
	u, err := NewUnion(UnionConfig[*thing]{
		Resource: "things", Logger: slog.New(handler),
		Store: NewStore(Index[*thing]{Name: "uid", Values: func(o *thing) []string { return []string{o.uid} }}),
		Member: func(key string) (*Reflector[*thing], error) {
			return New(Config[*thing]{Name: key, Resource: "things", ListerWatcher: unused[*thing]{}})
		},
	}, "old")
	if err != nil {
		t.Fatal(err)
	}
	u.ran.Store(true) // its members' stores are filled by hand
	from = u.members[0]
	fill(from, things...)
	if err := u.Set("new"); err != nil {
		t.Fatal(err)
	}
	return u, from, u.members[1]
}

// fill gives a member a complete list.
func fill(m *member[*thing], things ...string) {
	r := m.r.store.beginReplace()
	for _, s := range things {
		o := event("ADDED " + s).e.obj
		r.testPut(o.meta(), o)
	}
	r.commit("100", false)
}

// toldOf returns what a subscriber has to read.
func toldOf(m *mailbox[*thing]) (all []string) {
	for {
		ev, ok, _ := m.popEvent()
		if !ok {
			return all
		}
		all = append(all, describe(ev))
	}
}

// TestUnionInherits: "objects are shared with the members' stores", also what came of a member that was replaced:
// its own objects are let go, though nobody is told of a change.
func TestUnionInherits(t *testing.T) {
	u, _, to := replacedUnion(t, slog.DiscardHandler, "a/u1@1", "b/u2@2", "c/u3@3")
	m := u.Store().subscribe(Subscription[*thing]{Limit: 100})
	toldOf(m)
	fill(to, "a/u1@1", "b/u2@3", "c/u3@3")
	u.letGo()
	if got := toldOf(m); !slices.Equal(got, []string{"MODIFIED b/u2@3<2", "SYNCED@100"}) {
		t.Errorf("told %q", got)
	}
	for k, o := range u.Store().All() {
		if o != to.r.store.find(k).obj {
			t.Errorf("%s is not the object of the member that has it", k)
		}
		if got := namesBy(u.Store(), "uid", o.uid); got != o.name {
			t.Errorf("under %s the index has %q", o.uid, got)
		}
	}
	if got := contents(u.Store()); got != "a/u1@1 b/u2@3 c/u3@3" || u.merger.contested.len() != 0 {
		t.Errorf("the union has %s, and %d names are contested", got, u.merger.contested.len())
	}
}

// TestUnionSyncedAfterLeaving: "Synced is told when all members have a complete snapshot", and not while objects of a
// member that was taken out are there.
func TestUnionSyncedAfterLeaving(t *testing.T) {
	u, from, to := replacedUnion(t, slog.DiscardHandler, "a/u1@1")
	m := u.Store().subscribe(Subscription[*thing]{Limit: 100})
	toldOf(m)
	from.r.store.mu.Lock() // its reflector is busy
	fill(to)
	done := make(chan struct{})
	go func() {
		u.letGo()
		close(done)
	}()
	for leaves(u) {
		runtime.Gosched()
	}
	fill(to) // again
	if got := toldOf(m); len(got) > 0 {
		t.Errorf("told %q, and the old member's objects are there", got)
	}
	from.r.store.mu.Unlock()
	<-done
	if got := toldOf(m); !slices.Equal(got, []string{"DELETED a/u1@1?", "SYNCED@100"}) {
		t.Errorf("told %q", got)
	}
}

// TestUnionStoppedIsLeft: "what is stored stays readable" after Run, whatever a Set was about to take out.
func TestUnionStoppedIsLeft(t *testing.T) {
	u, _, to := replacedUnion(t, slog.DiscardHandler, "a/u1@1")
	u.stop(func() {})
	fill(to)
	u.letGo()
	if got := contents(u.Store()); got != "a/u1@1" {
		t.Errorf("the union has %q", got)
	}
}

// leaves reports whether a member is on its way out. Unlike Status it takes no lock of a member.
func leaves[T any](u *Union[T]) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.members, func(m *member[T]) bool { return m.leaving })
}

// asking is a log that asks the union of each line.
type asking struct {
	slog.Handler
	ask func()
}

func (a *asking) Enabled(context.Context, slog.Level) bool { return true }

func (a *asking) Handle(context.Context, slog.Record) error {
	a.ask()
	return nil
}

func (a *asking) WithAttrs([]slog.Attr) slog.Handler { return a }

// TestUnionLogsWithoutLocks: members that come and go are told when nobody waits for the log.
func TestUnionLogsWithoutLocks(t *testing.T) {
	lines := 0
	log := &asking{Handler: slog.DiscardHandler, ask: func() {}}
	u, from, to := replacedUnion(t, log, "a/u1@1")
	log.ask = func() {
		lines++
		u.Status()
		from.r.store.Len()
	}
	fill(to)
	u.letGo()
	if err := u.Set("new", "newer"); err != nil || lines != 2 {
		t.Errorf("%v, %d lines, want 2", err, lines)
	}
}
