package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// serve returns a server with some pods and what counts its open connections.
func serve(t *testing.T, pods int) (*listwatchtest.Server, *rest.Config, *atomic.Int64) {
	t.Helper()
	srv := listwatchtest.New(listwatchtest.Config{})
	t.Cleanup(srv.Close)
	for i := range pods {
		err := srv.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": []string{"web", "db", "cron"}[i%3]}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%2)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	conns := new(testkit.Conns)
	config := srv.RESTConfig()
	config.Dial = conns.Counted(config.Dial)
	return srv, config, &conns.Open
}

func newPool(t *testing.T, c Config[*corev1.Pod]) *Pool[*corev1.Pod] {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func acquire(t *testing.T, p *Pool[*corev1.Pod], s Scope) *Lease[*corev1.Pod] {
	t.Helper()
	s.Resource = pods
	l, err := p.Acquire(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// watches counts the requests that open a watch, by selectors.
func watches(srv *listwatchtest.Server) map[string]int {
	n := map[string]int{}
	for _, r := range srv.Requests() {
		if r.Verb == "watch" {
			n[r.Query.Get("labelSelector")+" "+r.Query.Get("fieldSelector")]++
		}
	}
	return n
}

// TestOneWatchForEachCollection is H6: 500 subscribers with three distinct
// selectors are three watches. Each writes its selector in another way, and each
// gets all of its collection and what comes then.
func TestOneWatchForEachCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, _ := serve(t, 30)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		ways := [][]Scope{
			{{LabelSelector: labelled(t, "app=web")}, {LabelSelector: labelled(t, "app in (web)")}, {LabelSelector: labelled(t, "app==web,app=web")}},
			{{FieldSelector: fielded(t, "spec.nodeName=node-1,status.phase!=Failed")}, {FieldSelector: fielded(t, "status.phase!=Failed,spec.nodeName==node-1")}},
			{{LabelSelector: labelled(t, "app in (db,cron)")}, {LabelSelector: labelled(t, "app in (cron,db,cron)")}},
		}
		want := []int{10, 15, 20}
		var wait sync.WaitGroup
		var changed [3]atomic.Int64
		begin := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 500 {
			kind := i % 3
			scope := ways[kind][i/3%len(ways[kind])]
			wait.Go(func() {
				<-begin
				scope.Resource = pods
				l, err := p.Acquire(ctx, scope)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				defer l.Close()
				added := 0
				for ev := range l.Events(ctx) {
					switch ev.Type {
					case reflector.Added:
						added++
					case reflector.Synced:
						if added != want[kind] {
							t.Errorf("%s: %d pods, want %d", scope, added, want[kind])
						}
					case reflector.Modified:
						changed[kind].Add(1)
					}
				}
			})
		}
		close(begin)
		synctest.Wait()
		if got := watches(srv); len(got) != 3 || got["app=web "] != 1 || got["app in (cron,db) "] != 1 || got[" spec.nodeName=node-1,status.phase!=Failed"] != 1 {
			t.Errorf("watches by selector: %v", got)
		}
		if p.Len() != 3 {
			t.Errorf("%d reflectors", p.Len())
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-3"}} // web on node-1
		if err := srv.Get(pod); err != nil {
			t.Fatal(err)
		}
		pod.Annotations = map[string]string{"a": "b"}
		if err := srv.Update(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a, b, c := changed[0].Load(), changed[1].Load(), changed[2].Load(); a != 167 || b != 167 || c != 0 {
			t.Errorf("the change came to %d, %d and %d subscribers", a, b, c)
		}
		cancel()
		wait.Wait()
		synctest.Wait()
		if p.Len() != 0 {
			t.Errorf("%d reflectors run for nobody", p.Len())
		}
		if got := watches(srv); len(got) != 3 {
			t.Errorf("watches by selector: %v", got)
		}
	})
}

// Shards of a collection are collections. The server ignores the selector here, so each gets all and drops what is not
// its own, which the reflector counts.
func TestShardsAreCollections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 30)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		total := 0
		for i := range 3 {
			l := acquire(t, p, Scope{Shard: shard.Shard{Index: i, Count: 3}})
			defer l.Close()
			if err := l.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			have := l.Store().Len()
			if dropped := l.Stats().Ignored["filtered"]; have == 0 || have+int(dropped) != 30 {
				t.Errorf("shard %d has %d of 30 pods, and dropped %d", i, have, dropped)
			}
			total += have
		}
		if total != 30 || p.Len() != 3 {
			t.Errorf("%d pods in %d collections", total, p.Len())
		}
	})
}

// TestLinger: a reflector outlives its last lease by Linger, and who comes back finds it.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, config, open := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config, Linger: 10 * time.Second})
		for range 5 {
			l := acquire(t, p, Scope{})
			if err := l.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.Close()
			time.Sleep(9 * time.Second)
		}
		if n := len(watches(srv)); n != 1 || p.Len() != 1 {
			t.Errorf("%v, %d reflectors", watches(srv), p.Len())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if p.Len() != 0 || open.Load() != 0 {
			t.Errorf("%d reflectors and %d connections after Linger", p.Len(), open.Load())
		}
		for _, n := range watches(srv) {
			if n != 1 {
				t.Errorf("%d watches", n)
			}
		}
		// A Pool that is closed does not wait.
		acquire(t, p, Scope{}).Close()
		p.Close()
		if p.Len() != 0 {
			t.Errorf("%d reflectors after Close", p.Len())
		}
	})
}

// TestPoolCloses: Close ends what others hold.
func TestPoolCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, open := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		l := acquire(t, p, Scope{})
		if err := l.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		handled := make(chan error, 1)
		go func() { handled <- l.Handle(t.Context(), reflector.Handler[*corev1.Pod]{}) }()
		p.Close()
		p.Close()
		if err := <-handled; err != nil {
			t.Errorf("Handle: %v", err)
		}
		if l.Status().State != reflector.StateStopped || l.Store().Len() != 3 {
			t.Errorf("%s, %d pods", l.Status().State, l.Store().Len())
		}
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections", open.Load())
		}
		l.Close()
		if _, err := p.Acquire(t.Context(), Scope{Resource: pods}); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire: %v", err)
		}
	})
}
