package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/sharded"
	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// shardedObjects is how many there are to divide.
const shardedObjects = 1000

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// createConfigMaps creates n of them, several at a time.
func createConfigMaps(t *testing.T, client *kubernetes.Clientset, prefix string, n int) {
	t.Helper()
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := worker; i < n; i += 8 {
				_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// versions are the objects that a server has: resourceVersion by UID.
func versions(t *testing.T, client *kubernetes.Clientset, selector string) map[types.UID]string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{ShardSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	found := map[types.UID]string{}
	for _, o := range list.Items {
		found[o.UID] = o.ResourceVersion
	}
	return found
}

// stored is the same of what reflectors have; an object that two have is an error.
func stored(t *testing.T, collections ...reflector.Collection[*corev1.ConfigMap]) map[types.UID]string {
	t.Helper()
	found := map[types.UID]string{}
	for _, c := range collections {
		for _, o := range c.Store().All() {
			if _, twice := found[o.UID]; twice {
				t.Errorf("two shards have %s", o.Name)
			}
			found[o.UID] = o.ResourceVersion
		}
	}
	return found
}

// TestSharded: three reflectors, each with a third of a collection, have together all of it and each object
// once: at first and after changes, in both encodings, by list, pages and watch-list, whether the server filters
// or not. The client's hash chooses what the server's does.
func TestSharded(t *testing.T) {
	onGates(t, func(t *testing.T, tg target, on bool) {
		client := clientset(t, tg, apiserver.Admin)
		createConfigMaps(t, client, "first", shardedObjects)
		phase("%s: %d objects", t.Name(), shardedObjects)
		type set struct {
			name    string
			members []reflector.Collection[*corev1.ConfigMap]
			servers []*listwatch.ListerWatcher[*corev1.ConfigMap]
		}
		var sets []set
		for _, w := range ways {
			s := set{name: w.String()}
			for index := range 3 {
				lw, err := listwatch.New[*corev1.ConfigMap](listwatch.Config{REST: tg.RESTConfig(apiserver.Admin), Resource: configMaps,
					Namespace: "default", Encoding: w.encoding, Shard: shard.Shard{Index: index, Count: 3}})
				if err != nil {
					t.Fatal(err)
				}
				r, err := reflector.New(reflector.Config[*corev1.ConfigMap]{ListerWatcher: lw, InitialSync: w.initial,
					PageSize: w.page * 10, OnStop: lw.Close})
				if err != nil {
					t.Fatal(err)
				}
				runs(t, r)
				s.members, s.servers = append(s.members, r), append(s.servers, lw)
			}
			sets = append(sets, s)
		}
		for _, s := range sets {
			for _, r := range s.members {
				if err := r.WaitForSync(t.Context()); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
			}
		}
		all := versions(t, client, "")
		if len(all) < shardedObjects {
			t.Fatalf("the server has %d objects", len(all))
		}
		for index := range 3 {
			s := shard.Shard{Index: index, Count: 3}
			served := versions(t, client, s.Selector().String())
			if !on && len(served) != len(all) {
				t.Errorf("with the gate off a list has %d of %d", len(served), len(all))
			}
			for uid := range all {
				if _, got := served[uid]; on && got != s.Has(uid, "default") {
					t.Errorf("%s in %v: the server says %t", uid, s, got)
				}
			}
			for _, set := range sets {
				if n := set.members[index].Store().Len(); n < shardedObjects/4 || n > shardedObjects/2 {
					t.Errorf("%s: shard %d has %d of %d", set.name, index, n, len(all))
				}
			}
		}
		converged(t, client, func() map[string]map[types.UID]string {
			have := map[string]map[types.UID]string{}
			for _, s := range sets {
				have[s.name] = stored(t, s.members...)
			}
			return have
		})

		// Some are changed, some go, some come, one is made anew under its name.
		maps := client.CoreV1().ConfigMaps("default")
		for i := range 30 {
			name := fmt.Sprintf("first-%d", i)
			if i%3 == 0 {
				if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			_, err := maps.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		createConfigMaps(t, client, "second", 20)
		createConfigMaps(t, client, "first", 1)
		converged(t, client, func() map[string]map[types.UID]string {
			have := map[string]map[types.UID]string{}
			for _, s := range sets {
				have[s.name] = stored(t, s.members...)
			}
			return have
		})
		for i, s := range sets {
			want := map[bool]listwatch.Sharding{true: listwatch.ShardingServed, false: listwatch.ShardingIgnored}[on]
			if on && ways[i].initial == reflector.InitialWatchList {
				want = listwatch.ShardingUnknown // a watch does not say it
			}
			for index, lw := range s.servers {
				if got := lw.Sharding(); got != want || (lw.Transfer().Skipped() > 0) == on {
					t.Errorf("%s: sharding of %d is %v, want %v; %d objects were passed over", s.name, index, got, want, lw.Transfer().Skipped())
				}
			}
		}
	})
}

// converged waits until all of what have returns is what the server has.
func converged(t *testing.T, client *kubernetes.Clientset, have func() map[string]map[types.UID]string) {
	t.Helper()
	want := versions(t, client, "")
	deadline := time.Now().Add(convergence)
	for {
		wrong := ""
		for name, found := range have() {
			if diff := cmp.Diff(want, found); diff != "" {
				wrong = name + " (- server, + shards):\n" + diff
			}
		}
		if wrong == "" || t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(wrong)
		}
		<-time.After(20 * time.Millisecond) // the condition is another process's
	}
}

// runs runs a collection until the test ends.
func runs(t *testing.T, c interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
}

// TestShardedReplicas: replicas go from three to two to four and back, while objects come and go;
// at rest each object is in the store of exactly one of them.
func TestShardedReplicas(t *testing.T) {
	onGates(t, func(t *testing.T, tg target, _ bool) {
		client := clientset(t, tg, apiserver.Admin)
		createConfigMaps(t, client, "first", 100)
		var replicas []*sharded.Replica[*corev1.ConfigMap]
		for round, count := range []int{3, 2, 4, 3} {
			var moves sync.WaitGroup
			var synced sync.WaitGroup
			synced.Add(count)
			agreed := func(context.Context) error {
				synced.Done()
				synced.Wait()
				return nil
			}
			for index := range count {
				s := shard.Shard{Index: index, Count: count}
				if index == len(replicas) {
					r, err := sharded.New(sharded.Config[*corev1.ConfigMap]{Shard: s, ListWatch: listwatch.Config{
						REST: tg.RESTConfig(apiserver.Admin), Resource: configMaps, Namespace: "default"}})
					if err != nil {
						t.Fatal(err)
					}
					runs(t, r)
					replicas = append(replicas, r)
				}
				moves.Go(func() {
					if err := replicas[index].Reshard(t.Context(), s, agreed); err != nil {
						t.Errorf("Reshard: %v", err)
						return
					}
				})
			}
			createConfigMaps(t, client, fmt.Sprint("round-", round), 10)
			moves.Wait()
			if t.Failed() {
				return
			}
			replicas = slices.Clip(replicas[:count]) // who is too many goes on, and nobody listens
			converged(t, client, func() map[string]map[types.UID]string {
				var c []reflector.Collection[*corev1.ConfigMap]
				for _, r := range replicas {
					c = append(c, r)
				}
				return map[string]map[types.UID]string{fmt.Sprintf("%d replicas", count): stored(t, c...)}
			})
		}
	})
}
