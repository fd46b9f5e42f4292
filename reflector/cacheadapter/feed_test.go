package cacheadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// recorder is a cache.ReflectorStore that notes what is called.
type recorder struct {
	calls []string
	fail  error // of every call but Replace
}

func (r *recorder) note(what string, o any) error {
	if lost, ok := o.(cache.DeletedFinalStateUnknown); ok {
		what, o = what+" lost "+lost.Key, lost.Obj
	}
	r.calls = append(r.calls, what+" "+text([]any{o}))
	return r.fail
}

func (r *recorder) Add(o any) error    { return r.note("add", o) }
func (r *recorder) Update(o any) error { return r.note("update", o) }
func (r *recorder) Delete(o any) error { return r.note("delete", o) }
func (r *recorder) Replace(list []any, rv string) error {
	r.calls = append(r.calls, fmt.Sprintf("replace [%s] at %s", text(list), rv))
	return nil
}
func (r *recorder) Resync() error {
	r.calls = append(r.calls, "resync")
	return nil
}

// queue is a recorder with the Bookmark of client-go's queues, view one with
// that of its stores.
type queue struct{ recorder }

func (q *queue) Bookmark(rv string) error {
	q.calls = append(q.calls, "bookmark "+rv)
	return q.fail
}

type view struct{ recorder }

func (v *view) Bookmark(rv string) { v.calls = append(v.calls, "bookmark "+rv) }

// event makes an event of a pod called name whose label is the version.
func event(typ reflector.EventType, name, version string) reflector.Event[*corev1.Pod] {
	ev := reflector.Event[*corev1.Pod]{Type: typ, ResourceVersion: version}
	if typ != reflector.Synced {
		ev.Key, ev.Object = decode.Key{Namespace: "ns", Name: name}, pod(name, version)
	}
	return ev
}

func lost(name, version string) reflector.Event[*corev1.Pod] {
	ev := event(reflector.Deleted, name, version)
	ev.FinalStateUnknown = true
	return ev
}

var (
	firstSnapshot = []reflector.Event[*corev1.Pod]{
		event(reflector.Added, "a", "1"),
		event(reflector.Added, "b", "2"),
		event(reflector.Modified, "a", "3"),
		event(reflector.Added, "c", "4"),
		event(reflector.Deleted, "b", "5"),
		lost("gone", "5"),
		event(reflector.Synced, "", "9"),
	}
	later = []reflector.Event[*corev1.Pod]{
		event(reflector.Added, "d", "10"),
		event(reflector.Modified, "d", "11"),
		event(reflector.Deleted, "a", "12"),
		lost("c", "4"),
		event(reflector.Synced, "", "20"),
	}
)

// pour runs c and feeds stores until end, which waits until all is delivered.
func pour(t *testing.T, c reflector.Collection[*corev1.Pod], stores ...cache.ReflectorStore) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for _, to := range stores {
		wg.Go(func() {
			// With a context of its own it goes on to c's end.
			if err := Feed(t.Context(), c, to); err != nil {
				t.Errorf("Feed to %T: %v", to, err)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// "The first snapshot is one Replace; before it nothing is called. Later each
// change is one Add, Update or Delete."
func TestFeedCalls(t *testing.T) {
	const (
		replace = "replace [a=3 c=4] at 9"
		changes = "add d=10; update d=11; delete a=12; delete lost ns/c c=4"
	)
	plain, q, v := new(recorder), new(queue), new(view)
	for _, tc := range []struct {
		name  string
		store cache.ReflectorStore
		calls *[]string
		want  string
	}{
		{"no Bookmark", plain, &plain.calls, replace + "; " + changes},
		{"the Bookmark of a queue", q, &q.calls, replace + "; " + changes + "; bookmark 20"},
		{"the Bookmark of a store", v, &v.calls, replace + "; " + changes + "; bookmark 20"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := feed[*corev1.Pod]{store: tc.store, first: map[decode.Key]*corev1.Pod{}}
			for i, ev := range slices.Concat(firstSnapshot, later) {
				if err := f.apply(ev); err != nil {
					t.Fatal(err)
				}
				if synced := i >= len(firstSnapshot)-1; synced != (len(*tc.calls) > 0) {
					t.Errorf("after event %d the calls are %q", i, *tc.calls)
				}
			}
			if got := strings.Join(*tc.calls, "; "); got != tc.want {
				t.Errorf("calls\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// "A store whose key function does not know DeletedFinalStateUnknown gets the
// last known object instead."
func TestFeedDeletesFromAnyStore(t *testing.T) {
	for name, keys := range map[string]cache.KeyFunc{
		"knows tombstones": cache.DeletionHandlingMetaNamespaceKeyFunc,
		"does not":         cache.MetaNamespaceKeyFunc,
	} {
		t.Run(name, func(t *testing.T) {
			store := cache.NewStore(keys)
			f := feed[*corev1.Pod]{store: store, first: map[decode.Key]*corev1.Pod{}}
			for _, ev := range slices.Concat(firstSnapshot, later) {
				if err := f.apply(ev); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := text(store.List()), "d=11"; got != want {
				t.Errorf("the store has %q, want %q", got, want)
			}
			if got := store.LastStoreSyncResourceVersion(); got != "20" {
				t.Errorf("the store's resourceVersion is %q, want that of the list, 20", got)
			}
		})
	}
}

// "An error of the store ends it as well and is returned", and says nothing of
// the object's content.
func TestFeedErrors(t *testing.T) {
	full := errors.New("full")
	secret := pod("a", "hunter2")
	for _, tc := range []struct {
		name  string
		store cache.ReflectorStore
		ev    reflector.Event[*corev1.Pod]
		want  string
	}{
		{"the store's own", &recorder{fail: full}, event(reflector.Added, "a", "7"),
			`feeding ADDED ns/a at resourceVersion "7" to a client-go store: full`},
		{"of a delete", &recorder{fail: full}, lost("a", "7"),
			`feeding DELETED ns/a at resourceVersion "7" to a client-go store: full`},
		{"of a bookmark", &queue{recorder{fail: full}}, event(reflector.Synced, "", "7"),
			`feeding SYNCED  at resourceVersion "7" to a client-go store: full`},
		{"no key", cache.NewStore(func(any) (string, error) { return "", full }),
			reflector.Event[*corev1.Pod]{Type: reflector.Added, Key: decode.Key{Name: "a"}, ResourceVersion: "7", Object: secret},
			`feeding ADDED a at resourceVersion "7" to a client-go store: full`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := feed[*corev1.Pod]{store: tc.store}
			err := f.apply(tc.ev)
			if err == nil || err.Error() != tc.want || !errors.Is(err, full) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// TestFeedStory has our reflector keep a client-go store through changes, a cut
// connection and a history that is gone. TestFeedQueues does it with queues.
func TestFeedStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
		defer srv.Close()
		srv.create("a", "b", "c")
		r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: listerWatcher(t, srv.Server)})
		if err != nil {
			t.Fatal(err)
		}
		store, calls := cache.NewStore(cache.MetaNamespaceKeyFunc), new(queue)
		end := pour(t, r, store, calls)
		same := func() {
			t.Helper()
			waitFor(t, func() bool { return text(store.List()) == srv.has() })
		}
		same()
		srv.update("a", "2")
		srv.remove("b")
		srv.create("d")
		same()
		srv.CloseConnections()
		srv.update("c", "2")
		same()

		srv.Pause()
		srv.remove("a")
		srv.update("d", "3")
		srv.Compact(srv.ResourceVersion())
		srv.CloseConnections()
		srv.Resume()
		same()

		end()
		got := strings.Join(calls.calls, "; ")
		for _, want := range []string{
			"replace [a=1 b=1 c=1] at 4; update a=2; delete b=1; add d=1; update c=2; ",
			"update d=3", "delete lost ns/a a=2", fmt.Sprint("; bookmark ", srv.ResourceVersion()),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the calls lack %q: %s", want, got)
			}
		}
		if n := strings.Count(got, "replace"); n != 1 {
			t.Errorf("%d Replace, want 1: %s", n, got)
		}
	})
}

// "Until ctx ends, and returns its cause."
func TestFeedReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
		defer srv.Close()
		r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: listerWatcher(t, srv.Server)})
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		calls := new(recorder)
		if err := Feed(ctx, r, calls); !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, why)
		}
		if len(calls.calls) > 0 {
			t.Errorf("a reflector that never ran led to %q", calls.calls)
		}
	})
}

var (
	_ cache.ReflectorBookmarkStore = (*queue)(nil)
	_ cache.ReflectorStore         = (*view)(nil)
)
