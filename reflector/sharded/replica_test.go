package sharded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// cluster is a server, its pods, and what it does with shardSelector.
type cluster struct {
	*listwatchtest.Server
	pods map[types.UID]*corev1.Pod
	born map[types.UID]time.Time
	next int
}

// newCluster has some pods. mode is served, ignored, or mixed: several API servers of which some have the feature.
func newCluster(t *testing.T, mode string, random *rand.Rand) *cluster {
	t.Helper()
	c := listwatchtest.Config{Sharding: listwatchtest.ShardingOn}
	if mode == "ignored" {
		c.Sharding = listwatchtest.ShardingOff
	}
	var mu sync.Mutex
	c.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		late, without := time.Duration(random.IntN(300))*time.Millisecond, mode == "mixed" && random.IntN(2) == 0
		mu.Unlock()
		time.Sleep(late)
		if without {
			query := r.URL.Query()
			query.Del("shardSelector")
			r = r.Clone(r.Context())
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(w, r)
	}
	cl := &cluster{Server: listwatchtest.New(c), pods: map[types.UID]*corev1.Pod{}, born: map[types.UID]time.Time{}}
	t.Cleanup(cl.Close)
	for range 40 {
		cl.add(t)
	}
	return cl
}

func (c *cluster) add(t *testing.T) {
	t.Helper()
	c.next++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", c.next)}}
	if err := c.Create(pod); err != nil {
		t.Fatal(err)
	}
	c.pods[pod.UID], c.born[pod.UID] = pod, time.Now()
}

func (c *cluster) remove(t *testing.T) {
	t.Helper()
	for uid, pod := range c.pods {
		if err := c.Delete(pod); err != nil {
			t.Fatal(err)
		}
		delete(c.pods, uid)
		return
	}
}

// replica starts one that begins with a shard.
func (c *cluster) replica(t *testing.T, s shard.Shard, initial reflector.InitialSync) (*Replica[*corev1.Pod], func()) {
	t.Helper()
	r, err := New(Config[*corev1.Pod]{
		ListWatch: listwatch.Config{REST: c.RESTConfig(), Resource: pods},
		Reflector: func(rc *reflector.Config[*corev1.Pod]) { rc.InitialSync = initial },
		Shard:     s,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, testkit.Start(t, 100*time.Millisecond, r.Run)
}

// owners counts in how many stores each pod is.
func owners(replicas []*Replica[*corev1.Pod]) map[types.UID]int {
	n := map[types.UID]int{}
	for _, r := range replicas {
		for _, pod := range r.Store().All() {
			n[pod.UID]++
		}
	}
	return n
}

// barrier lets all go when as many as there are have come.
type barrier struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{left: n, open: make(chan struct{})} }

func (b *barrier) wait(ctx context.Context) error {
	b.mu.Lock()
	if b.left--; b.left == 0 {
		close(b.open)
	}
	b.mu.Unlock()
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestNoObjectIsNobodys: "While replicas go from shards to other shards, no object is in nobody's store", and
// "At rest each object is in the store of exactly one". Replicas come and go, objects too, and answers are late.
// A pod is looked for when it is two seconds old: events take their time, as ever.
func TestNoObjectIsNobodys(t *testing.T) {
	for _, mode := range []string{"served", "ignored", "mixed"} {
		for _, initial := range []reflector.InitialSync{reflector.InitialList, reflector.InitialWatchList} {
			t.Run(mode+","+initial.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(7, 11))
					c := newCluster(t, mode, rand.New(rand.NewPCG(3, 5)))
					var replicas []*Replica[*corev1.Pod]
					var stops []func()
					count := 3
					for i := range count {
						r, stop := c.replica(t, shard.Shard{Index: i, Count: count}, initial)
						replicas, stops = append(replicas, r), append(stops, stop)
					}
					for _, r := range replicas {
						if err := r.WaitForSync(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					twice := 0
					for round := range 8 {
						to := 1 + random.IntN(5)
						all := newBarrier(to)
						var moves sync.WaitGroup
						for i := range to {
							s := shard.Shard{Index: i, Count: to}
							if i >= count {
								r, stop := c.replica(t, s, initial)
								replicas, stops = append(replicas, r), append(stops, stop)
							}
							r := replicas[i]
							moves.Go(func() {
								if err := r.Reshard(t.Context(), s, all.wait); err != nil {
									t.Errorf("Reshard: %v", err)
								}
							})
						}
						done := make(chan struct{})
						go func() { moves.Wait(); close(done) }()
						for moving := true; moving; {
							select {
							case <-done:
								moving = false
							case <-time.After(20 * time.Millisecond):
							}
							synctest.Wait()
							have := owners(replicas)
							for uid := range c.pods {
								if have[uid] == 0 && time.Since(c.born[uid]) > 2*time.Second {
									t.Fatalf("round %d, %d to %d: nobody has %s", round, count, to, c.pods[uid].Name)
								}
								if have[uid] > 1 {
									twice++
								}
							}
							if random.IntN(4) == 0 {
								c.add(t)
							}
							if random.IntN(6) == 0 {
								c.remove(t)
							}
						}
						for i := len(replicas) - 1; i >= to; i-- { // who is too many ends when the others have it all
							stops[i]()
							replicas, stops = replicas[:i], stops[:i]
						}
						count = to
						time.Sleep(2 * time.Second)
						synctest.Wait()
						have := owners(replicas)
						for uid, pod := range c.pods {
							if have[uid] != 1 {
								t.Fatalf("round %d, at rest with %d: %d have %s", round, to, have[uid], pod.Name)
							}
						}
						if len(have) != len(c.pods) {
							t.Fatalf("round %d: replicas have %d pods, the server %d", round, len(have), len(c.pods))
						}
						for i, r := range replicas {
							want := shard.Shard{Index: i, Count: to}
							if got := r.Shards(); to > 1 && !slices.Equal(got, []shard.Shard{want}) {
								t.Errorf("replica %d holds %v", i, got)
							}
						}
					}
					if twice == 0 {
						t.Error("no pod ever had two owners: the replicas changed in one instant, which proves nothing")
					}
				})
			})
		}
	}
}

// TestReshardLeavesCommonObjectsAlone: "What the old and the new shard have in common is untouched."
func TestReshardLeavesCommonObjectsAlone(t *testing.T) {
	for _, mode := range []string{"served", "ignored"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, mode, rand.New(rand.NewPCG(3, 5)))
				half, third := shard.Shard{Index: 0, Count: 2}, shard.Shard{Index: 0, Count: 3}
				r, _ := c.replica(t, half, reflector.InitialAuto)
				if err := r.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				var told []string
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for ev := range r.Events(ctx) {
						if ev.Initial || ev.Type == reflector.Synced {
							continue
						}
						mu.Lock()
						told = append(told, fmt.Sprintf("%v %s %t", ev.Type, ev.Key.Name, ev.FinalStateUnknown))
						mu.Unlock()
					}
				}()
				synctest.Wait()
				move := func(to shard.Shard, verb string) {
					t.Helper()
					if err := r.Reshard(t.Context(), to, nil); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					var want []string
					for uid, pod := range c.pods {
						if half.Has(uid, "") && !third.Has(uid, "") {
							want = append(want, fmt.Sprintf("%s %s %t", verb, pod.Name, verb == "DELETED"))
						}
					}
					mu.Lock()
					defer mu.Unlock()
					slices.Sort(told)
					slices.Sort(want)
					if len(want) == 0 || !slices.Equal(told, want) {
						t.Errorf("to %v was told\n%s\nwant\n%s", to, strings.Join(told, "\n"), strings.Join(want, "\n"))
					}
					told = nil
				}
				move(third, "DELETED")
				move(half, "ADDED")
				if r.Status().Objects != r.Store().Len() || r.Stats().Subscribers != 1 {
					t.Errorf("%+v, %d subscribers", r.Status(), r.Stats().Subscribers)
				}
			})
		})
	}
}

// A re-sharding that does not get through holds too much and never too little, and the next one goes on from there.
func TestReshardThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "served", rand.New(rand.NewPCG(3, 5)))
		first, second, third := shard.Shard{Index: 0, Count: 2}, shard.Shard{Index: 1, Count: 2}, shard.Shard{Index: 0, Count: 3}
		r, _ := c.replica(t, first, reflector.InitialAuto)
		if err := r.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		no := errors.New("no")
		if err := r.Reshard(t.Context(), second, func(context.Context) error { return no }); !errors.Is(err, no) {
			t.Errorf("error is %v", err)
		}
		if len(r.Shards()) != 2 || r.Store().Len() != len(c.pods) {
			t.Errorf("it holds %v, %d of %d pods", r.Shards(), r.Store().Len(), len(c.pods))
		}
		// ctx ends, and agreed does not care.
		ending, end := context.WithCancel(t.Context())
		if err := r.Reshard(ending, second, func(context.Context) error { end(); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		if len(r.Shards()) != 2 || r.Store().Len() != len(c.pods) {
			t.Errorf("it holds %v, %d of %d pods", r.Shards(), r.Store().Len(), len(c.pods))
		}
		// The server does not answer.
		c.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		blocked := make(chan error, 1)
		go func() { blocked <- r.Reshard(ctx, third, nil) }()
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := r.Reshard(short, third, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one at a time: %v", err)
		}
		if err := <-blocked; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 3 is not synced") {
			t.Errorf("error is %v", err)
		}
		if len(r.Shards()) != 3 || r.Store().Len() != len(c.pods) {
			t.Errorf("it holds %v, %d of %d pods", r.Shards(), r.Store().Len(), len(c.pods))
		}
		c.Resume()
		if err := r.Reshard(t.Context(), third, nil); err != nil {
			t.Fatal(err)
		}
		for uid := range c.pods {
			if has := third.Has(uid, ""); has != (owners([]*Replica[*corev1.Pod]{r})[uid] == 1) {
				t.Errorf("%s is in the shard: %t, and not so in the store", uid, has)
			}
		}
		if err := r.Reshard(t.Context(), shard.Shard{Index: 3, Count: 3}, nil); err == nil || !slices.Equal(r.Shards(), []shard.Shard{third}) {
			t.Errorf("%v, it holds %v", err, r.Shards())
		}
	})
}

func TestConfigRefuses(t *testing.T) {
	c := Config[*corev1.Pod]{Shard: shard.Shard{Index: 2, Count: 2}}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Config.Shard: ") {
		t.Errorf("error is %v", err)
	}
	c.Shard = shard.Shard{Count: 2}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "REST is nil") {
		t.Errorf("error is %v", err)
	}
}
