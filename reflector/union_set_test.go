package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// TestUnionSet: members come and go. "The objects of a member that is taken out leave as Deleted with
// FinalStateUnknown, unless another member has them", its requests end, and the others are untouched.
func TestUnionSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"a", "b"}, []string{"a"})
		f.take()
		f.put("a", "x@1001/ux")
		f.put("a", "both@1002/u")
		f.put("b", "y@1001/uy")
		f.put("b", "both@1002/u")
		expect(t, "one member", f.take(), "ADDED x@1001/ux", "ADDED both@1002/u")
		f.set(t, "a", "b", "a")
		expect(t, "a second one", f.take(), "ADDED y@1001/uy", "SYNCED")
		if got := fmt.Sprint(f.Keys(), len(f.registry.Sources()), f.watches("a"), f.watches("b")); got != "[a b] 3 1 1" {
			t.Errorf("keys, sources and watches are %s", got)
		}
		served := f.nodes["a"].served
		f.set(t, "a", "b")
		expect(t, "the same again", f.take())
		f.set(t, "b")
		expect(t, "the first one goes", f.take(), "DELETED x@1001/ux?")
		if got := fmt.Sprint(f.Keys(), len(f.registry.Sources()), f.watches("a"), f.watches("b")); got != "[b] 2 0 1" {
			t.Errorf("keys, sources and watches are %s", got)
		}
		f.put("a", "z@1003/uz")
		f.put("b", "both@1003/u")
		expect(t, "changes", f.take(), "MODIFIED both@1003/u")
		if now := f.nodes["a"].served; now != served {
			t.Errorf("%d requests came of a member that stayed or went", now-served)
		}
		f.set(t)
		expect(t, "none", f.take(), "DELETED both@1003/u?", "DELETED y@1001/uy?")
		f.stop()
		if err := f.Set("a"); !errors.Is(err, reflector.ErrEnded) {
			t.Errorf("Set after the end: %v", err)
		}
	})
}

// TestUnionReplacement: "what members that are replaced have in common with the new ones is untouched", and what
// happens meanwhile is told once.
func TestUnionReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"old", "new-1", "new-2", "new-3"}, []string{"old"})
		for _, n := range f.nodes { // the shards of one collection
			n.model = f.nodes["old"].model
		}
		f.take()
		for i := range 5 {
			f.put("old", fmt.Sprintf("p%d@%d/u%d", i, 1001+i, i))
		}
		f.take()
		f.nodes["new-2"].hangs.Store(true)
		f.set(t, "new-1", "new-2")
		expect(t, "while one of the new ones is missing", f.take())
		if st := f.Status(); st.Synced || len(st.Members) != 3 || !st.Members[0].Leaving || st.Detail != "1 of 2 members are synced; furthest behind is new-2" {
			t.Errorf("the status is %+v", st)
		}
		over, end := context.WithCancel(t.Context())
		end()
		if err := f.WaitForSync(over); err == nil || !strings.HasSuffix(err.Error(), "missing 1 of 2: new-2: no complete answer yet") {
			t.Errorf("WaitForSync: %v", err)
		}
		f.put("old", "p0@1010/u0")
		expect(t, "a change meanwhile", f.take(), "MODIFIED p0@1010/u0")
		if n := f.watches("old"); n != 2 {
			t.Errorf("%d watches are open, want that of the old one and of the new one", n)
		}
		// A third one is wanted instead of the second, which never came.
		f.set(t, "new-1", "new-3")
		expect(t, "when all new ones are there", f.take(), "SYNCED")
		if st := f.Status(); !st.Synced || len(st.Members) != 2 {
			t.Errorf("the status is %+v", st)
		}
		if n := f.watches("old"); n != 2 {
			t.Errorf("%d watches are open, want those of the new ones", n)
		}
		// Back, and away before that is done: the one that was on its way out stays.
		served := f.nodes["old"].served
		f.nodes["new-2"].hangs.Store(true)
		f.set(t, "new-1", "new-2")
		f.set(t, "new-1", "new-3")
		expect(t, "there and back", f.take(), "SYNCED")
		if now := f.nodes["old"].served; now != served {
			t.Errorf("%d requests for a member that was not let go", now-served)
		}
		// Who does not want to wait for the new one.
		f.set(t, "new-1", "new-2", "new-3")
		f.set(t, "new-2")
		got := f.take()
		if len(got) != 5 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasPrefix(s, "DELETED p") }) {
			t.Errorf("the old ones go at once: %q", got)
		}
		f.stop()
		if len(f.replica.faults) > 0 {
			t.Errorf("events that contradict the ones before:\n  %s", strings.Join(f.replica.faults, "\n  "))
		}
	})
}

// TestUnionSetGoesOnMeanwhile: that a member is needed no more becomes known while somebody else changes the members, whose
// Member function takes its time and then fails. It goes all the same, without another Set.
func TestUnionSetGoesOnMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"old", "new"}, []string{"old"})
		f.put("old", "x@1001/ux")
		f.put("new", "y@1001/uy")
		f.take()
		f.nodes["new"].forbids.Store(true)
		f.set(t, "new")
		synctest.Wait() // it is refused
		broken, release, changed := errors.New("no such node"), make(chan struct{}), make(chan error)
		f.making = func(string) error {
			<-release
			return broken
		}
		go func() { changed <- f.Set("new", "broken") }()
		synctest.Wait() // in the Member function
		f.nodes["new"].forbids.Store(false)
		time.Sleep(time.Hour) // until it is asked again
		expect(t, "the new one is there", f.take(), "ADDED y@1001/uy")
		close(release)
		if err := <-changed; !errors.Is(err, broken) {
			t.Errorf("Set: %v", err)
		}
		expect(t, "and the old one has gone", f.take(), "DELETED x@1001/ux?", "SYNCED")
		if n := f.watches("old"); n != 0 {
			t.Errorf("%d watches of the old one are open", n)
		}
		f.stop()
	})
}

// TestUnionStopsMeanwhile: "everything stops within 100 ms of its context", also while a Member function takes its time and
// there are members to let go. What it makes is too late.
func TestUnionStopsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"old", "new", "late"}, []string{"old"})
		f.put("old", "x@1001/ux")
		f.nodes["new"].forbids.Store(true)
		f.set(t, "new")
		synctest.Wait() // it is refused
		release, changed := make(chan struct{}), make(chan error)
		f.making = func(string) error {
			<-release
			return nil
		}
		go func() { changed <- f.Set("new", "late") }()
		synctest.Wait() // in the Member function
		f.nodes["new"].forbids.Store(false)
		time.Sleep(time.Hour)
		if took := elapsed(f.stop); took > 100*time.Millisecond {
			t.Errorf("it took %s to stop", took)
		}
		close(release)
		if err := <-changed; !errors.Is(err, reflector.ErrEnded) {
			t.Errorf("Set after the end: %v", err)
		}
		if got := f.stored(); got != "x@1001/ux" || len(f.registry.Sources()) != 0 {
			t.Errorf("stored is %q, and %d run", got, len(f.registry.Sources()))
		}
	})
}

// TestUnionRefuses: what cannot be a union says what to do, and changes nothing.
func TestUnionRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{Retain: reflector.Retain{For: -1}}); err == nil ||
			!strings.Contains(err.Error(), "UnionConfig.Member is nil") || !strings.Contains(err.Error(), "UnionConfig.Retain.For is") {
			t.Errorf("an empty configuration: %v", err)
		}
		m := newModel(t, 1)
		shared := reflector.NewStore[*corev1.Pod]()
		closed := 0
		made := map[string]func() (*reflector.Reflector[*corev1.Pod], error){}
		add := func(key string, store *reflector.Store[*corev1.Pod]) {
			made[key] = func() (*reflector.Reflector[*corev1.Pod], error) {
				return reflector.New(reflector.Config[*corev1.Pod]{Name: key, Resource: "pods", ListerWatcher: m, Store: store, OnStop: func() { closed++ }})
			}
		}
		made["panics"] = func() (*reflector.Reflector[*corev1.Pod], error) { panic("no") }
		add("good", nil)
		add("one", shared)
		add("two", shared)
		own := reflector.NewStore[*corev1.Pod]()
		add("ours", own)
		made["nil"] = func() (*reflector.Reflector[*corev1.Pod], error) { return nil, nil }
		broken := errors.New("no such node")
		made["broken"] = func() (*reflector.Reflector[*corev1.Pod], error) { return nil, broken }
		ran, err := made["good"]()
		if err != nil {
			t.Fatal(err)
		}
		made["ran"] = func() (*reflector.Reflector[*corev1.Pod], error) { return ran, nil }
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ran.Run(done); err != nil {
			t.Fatal(err)
		}
		add("filled", ran.Store())
		closed = 0
		c := reflector.UnionConfig[*corev1.Pod]{
			Store:  own,
			Member: func(key string) (*reflector.Reflector[*corev1.Pod], error) { return made[key]() },
		}
		u, err := reflector.NewUnion(c, "good")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reflector.NewUnion(c); err == nil || !strings.Contains(err.Error(), "UnionConfig.Store of union is filled by another") {
			t.Errorf("the Store of another: %v", err)
		}
		for keys, want := range map[string]string{
			"broken one": "no such node",
			"nil":        "Member returned nil",
			"ran":        "was run already",
			"filled":     "has a Store that another one fills",
			"ours":       "has the Store of the union",
			"one two":    `has the Store of "one"`,
		} {
			if err := u.Set(strings.Fields(keys)...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Set(%s): %v, want %q in it", keys, err, want)
			}
		}
		var member *reflector.MemberError
		if err := u.Set("broken"); !errors.Is(err, broken) || !errors.As(err, &member) || member.Key != "broken" {
			t.Errorf("an error of Member is %v", err)
		}
		func() {
			defer func() {
				if p := recover(); p != "no" {
					t.Errorf("a panic of Member is %v", p)
				}
			}()
			t.Errorf("a Member that panics: %v", u.Set("one", "panics"))
		}()
		if got := u.Keys(); !slices.Equal(got, []string{"good"}) {
			t.Errorf("the keys are %q", got)
		}
		if closed != 3 { // "one", three times
			t.Errorf("%d reflectors that were made in vain were closed, want 3", closed)
		}
		// Before Run nothing is gained by keeping the old one.
		if err := u.Set("one"); err != nil || closed != 4 || len(u.Status().Members) != 1 {
			t.Errorf("Set: %v, and %d were closed; want that of one that never ran too; members are %v", err, closed, u.Status().Members)
		}
		if err := u.Set(); err != nil || closed != 5 {
			t.Errorf("Set: %v, and %d were closed", err, closed)
		}
	})
}
