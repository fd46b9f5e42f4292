package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// gated is a server whose doors can be shut: it forbids, or does not answer.
type gated struct {
	*model
	forbids, hangs atomic.Bool
}

func (g *gated) pass(ctx context.Context, verb string) error {
	if g.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if g.forbids.Load() {
		return failed(verb, 403, "Forbidden no")
	}
	return nil
}

func (g *gated) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	if err := g.pass(ctx, "list"); err != nil {
		return metav1.ListMeta{}, err
	}
	return g.model.List(ctx, opts, sink)
}

func (g *gated) Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	if err := g.pass(ctx, "watch"); err != nil {
		return nil, err
	}
	return g.model.Watch(ctx, opts)
}

// fleet is a union of servers of one node each, by its name, and what a subscriber was told.
type fleet struct {
	*reflector.Union[*corev1.Pod]
	nodes    map[string]*gated
	registry reflector.Registry
	replica  *replica
	events   []string // since the last take
	stop     func()
}

// newFleet starts one. It is called inside a synctest bubble.
func newFleet(t *testing.T, nodes []string, keys []string) *fleet {
	t.Helper()
	f := &fleet{nodes: map[string]*gated{}, replica: &replica{objects: map[string]string{}}}
	for i, name := range nodes {
		f.nodes[name] = &gated{model: newModel(t, uint64(i))}
		f.nodes[name].prefix = name + "-"
	}
	var err error
	f.Union, err = reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{
		Name: "fleet",
		Member: func(key string) (*reflector.Reflector[*corev1.Pod], error) {
			return reflector.New(reflector.Config[*corev1.Pod]{Name: key, Resource: "pods", ListerWatcher: f.nodes[key], Registry: &f.registry})
		},
		Registry: &f.registry,
	}, keys...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for ev := range f.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{OnStart: func() { close(begun) }}) {
			f.replica.apply(ev)
			f.events = append(f.events, describe(ev))
		}
	})
	<-begun
	group.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	f.stop = func() {
		cancel()
		group.Wait()
	}
	synctest.Wait()
	return f
}

// take returns what the subscriber was told since, without Synced's versions, deletes of a removed member sorted.
func (f *fleet) take() []string {
	synctest.Wait()
	got := sortDeletes(f.events)
	f.events = nil
	for i, s := range got {
		got[i], _, _ = strings.Cut(s, " rv=")
		if strings.HasPrefix(s, "SYNCED") {
			got[i] = "SYNCED"
		}
	}
	return got
}

func (f *fleet) set(t *testing.T, keys ...string) {
	t.Helper()
	if err := f.Set(keys...); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) put(node, word string) {
	m := f.nodes[node]
	m.mu.Lock()
	defer m.mu.Unlock()
	name, _, _ := strings.Cut(word, "@")
	c := change{rv: rvOf(word), typ: "ADDED", word: word}
	if m.objects[name] != "" {
		c.typ = "MODIFIED"
	}
	m.rv = max(m.rv, c.rv)
	m.objects[name] = word
	m.history = append(m.history, c)
	m.wakeLocked()
}

func (f *fleet) stored() string {
	var all []string
	for _, pod := range f.Store().All() {
		all = append(all, show(pod))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (f *fleet) watches(node string) int {
	m := f.nodes[node]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watches
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// TestUnionOneForbidden is H5: "three nodes, one forbidden: the union reports a partial sync". "A member that
// fails costs the others nothing, and Status and WaitForSync name it with its error."
func TestUnionOneForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []string{"node-a", "node-b", "node-c"}
		f := newFleet(t, nodes, nil)
		expect(t, "without members", f.take(), "SYNCED")
		if err := f.WaitForSync(t.Context()); err != nil {
			t.Errorf("without members: %v", err)
		}
		for _, node := range nodes {
			f.put(node, node+"-p@1001/"+node)
		}
		f.nodes["node-b"].forbids.Store(true)
		f.set(t, nodes...)
		got := f.take()
		slices.Sort(got)
		expect(t, "the two that answer", got, "ADDED node-a-p@1001/node-a", "ADDED node-c-p@1001/node-c")
		f.put("node-a", "node-a-p@1002/node-a")
		expect(t, "changes of theirs", f.take(), "MODIFIED node-a-p@1002/node-a")

		st := f.Status()
		if st.Synced || !st.FreshAsOf.IsZero() || st.State != reflector.StateBackingOff || st.Objects != 2 || st.Resource != "pods" ||
			st.LastRestart == nil || st.LastRestart.Reason != reason.Forbidden ||
			st.Detail != "2 of 3 members are synced; furthest behind is node-b" {
			t.Errorf("the status is %+v", st)
		}
		for i, m := range st.Members {
			if m.Key != nodes[i] || m.Status.Name != nodes[i] || m.Status.Synced != (i != 1) {
				t.Errorf("member %d is %+v", i, m)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := f.WaitForSync(ctx)
		var refused *listwatch.Error
		var member *reflector.MemberError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &refused) || refused.Reason != reason.Forbidden ||
			!errors.As(err, &member) || member.Key != "node-b" {
			t.Errorf("WaitForSync: %v", err)
		} else if text := err.Error(); !strings.HasPrefix(text, "fleet not synced: context deadline exceeded; missing 1 of 3: node-b: ") || strings.Contains(text, "node-a") {
			t.Errorf("WaitForSync: %v", err)
		}
		late := make(chan []string)
		for _, then := range []string{"", "SYNCED"} {
			go func() { // who comes late
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var all []string
				for ev := range f.Events(ctx) {
					if all = append(all, ev.Type.String()); ev.Type != reflector.Synced && !ev.Initial {
						t.Errorf("%s is not of the first snapshot", describe(ev))
					}
				}
				late <- all
			}()
			want := append([]string{"ADDED", "ADDED"}, strings.Fields("ADDED "+then)...)
			if then == "" {
				want = want[:2]
			}
			expect(t, "who comes late", <-late, want...)
			f.nodes["node-b"].forbids.Store(false)
			if err := f.WaitForSync(t.Context()); err != nil {
				t.Error(err)
			}
		}
		expect(t, "the third", f.take(), "ADDED node-b-p@1001/node-b", "SYNCED")
		st = f.Status()
		oldest := st.Members[0].Status.FreshAsOf
		for _, m := range st.Members[1:] {
			if m.Status.FreshAsOf.Before(oldest) {
				oldest = m.Status.FreshAsOf
			}
		}
		if !st.Synced || !st.FreshAsOf.Equal(oldest) || oldest.IsZero() {
			t.Errorf("the status is %+v, the oldest of the members is of %v", st, oldest)
		}

		// Who never answers does not have to stay.
		f.nodes["node-c"].forbids.Store(true)
		f.set(t, "node-a", "node-b")
		expect(t, "one leaves", f.take(), "DELETED node-c-p@1001/node-c?")
		f.set(t, nodes...)
		expect(t, "and comes back", f.take())
		if f.Status().Synced {
			t.Error("it is synced, and one is missing")
		}
		waited := make(chan error)
		go func() { waited <- f.WaitForSync(t.Context()) }()
		synctest.Wait()
		f.set(t, "node-a", "node-b")
		expect(t, "and leaves", f.take(), "SYNCED")
		if err := <-waited; err != nil {
			t.Errorf("who waited for it: %v", err)
		}
		f.stop()
	})
}

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

// TestUnionRandomFaults: members come and go while each of their servers does everything that is bad. When they are well
// again "the store of a union has, of each name, the newest object that its members have", and events replay to the same.
func TestUnionRandomFaults(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				names := []string{"a", "b", "c", "d"}
				f := newFleet(t, names, names[:2])
				f.replica.rewinds = true
				restored := make(map[any]bool)
				for _, n := range f.nodes {
					n.faulty = true
				}
				for i := range 150 {
					n := f.nodes[names[rnd.IntN(len(names))]]
					n.act()
					time.Sleep(time.Duration(rnd.IntN(20000)) * time.Millisecond)
					switch rnd.IntN(40) {
					case 0:
						n.compact()
					case 1:
						// To the beginning, late, and once: what is written afterwards must not reach what the
						// member knows, or nobody could tell (see the seeds of one reflector).
						if i > 110 && !restored[n] {
							restored[n] = true
							n.restore(150)
						}
					case 2, 3, 4:
						f.set(t, names[rnd.IntN(2):2+rnd.IntN(3)]...)
					}
				}
				want := names[1:]
				f.set(t, want...)
				var objects []string
				for _, n := range f.nodes {
					n.mu.Lock()
					n.faulty = false
					n.mu.Unlock()
				}
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				for _, name := range want {
					objects = append(objects, strings.Fields(f.nodes[name].contents())...)
				}
				slices.Sort(objects)
				all := strings.Join(objects, " ")
				if got := f.stored(); got != all {
					t.Errorf("the store differs from the servers:\n got  %s\n want %s", got, all)
				}
				if got := strings.Join(slices.Sorted(maps.Values(f.replica.objects)), " "); got != all {
					t.Errorf("the events differ from the servers:\n got  %s\n want %s", got, all)
				}
				if len(f.replica.faults) > 0 {
					t.Errorf("events that contradict the ones before:\n  %s", strings.Join(f.replica.faults, "\n  "))
				}
				if st := f.Status(); !st.Synced || time.Since(st.FreshAsOf) > 4*time.Minute {
					t.Errorf("well servers are not watched: %+v", st)
				}
				if got := fmt.Sprint(f.watches("a"), f.watches("b"), f.watches("c"), f.watches("d")); got != "0 1 1 1" {
					t.Errorf("open watches are %s", got)
				}
				f.stop()
			})
		})
	}
}

// TestUnionStops: "everything stops within 100 ms of its context", whatever the members are at, and a member
// that was taken out as well.
func TestUnionStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"watching", "waiting", "refused", "gone"}, nil)
		f.nodes["waiting"].hangs.Store(true)
		f.nodes["gone"].hangs.Store(true)
		f.nodes["refused"].forbids.Store(true)
		f.set(t, "watching", "waiting", "refused", "gone")
		synctest.Wait()
		f.set(t, "watching", "waiting", "refused")
		if took := elapsed(synctest.Wait); took > 100*time.Millisecond || len(f.registry.Sources()) != 4 {
			t.Errorf("a member that went runs after %s: %d sources", took, len(f.registry.Sources()))
		}
		waited := make(chan error, 1)
		go func() { waited <- f.WaitForSync(t.Context()) }()
		synctest.Wait()
		if took := elapsed(f.stop); took > 100*time.Millisecond {
			t.Errorf("it took %s to stop", took)
		}
		if err := <-waited; !errors.Is(err, reflector.ErrStopped) {
			t.Errorf("WaitForSync: %v", err)
		}
		if st := f.Status(); st.State != reflector.StateStopped || len(f.registry.Sources()) != 0 || f.watches("watching") != 0 {
			t.Errorf("stopped, and there are %d sources, %d watches, status %+v", len(f.registry.Sources()), f.watches("watching"), st)
		}
		if err := f.Run(t.Context()); !errors.Is(err, reflector.ErrAlreadyRun) {
			t.Errorf("the second Run: %v", err)
		}
	})
}

func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// TestUnionCycles: a thousand members that come and go leave nothing.
func TestUnionCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"stays", "comes"}, []string{"stays"})
		f.put("stays", "a@1001/ua")
		f.put("comes", "b@1001/ub")
		f.take()
		for i := range 1000 {
			f.set(t, "stays", "comes")
			if i%2 == 0 { // else it goes on its way
				synctest.Wait()
			}
			f.set(t, "stays")
		}
		synctest.Wait()
		if got := fmt.Sprintln(f.stored(), len(f.Status().Members), len(f.registry.Sources()), f.watches("comes"), f.Stats().Subscribers); got != "a@1001/ua 1 2 0 1\n" {
			t.Errorf("store, members, sources, watches and subscribers are %s", got)
		}
		f.stop()
	})
}

// TestUnionBlocks: "a subscriber whose policy is Block holds up the members", and nobody else.
func TestUnionBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, []string{"a", "b"}, []string{"a", "b"})
		var got []string
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			for ev := range f.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{Name: "slow", Policy: reflector.Block, Limit: 3}) {
				if ev.Type != reflector.Synced {
					<-release
					got = append(got, describe(ev))
				}
			}
		})
		synctest.Wait()
		f.take()
		var want []string
		for i := range 20 {
			for _, node := range []string{"a", "b"} {
				f.put(node, fmt.Sprintf("%s@%d/u%s", node, 1001+i, node))
				want = append(want, fmt.Sprintf("%s@%d/u%s", node, 1001+i, node))
			}
		}
		// One in the subscriber's hands, three that wait, one more of each member.
		if told := f.take(); len(told) < 4 || len(told) > 6 {
			t.Errorf("others were told %q", told)
		}
		if f.stored() == "" {
			t.Error("the store cannot be read")
		}
		blocked := 0
		for _, m := range f.Status().Members {
			if strings.Contains(m.Status.Detail, `"union fleet"`) {
				blocked++
			}
		}
		if blocked != 2 {
			t.Errorf("%d members say that they wait: %+v", blocked, f.Status())
		}
		f.set(t, "a") // which waits for nobody
		close(release)
		synctest.Wait()
		for _, w := range want {
			if strings.HasPrefix(w, "a@") && !slices.Contains(got, "ADDED "+w) && !slices.Contains(got, "MODIFIED "+w) {
				t.Errorf("%s was not told: %q", w, got)
			}
		}
		cancel()
		group.Wait()
		f.stop()
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
