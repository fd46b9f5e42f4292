package cacheadapter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// TestInformer runs client-go's shared informer on our ListerWatcher, with and
// without watch-list, through changes, the end of a watch and a history that is gone.
func TestInformer(t *testing.T) {
	for name, watchList := range map[string]bool{"watchlist": true, "list": false} {
		t.Run(name, func(t *testing.T) {
			clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, watchList)
			synctest.Test(t, func(t *testing.T) { informerStory(t, watchList) })
		})
	}
}

func informerStory(t *testing.T, watchList bool) {
	srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
	defer srv.Close()
	srv.create("a", "b", "c")

	informer := cache.NewSharedIndexInformer(NewListerWatcher(listerWatcher(t, srv.Server)), &corev1.Pod{}, 0, cache.Indexers{})
	var mu sync.Mutex
	var events []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprintf(format, args...))
	}
	take := func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got := strings.Join(events, "; ")
		events = nil
		return got
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note("add %s", text([]any{o})) },
		UpdateFunc: func(old, o any) { note("update %s to %s", text([]any{old}), text([]any{o})) },
		DeleteFunc: func(o any) {
			if lost, ok := o.(cache.DeletedFinalStateUnknown); ok {
				note("lost %s: %s", lost.Key, text([]any{lost.Obj}))
				return
			}
			note("delete %s", text([]any{o}))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { informer.RunWithContext(ctx) })
	defer wg.Wait()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	same := func(when string) {
		t.Helper()
		synctest.Wait()
		if got, want := text(informer.GetStore().List()), srv.has(); got != want {
			t.Errorf("%s the informer has %q, the server %q", when, got, want)
		}
	}
	same("at first")
	if n := strings.Count(take(), "add "); n != 3 {
		t.Errorf("%d adds for the first list, want 3", n)
	}
	first := "list watch"
	if watchList {
		first = "watchlist"
	}
	if got := srv.asked(); got != first {
		t.Errorf("requests %q, want %q", got, first)
	}

	srv.update("a", "2")
	srv.remove("b")
	srv.create("d")
	if got, want := take(), "update a=1 to a=2; delete b=1; add d=1"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	same("after changes")

	// client-go watches on from the last resourceVersion after a clean end.
	srv.EndWatches()
	srv.update("c", "2")
	for range 3 {
		synctest.Wait()
		srv.SendBookmarks()
	}
	waitFor(t, func() bool { return srv.asked() == first+" watch" })
	same("after the end of a watch")
	take()

	// The history is gone: only a list helps, and client-go must understand that.
	srv.Pause()
	srv.remove("a")
	srv.update("d", "3")
	srv.create("e")
	srv.Compact(srv.ResourceVersion())
	srv.CloseConnections()
	srv.Resume()
	waitFor(t, func() bool { return text(informer.GetStore().List()) == srv.has() })
	same("after a relist")
	if got := take(); !strings.Contains(got, "lost ns/a: a=2") || !strings.Contains(got, "add e=1") || !strings.Contains(got, "update d=1 to d=3") {
		t.Errorf("events of the relist: %q", got)
	}
	again := strings.TrimPrefix(srv.asked(), first+" watch ")
	if want := "watch " + first; again != want {
		t.Errorf("requests for the relist %q, want a watch that is refused and then %q", again, want)
	}
}

// waitFor lets virtual time pass until done holds.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 600 {
		synctest.Wait()
		if done() {
			return
		}
		time.Sleep(time.Second) // virtual
	}
	t.Fatal("it did not come to that in ten minutes of virtual time")
}

// TestPages: client-go's pager follows our continue tokens.
func TestPages(t *testing.T) {
	srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
	defer srv.Close()
	srv.create("a", "b", "c", "d", "e")
	lw := NewListerWatcher(listerWatcher(t, srv.Server))
	p := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return lw.ListWithContext(t.Context(), opts)
	}))
	p.PageSize = 2
	list, paged, err := p.ListWithAlloc(t.Context(), metav1.ListOptions{})
	if err != nil || !paged {
		t.Fatalf("paged %t, error %v", paged, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil || text(items) != srv.has() {
		t.Errorf("items %q, %v; the server has %q", text(items), err, srv.has())
	}
	m, err := meta.ListAccessor(list)
	if err != nil || m.GetResourceVersion() != fmt.Sprint(srv.ResourceVersion()) {
		t.Errorf("list metadata %v, %v; want the resourceVersion %d", m, err, srv.ResourceVersion())
	}
	if got, want := srv.asked(), "list list list"; got != want {
		t.Errorf("requests %q for 5 pods at 2 a page, want %q", got, want)
	}
}

func TestListAndWatchWithoutContext(t *testing.T) {
	srv := cluster{t, listwatchtest.New(listwatchtest.Config{})}
	defer srv.Close()
	srv.create("a")
	lw := NewListerWatcher(listerWatcher(t, srv.Server))
	list, err := lw.List(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := lw.Watch(metav1.ListOptions{ResourceVersion: list.(*List[*corev1.Pod]).ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	srv.create("b")
	if ev := <-w.ResultChan(); ev.Type != watch.Added || text([]any{ev.Object}) != "b=1" {
		t.Errorf("event %v %s", ev.Type, text([]any{ev.Object}))
	}
	w.Stop()
	for range w.ResultChan() { // is closed
	}
}

// What client-go has to tell apart, it tells apart.
func TestErrorsAreRecognized(t *testing.T) {
	srv := cluster{t, listwatchtest.New(listwatchtest.Config{FreshWait: -1})}
	defer srv.Close()
	srv.create("a", "b")
	srv.Compact(srv.ResourceVersion())
	lw := NewListerWatcher(listerWatcher(t, srv.Server))

	// It is told in the stream.
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	ev := <-w.ResultChan()
	if err := apierrors.FromObject(ev.Object); ev.Type != watch.Error || !(apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		t.Errorf("a watch from before the history: %s %v, want it to be known as expired", ev.Type, err)
	}
	w.Stop()
	_, err = lw.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "999999"})
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("a list from the future: %v, want it to be known as too large", err)
	}
	if _, ok := err.(apierrors.APIStatus); !ok { // client-go asserts, it does not unwrap
		t.Errorf("%T is not an APIStatus", err)
	}
	srv.Server.Close()
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a list from a server that is gone succeeded")
	}
}

// broken is a ListerWatcher whose list has an item that does not decode.
type broken struct{ err error }

func (b broken) List(_ context.Context, _ metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	o := decode.Undecodable[*corev1.Pod](decode.Meta{Namespace: "ns", Name: "bad", ResourceVersion: "7"}, b.err)
	return metav1.ListMeta{}, sink.Item(&o)
}

func (b broken) Watch(context.Context, metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	return nil, b.err
}

// "An item that does not decode fails the list, with an error that names it."
func TestUndecodableItemFailsTheList(t *testing.T) {
	why := errors.New("restartPolicy is a number")
	lw := NewListerWatcher(broken{why})
	list, err := lw.List(metav1.ListOptions{})
	if want := `list item ns/bad at resourceVersion "7": restartPolicy is a number`; err == nil || err.Error() != want || !errors.Is(err, why) {
		t.Errorf("error %v, want %s", err, want)
	}
	if list != nil {
		t.Errorf("a list came with the error: %v", list)
	}
	if w, err := lw.Watch(metav1.ListOptions{}); w != nil || !errors.Is(err, why) {
		t.Errorf("Watch: %v, %v; want no watch and the error as it is", w, err)
	}
}

// TestListIsAList: apimachinery's helpers take our list for one.
func TestListIsAList(t *testing.T) {
	remaining := int64(3)
	l := &List[*corev1.Pod]{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "token", RemainingItemCount: &remaining},
		Items:    []*corev1.Pod{pod("a", "1"), pod("b", "2")},
	}
	if !meta.IsListType(l) || meta.LenList(l) != 2 {
		t.Errorf("IsListType %t, LenList %d", meta.IsListType(l), meta.LenList(l))
	}
	for name, extract := range map[string]func(runtime.Object) ([]runtime.Object, error){
		"ExtractList": meta.ExtractList, "ExtractListWithAlloc": meta.ExtractListWithAlloc,
	} {
		items, err := extract(l)
		if err != nil || len(items) != 2 || items[1] != runtime.Object(l.Items[1]) {
			t.Errorf("%s: %v, %v; want the very items", name, items, err)
		}
	}
	var each []runtime.Object
	if err := meta.EachListItem(l, func(o runtime.Object) error { each = append(each, o); return nil }); err != nil || text(each) != "a=1 b=2" {
		t.Errorf("EachListItem: %s, %v", text(each), err)
	}
	m, err := meta.ListAccessor(l)
	if err != nil || m.GetResourceVersion() != "7" || m.GetContinue() != "token" || *m.GetRemainingItemCount() != 3 {
		t.Errorf("ListAccessor: %v, %v", m, err)
	}
	c := l.DeepCopyObject().(*List[*corev1.Pod])
	if diff := cmp.Diff(l, c); diff != "" {
		t.Errorf("a copy differs:\n%s", diff)
	}
	c.Items[0].Labels["v"] = "9"
	*c.RemainingItemCount = 9
	if text(l.Items) != "a=1 b=2" || remaining != 3 {
		t.Errorf("a change of the copy changed the list: %s, %d", text(l.Items), remaining)
	}
	if c := (&List[*corev1.Pod]{}).DeepCopyObject().(*List[*corev1.Pod]); c.Items != nil {
		t.Errorf("a copy of no items is %v", c.Items)
	}
}
