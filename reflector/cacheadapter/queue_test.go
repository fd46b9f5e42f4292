package cacheadapter

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// "client-go's Store, DeltaFIFO and RealFIFO are such stores": what comes out of
// each queue of client-go makes the store behind it equal the server, after
// changes and after a relist that finds deletes.
func TestFeedQueues(t *testing.T) {
	for name, queueOf := range map[string]func(known cache.Store) cache.Queue{
		"DeltaFIFO": func(known cache.Store) cache.Queue {
			return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KnownObjects: known, EmitDeltaTypeReplaced: true})
		},
		"RealFIFO": func(known cache.Store) cache.Queue {
			return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KnownObjects: known})
		},
		"RealFIFO, atomic, with bookmarks": func(cache.Store) cache.Queue {
			return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { queueStory(t, queueOf) })
		})
	}
}

func queueStory(t *testing.T, queueOf func(cache.Store) cache.Queue) {
	srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
	defer srv.Close()
	srv.create("a", "b", "c")
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: listerWatcher(t, srv.Server)})
	if err != nil {
		t.Fatal(err)
	}
	behind := cache.NewStore(cache.MetaNamespaceKeyFunc)
	q := queueOf(behind)
	end := pour(t, r, q)
	var popping sync.WaitGroup
	popping.Go(func() {
		for {
			if _, err := q.Pop(func(o any, _ bool) error { return consume(behind, o) }); err != nil {
				if !errors.Is(err, cache.ErrFIFOClosed) {
					t.Errorf("Pop: %v", err)
				}
				return
			}
		}
	})
	same := func(when string) {
		t.Helper()
		waitFor(t, func() bool { return text(behind.List()) == srv.has() })
		if !q.HasSynced() {
			t.Errorf("%s: the queue has not synced", when)
		}
	}
	same("at first")
	srv.update("a", "2")
	srv.remove("b")
	srv.create("d")
	same("after changes")
	srv.Pause()
	srv.remove("a")
	srv.update("d", "3")
	srv.Compact(srv.ResourceVersion())
	srv.CloseConnections()
	srv.Resume()
	same("after a relist")

	end()
	synctest.Wait()
	q.Close()
	popping.Wait()
}

// consume does with what a queue hands out what an informer does.
func consume(store cache.Store, o any) error {
	deltas, ok := o.(cache.Deltas)
	if !ok {
		deltas = cache.Deltas{o.(cache.Delta)}
	}
	for _, d := range deltas {
		var err error
		switch d.Type {
		case cache.ReplacedAll:
			info := d.Object.(cache.ReplacedAllInfo)
			err = store.Replace(info.Objects, info.ResourceVersion)
		case cache.Bookmark:
			store.Bookmark(d.Object.(cache.BookmarkInfo).ResourceVersion)
		case cache.Added, cache.Updated, cache.Replaced:
			err = store.Update(d.Object)
		case cache.Deleted:
			gone := d.Object
			if lost, ok := gone.(cache.DeletedFinalStateUnknown); ok {
				gone = lost.Obj
			}
			err = store.Delete(gone)
		default:
			err = fmt.Errorf("nobody asked for a delta %s", d.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// "What c, a Reflector or a Union, sees": the first snapshot of a union is one Replace, too, and what
// goes with a member is deleted.
func TestFeedUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
		defer srv.Close()
		srv.create("a", "b")
		if err := srv.Create(labelled("other", "c", map[string]string{"v": "1"})); err != nil {
			t.Fatal(err)
		}
		union, err := reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{
			Member: func(namespace string) (*reflector.Reflector[*corev1.Pod], error) {
				lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: pods, Namespace: namespace})
				if err != nil {
					return nil, err
				}
				return reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close})
			},
		}, "ns", "other")
		if err != nil {
			t.Fatal(err)
		}
		calls, store := new(recorder), cache.NewStore(cache.MetaNamespaceKeyFunc)
		end := pour(t, union, calls, store)
		waitFor(t, func() bool { return text(store.List()) == "a=1 b=1 c=1" })
		srv.update("b", "2")
		waitFor(t, func() bool { return text(store.List()) == "a=1 b=2 c=1" })
		if err := union.Set("ns"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return text(store.List()) == "a=1 b=2" })
		end()
		got := strings.Join(calls.calls, "; ")
		if !strings.HasPrefix(got, "replace [a=1 b=1 c=1] at ") || !strings.HasSuffix(got, "update b=2; delete lost other/c c=1") {
			t.Errorf("the calls are %s", got)
		}
	})
}
