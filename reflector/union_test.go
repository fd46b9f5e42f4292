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
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

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
