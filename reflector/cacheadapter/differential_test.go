package cacheadapter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// TestDifferential lets one server go through random changes, ends of watches,
// cut connections and lost histories, and holds three stores against it and
// against each other: client-go's informer on our ListerWatcher, our
// reflector's own, and client-go's store that our reflector feeds.
func TestDifferential(t *testing.T) {
	for seed := range uint64(10) {
		watchList := seed%2 == 0
		t.Run(fmt.Sprintf("seed=%d,watchlist=%t", seed, watchList), func(t *testing.T) {
			clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, watchList)
			synctest.Test(t, func(t *testing.T) { differential(t, seed, watchList) })
		})
	}
}

func differential(t *testing.T, seed uint64, watchList bool) {
	rng := rand.New(rand.NewPCG(seed, 11))
	srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
	defer srv.Close()
	lw := listerWatcher(t, srv.Server)

	initial := reflector.InitialList
	if watchList {
		initial = reflector.InitialWatchList
	}
	ours, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, InitialSync: initial})
	if err != nil {
		t.Fatal(err)
	}
	informer := cache.NewSharedIndexInformer(NewListerWatcher(lw), &corev1.Pod{}, 0, cache.Indexers{})
	fed := cache.NewStore(cache.MetaNamespaceKeyFunc)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() {
		if err := ours.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		if err := Feed(t.Context(), ours, fed); err != nil {
			t.Errorf("Feed: %v", err)
		}
	})

	for range 120 {
		name := fmt.Sprint("p", rng.IntN(10))
		exists := strings.Contains(srv.has()+" ", name+"=")
		switch n := rng.IntN(20); {
		case n == 0:
			srv.EndWatches()
		case n == 1:
			srv.CloseConnections()
		case n == 2: // changes that nobody sees, and a history without them
			srv.Pause()
			for i := range 3 {
				srv.create(fmt.Sprintf("q%d-%d", srv.ResourceVersion(), i))
			}
			if exists {
				srv.remove(name)
			}
			srv.Compact(srv.ResourceVersion())
			srv.CloseConnections()
			srv.Resume()
		case n == 3:
			srv.SendBookmarks()
		case n < 9 && exists:
			srv.remove(name)
		case exists:
			srv.update(name, fmt.Sprint(rng.IntN(100)))
		default:
			srv.create(name)
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond) // virtual
	}

	var own []*corev1.Pod
	agree := func() bool {
		own = own[:0]
		for _, p := range ours.Store().All() {
			own = append(own, p)
		}
		objects, _ := srv.Snapshot(pods)
		want := versions(objects)
		return versions(own) == want && versions(fed.List()) == want && versions(informer.GetStore().List()) == want
	}
	for range 300 {
		synctest.Wait()
		if agree() {
			return
		}
		time.Sleep(time.Second) // virtual
	}
	objects, _ := srv.Snapshot(pods)
	t.Errorf("after five minutes of quiet\nthe server has   %s\nour store        %s\nthe fed store    %s\nthe informer     %s",
		versions(objects), versions(own), versions(fed.List()), versions(informer.GetStore().List()))
}

// versions is a set of pods as text: name, UID and resourceVersion of each, sorted.
func versions[T any](objects []T) string {
	var all []string
	for _, o := range objects {
		if p, ok := any(o).(*corev1.Pod); ok {
			all = append(all, fmt.Sprintf("%s/%s@%s", p.Name, p.UID, p.ResourceVersion))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
