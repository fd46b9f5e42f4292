package sharded

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// restorable is an API server of which a test says what each shard is told, and when. Watch-lists and lists have one
// pod at most.
type restorable struct {
	mu      sync.Mutex
	rv      string // of lists
	pod     string // what lists have, in JSON, or nothing
	lists   map[string]int
	watches map[string]*io.PipeWriter
	from    map[string]string // where the open watches began
}

// RoundTrip implements http.RoundTripper.
func (s *restorable) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	who := q.Get("shardSelector")
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if q.Get("watch") == "" {
		s.lists[who]++
		answer.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(
			`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, s.rv, s.pod)))
		return answer, nil
	}
	from, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = from.CloseWithError(context.Canceled) })
	s.watches[who], s.from[who] = to, q.Get("resourceVersion")
	answer.Body = from
	if q.Get("sendInitialEvents") == "true" {
		s.lists[who]++
		initial := bookmark(s.rv, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
		if s.pod != "" {
			initial = event("ADDED", s.pod) + initial
		}
		go func() { _, _ = io.WriteString(to, initial) }()
	}
	return answer, nil
}

func event(typ, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", typ, object)
}

func bookmark(rv, more string) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q%s}}`, rv, more))
}

func (s *restorable) set(rv, pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv, s.pod = rv, pod
}

// tell writes to the watch of a shard, and waits until that was dealt with.
func (s *restorable) tell(t *testing.T, to shard.Shard, text string) {
	t.Helper()
	s.mu.Lock()
	w := s.watches[to.Selector().String()]
	s.mu.Unlock()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatalf("%s does not read %s: %v", to, text, err)
	}
	synctest.Wait()
}

// restart ends the watch of a shard, which comes back.
func (s *restorable) restart(t *testing.T, of shard.Shard, from string) {
	t.Helper()
	s.mu.Lock()
	w := s.watches[of.Selector().String()]
	s.mu.Unlock()
	_ = w.Close()
	time.Sleep(5 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.from[of.Selector().String()]; got != from || s.watches[of.Selector().String()] == w {
		t.Fatalf("%s watches from %q, want %q", of, got, from)
	}
}

func (s *restorable) listed(of shard.Shard) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[of.Selector().String()]
}

// resharding is a replica that goes from one shard to another, which have a pod in common.
type resharding struct {
	*restorable
	*Replica[*corev1.Pod]
	from, to shard.Shard
	uid      types.UID

	mu    sync.Mutex
	heard []string
}

func newResharding(t *testing.T, initial reflector.InitialSync) *resharding {
	t.Helper()
	r := &resharding{
		restorable: &restorable{lists: map[string]int{}, watches: map[string]*io.PipeWriter{}, from: map[string]string{}},
		from:       shard.Shard{Index: 0, Count: 2}, to: shard.Shard{Index: 0, Count: 3},
	}
	for i := 0; !r.to.Has(r.uid, ""); i++ { // a third that lies within the half
		r.uid = types.UID(fmt.Sprint("uid-", i))
	}
	r.set("50", r.at(40))
	var err error
	r.Replica, err = New(Config[*corev1.Pod]{
		ListWatch: listwatch.Config{
			REST: &rest.Config{Host: "http://restorable.test", Transport: r.restorable}, Resource: pods, Encoding: listwatch.EncodingJSON,
		},
		Reflector: func(rc *reflector.Config[*corev1.Pod]) { rc.InitialSync, rc.WatchTimeout = initial, time.Hour },
		Shard:     r.from,
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, 100*time.Millisecond, r.Run)
	go func() {
		for ev := range r.Events(t.Context()) {
			if ev.Type == reflector.Synced {
				continue
			}
			r.mu.Lock()
			r.heard = append(r.heard, fmt.Sprintf("%v@%s", ev.Type, ev.ResourceVersion))
			r.mu.Unlock()
		}
	}()
	if err := r.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return r
}

// at is the pod in a version.
func (r *resharding) at(rv int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default","uid":%q,"resourceVersion":"%d"}}`, r.uid, rv)
}

// move re-shards. while is what happens when the new shard is synced, and before the old one is let go.
func (r *resharding) move(t *testing.T, while func()) {
	t.Helper()
	if err := r.Reshard(t.Context(), r.to, func(context.Context) error { synctest.Wait(); while(); return nil }); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// expect compares what the subscriber was told, and how often the new shard was listed.
func (r *resharding) expect(t *testing.T, when, told string, lists int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Join(r.heard, " "); got != told {
		t.Errorf("%s: told %s, want %s", when, got, told)
	}
	if got := r.listed(r.to); got != lists {
		t.Errorf("%s: the new shard was listed %d times, want %d", when, got, lists)
	}
	_, has := r.Store().Get("default", "web")
	if want := !strings.HasPrefix(told[strings.LastIndex(told, " ")+1:], "DELETED"); has != want {
		t.Errorf("%s: the pod is in the store: %t", when, has)
	}
}

// TestRestoredWhileResharding: etcd is restored while a replica re-shards. The old shard was told of what came after the
// backup and leaves before it notices; the new one was not, and has nothing to notice. What the old one told of holds
// no longer than it takes the new one to disprove it.
func TestRestoredWhileResharding(t *testing.T) {
	for _, initial := range []reflector.InitialSync{reflector.InitialList, reflector.InitialWatchList} {
		for _, c := range []struct {
			name string
			run  func(t *testing.T, r *resharding)
		}{
			{"a list looks into a watch that does not come so far", func(t *testing.T, r *resharding) {
				r.move(t, func() {
					r.tell(t, r.from, event("DELETED", r.at(100)))
					r.set("62", r.at(40)) // restored to 60
					r.restart(t, r.to, "50")
				})
				r.expect(t, "when the old shard is gone", "ADDED@40 DELETED@100", 1)
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("62", ""))
				r.expect(t, "a watch may be late", "ADDED@40 DELETED@100", 1)
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("63", ""))
				time.Sleep(10 * time.Second)
				r.expect(t, "after two minutes", "ADDED@40 DELETED@100 ADDED@40", 2)
				if n := r.Status().Members[0].Status; n.LastRestart.Reason != "rv_regressed" ||
					!strings.Contains(n.LastError.Error(), `"63"`) || !strings.Contains(n.LastError.Error(), `"100"`) {
					t.Errorf("status %+v", n)
				}
				r.tell(t, r.to, event("MODIFIED", r.at(64)))
				for range 3 {
					time.Sleep(time.Minute)
					r.tell(t, r.to, bookmark("65", ""))
				}
				r.expect(t, "afterwards", "ADDED@40 DELETED@100 ADDED@40 MODIFIED@64", 2)
			}},
			{"a version that is no more, too", func(t *testing.T, r *resharding) {
				r.move(t, func() {
					r.tell(t, r.from, event("MODIFIED", r.at(100)))
					r.set("62", r.at(40))
					r.restart(t, r.to, "50")
				})
				r.expect(t, "when the old shard is gone", "ADDED@40 MODIFIED@100", 1)
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("62", ""))
				r.expect(t, "a watch may be late", "ADDED@40 MODIFIED@100", 1)
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("62", ""))
				time.Sleep(10 * time.Second)
				r.expect(t, "after two minutes", "ADDED@40 MODIFIED@100 MODIFIED@40", 2)
			}},
			{"a watch that comes so far needs no list", func(t *testing.T, r *resharding) {
				r.move(t, func() {
					r.tell(t, r.from, event("DELETED", r.at(100)))
					r.restart(t, r.to, "50")
				})
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("99", ""))
				r.expect(t, "before the bookmark", "ADDED@40 DELETED@100", 1)
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("100", ""))
				time.Sleep(time.Minute)
				r.expect(t, "after the bookmark", "ADDED@40 DELETED@100 ADDED@40", 1)
			}},
			{"a first list that is older than what was known needs no other", func(t *testing.T, r *resharding) {
				r.tell(t, r.from, event("DELETED", r.at(100)))
				r.set("62", r.at(40))
				r.move(t, func() { r.expect(t, "at once", "ADDED@40 DELETED@100 ADDED@40", 1) })
				r.tell(t, r.to, event("MODIFIED", r.at(63)))
				time.Sleep(2 * time.Minute)
				r.tell(t, r.to, bookmark("64", ""))
				time.Sleep(time.Minute)
				r.expect(t, "in the end", "ADDED@40 DELETED@100 ADDED@40 MODIFIED@63", 1)
			}},
			{"nothing was restored: a watch is late, and no object comes back", func(t *testing.T, r *resharding) {
				r.move(t, func() { r.tell(t, r.from, event("DELETED", r.at(100))) })
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("90", ""))
				time.Sleep(10 * time.Second)
				r.tell(t, r.to, event("DELETED", r.at(100)))
				time.Sleep(time.Minute)
				r.tell(t, r.to, bookmark("100", ""))
				time.Sleep(time.Minute)
				r.expect(t, "in the end", "ADDED@40 DELETED@100", 1)
			}},
			{"nothing was restored: with nothing in question a watch may be as late as it likes", func(t *testing.T, r *resharding) {
				r.move(t, func() { r.tell(t, r.from, bookmark("100", "")) })
				for range 3 {
					time.Sleep(time.Minute)
					r.tell(t, r.to, bookmark("60", ""))
				}
				r.expect(t, "in the end", "ADDED@40", 1)
			}},
			{"nothing was restored: a list that shows a late watch", func(t *testing.T, r *resharding) {
				r.move(t, func() { r.tell(t, r.from, event("DELETED", r.at(100))) })
				r.set("110", "")
				time.Sleep(2 * time.Minute)
				r.tell(t, r.to, bookmark("90", ""))
				time.Sleep(time.Minute)
				r.expect(t, "in the end", "ADDED@40 DELETED@100", 2)
				if n := r.Status().Members[0]; n.Status.Objects != 0 || n.Status.ResourceVersion != "110" {
					t.Errorf("status %+v", n)
				}
			}},
		} {
			t.Run(initial.String()+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.run(t, newResharding(t, initial)) })
			})
		}
	}
}
