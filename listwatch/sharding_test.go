package listwatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// gates are both kinds of servers, and what a client learns of each from a list of pods.
var gates = map[Sharding]listwatchtest.Sharding{
	ShardingServed:  listwatchtest.ShardingOn,
	ShardingIgnored: listwatchtest.ShardingOff,
}

// shardedServer serves pods of several namespaces, some of each in any shard.
func shardedServer(t *testing.T, c listwatchtest.Config) (*listwatchtest.Server, map[types.UID]*corev1.Pod) {
	t.Helper()
	srv := listwatchtest.New(c)
	t.Cleanup(srv.Close)
	pods := map[types.UID]*corev1.Pod{}
	for i := range 60 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("%d-team", i%11), Name: fmt.Sprintf("pod-%d", i)}}
		if err := srv.Create(pod); err != nil {
			t.Fatal(err)
		}
		pods[pod.UID] = pod
	}
	return srv, pods
}

// shardOf returns a ListerWatcher of a shard of a server's pods.
func shardOf[T any](t *testing.T, srv *listwatchtest.Server, s shard.Shard, change func(*Config)) *ListerWatcher[T] {
	t.Helper()
	c := Config{REST: srv.RESTConfig(), Resource: pods, Shard: s}
	if change != nil {
		change(&c)
	}
	lw, err := New[T](c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lw.Close)
	return lw
}

// folds reads events up to that of a pod named last, and returns the UIDs by type.
func folds(t *testing.T, stream *streamwatcher.StreamWatcher[*corev1.Pod], last func(*streamwatcher.Event[*corev1.Pod]) bool) map[watch.EventType][]types.UID {
	t.Helper()
	seen := map[watch.EventType][]types.UID{}
	for {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if last(ev) {
			return seen
		}
		seen[ev.Type] = append(seen[ev.Type], types.UID(strings.Clone(string(ev.Object.Meta.UID))))
	}
}

// TestShard: "Only objects of the shard are handed on, whatever the server does."
// Lists, pages, watch-lists and watches, in both encodings.
func TestShard(t *testing.T) {
	for known, gate := range gates {
		for _, encoding := range []EncodingPolicy{EncodingJSON, EncodingProtobuf} {
			for _, by := range []shard.Field{shard.UID, shard.Namespace} {
				t.Run(fmt.Sprintf("%v,encoding=%d,%v", known, encoding, by), func(t *testing.T) {
					srv, all := shardedServer(t, listwatchtest.Config{Sharding: gate, BookmarkInterval: -1})
					owners := map[types.UID]int{}
					for index := range 3 {
						s := shard.Shard{Index: index, Count: 3, By: by}
						lw := shardOf[*corev1.Pod](t, srv, s, func(c *Config) { c.Encoding = encoding })
						var want []types.UID
						for uid, pod := range all {
							if s.Has(uid, pod.Namespace) {
								want = append(want, uid)
								owners[uid]++
							}
						}
						slices.Sort(want)
						if len(want) == 0 || len(want) == len(all) {
							t.Fatalf("the shard has %d of %d", len(want), len(all))
						}
						check := func(what string, uids []types.UID) {
							t.Helper()
							slices.Sort(uids)
							diff(t, what, uids, want)
						}

						for _, limit := range []int64{0, 7} {
							sink := &recorder[*corev1.Pod]{}
							if _, err := Pages(t.Context(), lw, metav1.ListOptions{Limit: limit}, sink); err != nil {
								t.Fatal(err)
							}
							var uids []types.UID
							for _, pod := range sink.items {
								uids = append(uids, pod.UID)
							}
							check(fmt.Sprintf("list by %d", limit), uids)
							if sink.meta[0].RemainingItemCount != nil {
								t.Errorf("remainingItemCount is %d, of what?", *sink.meta[0].RemainingItemCount)
							}
							if lw.Sharding() != known {
								t.Errorf("after a list by %d sharding is %v, want %v", limit, lw.Sharding(), known)
							}
						}
						yes := true
						stream, err := lw.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true,
							ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
						if err != nil {
							t.Fatal(err)
						}
						seen := folds(t, stream, func(ev *streamwatcher.Event[*corev1.Pod]) bool { return ev.Object.Meta.InitialEventsEnd })
						check("watch-list", seen[watch.Added])

						// Each pod is changed; then a bookmark follows on what came.
						for _, pod := range all {
							pod.Labels = map[string]string{"round": fmt.Sprint(index)}
							if err := srv.Update(pod); err != nil {
								t.Fatal(err)
							}
						}
						srv.SendBookmarks()
						seen = folds(t, stream, func(ev *streamwatcher.Event[*corev1.Pod]) bool { return ev.Type == watch.Bookmark })
						check("modified", seen[watch.Modified])
						if len(seen) != 1 {
							t.Errorf("events are %v", seen)
						}
						stream.Stop()
						if skipped := lw.Transfer().Skipped(); (skipped > 0) != (known == ShardingIgnored) {
							t.Errorf("%d were passed over", skipped)
						}
						for _, r := range srv.Requests() {
							if r.Query.Get("shardSelector") == "" {
								t.Errorf("a request without the selector: %v", r)
							}
						}
					}
					for uid, n := range owners {
						if n != 1 || len(owners) != len(all) {
							t.Errorf("%s is in %d shards", uid, n)
						}
					}
				})
			}
		}
	}
}

// What was deleted while the stream was open is told to its own shard only.
func TestShardTellsDeletes(t *testing.T) {
	for known, gate := range gates {
		t.Run(known.String(), func(t *testing.T) {
			srv, all := shardedServer(t, listwatchtest.Config{Sharding: gate, BookmarkInterval: -1})
			s := shard.Shard{Index: 1, Count: 3}
			lw := shardOf[*corev1.Pod](t, srv, s, nil)
			_, rv := srv.Snapshot(pods)
			stream, err := lw.Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(rv), AllowWatchBookmarks: true})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Stop()
			var want []types.UID
			for uid, pod := range all {
				if s.Has(uid, "") {
					want = append(want, uid)
				}
				if err := srv.Delete(pod); err != nil {
					t.Fatal(err)
				}
			}
			srv.SendBookmarks()
			seen := folds(t, stream, func(ev *streamwatcher.Event[*corev1.Pod]) bool { return ev.Type == watch.Bookmark })
			slices.Sort(want)
			slices.Sort(seen[watch.Deleted])
			diff(t, "deleted", seen, map[watch.EventType][]types.UID{watch.Deleted: want})
		})
	}
}

// noted notes what is decoded at all.
type noted struct{ name string }

var notedNames []string

func (c *noted) UnmarshalJSON(raw []byte) error {
	var meta metav1.PartialObjectMetadata
	err := json.Unmarshal(raw, &meta)
	c.name = meta.Name
	notedNames = append(notedNames, meta.Name)
	return err
}

// TestShardIsFilteredHere: what is of another shard is not decoded, and does not
// count as damaged where it is.
func TestShardIsFilteredHere(t *testing.T) {
	s := shard.Shard{Index: 0, Count: 2}
	var mine, other string
	for i := 0; mine == "" || other == ""; i++ {
		if uid := fmt.Sprint("uid-", i); s.Has(types.UID(uid), "") {
			mine = uid
		} else {
			other = uid
		}
	}
	item := func(name, uid, rest string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"5"}%s}`, name, uid, rest)
	}
	large := `,"x":"` + strings.Repeat("x", 2<<20) + `"`
	items := []string{
		item("mine", mine, ""), item("other", other, ""), item("other-large", other, large), item("mine-large", mine, large),
		`{"x":"` + strings.Repeat("x", 2<<20) + `","metadata":{"name":"unknown"}}`, // of it nothing is known
	}
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "true" {
			for _, one := range items {
				fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", one)
			}
			return
		}
		fmt.Fprintf(w, `{"kind":"NotedList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[%s]}`, strings.Join(items, ","))
	})
	var logged bytes.Buffer
	lw := newFor[*noted](t, srv.URL, func(c *Config) {
		c.Shard, c.MaxItemBytes = s, 1<<20
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	want := []string{"mine", "mine-large", ""}

	notedNames = nil
	sink := &recorder[*noted]{}
	if _, err := lw.List(t.Context(), metav1.ListOptions{}, sink); err != nil {
		t.Fatal(err)
	}
	diff(t, "calls of a list", sink.calls, append([]string{"meta"}, want...))
	stream, err := lw.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	var names []string
	for {
		ev, err := stream.Next()
		if err != nil {
			break
		}
		names = append(names, strings.Clone(ev.Object.Meta.Name))
		_, _ = ev.Object.Decode() // the large ones cannot be
	}
	diff(t, "events", names, want)
	diff(t, "decoded", notedNames, []string{"mine", "mine"})
	if n := lw.Transfer().Skipped(); n != 4 {
		t.Errorf("%d were passed over, want 4", n)
	}
	if n := strings.Count(logged.String(), "server ignores shardSelector"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, logged.String())
	}
}

// A server that refuses the parameter is asked without it, for half an hour.
func TestShardRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		code    int
		message string
		refuses bool
	}{
		{"strict", 400, `unknown query parameter "shardSelector"`, true},
		{"unprocessable", 422, "", true},
		{"501", 501, "", true},
		{"other grammar", 500, "invalid shard selector: unsupported function", true},
		{"broken", 500, "etcdserver: no leader", false},
		{"forbidden", 403, "no", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var strict atomic.Bool
				strict.Store(true)
				srv, all := shardedServer(t, listwatchtest.Config{Sharding: listwatchtest.ShardingOn,
					Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
						if !strict.Load() || !r.URL.Query().Has("shardSelector") {
							next.ServeHTTP(w, r)
							return
						}
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(c.code)
						_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
							Status: "Failure", Message: c.message, Code: int32(c.code)})
					}})
				var logged bytes.Buffer
				s := shard.Shard{Index: 1, Count: 3}
				lw := shardOf[*corev1.Pod](t, srv, s, func(lc *Config) {
					lc.Encoding, lc.Logger = EncodingJSON, slog.New(slog.NewTextHandler(&logged, nil))
				})
				items := func() (int, error) {
					sink := &recorder[*corev1.Pod]{}
					_, err := lw.List(t.Context(), metav1.ListOptions{}, sink)
					return len(sink.items), err
				}
				asked := func() (n int) {
					for _, r := range srv.Requests() {
						if r.Query.Has("shardSelector") {
							n++
						}
					}
					return n
				}
				want := 0
				for uid := range all {
					if s.Has(uid, "") {
						want++
					}
				}
				n, err := items()
				if !c.refuses {
					if e := mustFail(t, err, map[int]reason.Reason{500: reason.ServerError, 403: reason.Forbidden}[c.code]); e.Code != c.code {
						t.Errorf("error is %v", err)
					}
					if len(srv.Requests()) != 1 || lw.Sharding() != ShardingUnknown {
						t.Errorf("%d requests, sharding %v", len(srv.Requests()), lw.Sharding())
					}
					return
				}
				if err != nil || n != want || lw.Sharding() != ShardingRefused {
					t.Fatalf("%d items, want %d; error %v, sharding %v", n, want, err, lw.Sharding())
				}
				if n, err = items(); err != nil || n != want || asked() != 1 {
					t.Errorf("%d items, want %d; error %v; the selector was sent %d times, want once", n, want, err, asked())
				}
				if lw.Sharding() != ShardingRefused {
					t.Errorf("sharding is %v", lw.Sharding())
				}
				strict.Store(false)
				time.Sleep(shardRetry)
				if n, err = items(); err != nil || n != want || asked() != 2 || lw.Sharding() != ShardingServed {
					t.Errorf("%d items, want %d; error %v; the selector was sent %d times, want twice; sharding %v", n, want, err, asked(), lw.Sharding())
				}
				if n := strings.Count(logged.String(), "server refuses shardSelector"); n != 1 || strings.Contains(logged.String(), "ignores") {
					t.Errorf("the log is:\n%s", logged.String())
				}
			})
		})
	}
}

// TestShardEchoOfAnotherSelector: "A list that says it is of another selector is
// an error", also one that nobody wanted to be narrowed: what it does not have
// would be taken for gone. One that is written in another way is not another.
func TestShardEchoOfAnotherSelector(t *testing.T) {
	_, body := specimen(t, "list-shard") // of a real server, half of the space
	_, items := specimen(t, "list-json")
	if bytes.Contains(items, []byte("shardInfo")) {
		t.Fatal("list-json is narrowed")
	}
	const theirs = `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`
	if !bytes.Contains(body, []byte(theirs)) {
		t.Fatalf("list-shard is not of %s", theirs)
	}
	half := shard.Shard{Index: 0, Count: 2}
	split := "shardRange(object.metadata.uid, '0x0000000000000000', '0x4000000000000000') || " +
		"shardRange(object.metadata.uid, '0x4000000000000000', '0x8000000000000000')"
	for _, c := range []struct {
		name  string
		shard shard.Shard
		echo  string
		says  string // "" is no error
	}{
		{"the same", half, theirs, ""},
		{"in other words", half, split, ""},
		{"another", shard.Shard{Index: 1, Count: 2}, theirs, `the list is of the shard selector "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')", not of`},
		{"not asked for", shard.Shard{}, theirs, "the list is of the shard selector"},
		{"garbage", half, "half of it", `the list is of the shard selector "half of it"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := bytes.Replace(body, []byte(theirs), []byte(c.echo), 1)
			srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(answer)
			})
			sink, meta, err := list[*corev1.Pod](t, srv.URL, metav1.ListOptions{}, func(lc *Config) { lc.Shard = c.shard })
			if c.says != "" {
				if mustFail(t, err, reason.Decode); !strings.Contains(err.Error(), c.says) || len(sink.calls) > 0 {
					t.Errorf("error is %v; handed on was %v", err, sink.calls)
				}
				return
			}
			if err != nil || len(sink.items) != len(wholeList(t, body).Items) || meta.ShardInfo.Selector != c.echo {
				t.Errorf("%d items, error %v, %+v", len(sink.items), err, meta)
			}
		})
	}
	// The caller's own selector is the caller's own business.
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	if _, _, err := list[*corev1.Pod](t, srv.URL, metav1.ListOptions{ShardSelector: split}, nil); err != nil {
		t.Error(err)
	}
}

// Lists of metadata and of custom resources do not say that they are narrowed.
func TestShardWithoutEcho(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	config := listwatchtest.Config{Sharding: listwatchtest.ShardingOn,
		Resources: []listwatchtest.Resource{{GroupVersionResource: widgets, Kind: "Widget"}}}
	srv, all := shardedServer(t, config)
	for i := range 20 {
		w := &unstructured.Unstructured{}
		w.SetAPIVersion("example.com/v1")
		w.SetKind("Widget")
		w.SetName(fmt.Sprint("widget-", i))
		if err := srv.Create(w); err != nil {
			t.Fatal(err)
		}
	}
	first, second := shard.Shard{Index: 0, Count: 2}, shard.Shard{Index: 1, Count: 2}
	counts := map[string]int{}
	for _, s := range []shard.Shard{first, second} {
		metadata := shardOf[*metav1.PartialObjectMetadata](t, srv, s, nil)
		sink := &recorder[*metav1.PartialObjectMetadata]{}
		if _, err := metadata.List(t.Context(), metav1.ListOptions{}, sink); err != nil {
			t.Fatal(err)
		}
		counts["metadata"] += len(sink.items)
		custom := shardOf[*unstructured.Unstructured](t, srv, s, func(c *Config) { c.Resource = widgets })
		objects := &recorder[*unstructured.Unstructured]{}
		if _, err := custom.List(t.Context(), metav1.ListOptions{}, objects); err != nil {
			t.Fatal(err)
		}
		counts["custom"] += len(objects.items)
		if sink.meta[0].ShardInfo != nil || objects.meta[0].ShardInfo != nil {
			t.Error("the server does say so")
		}
		if metadata.Sharding() != ShardingUnknown || custom.Sharding() != ShardingUnknown ||
			metadata.Transfer().Skipped()+custom.Transfer().Skipped() != 0 {
			t.Errorf("sharding is %v and %v", metadata.Sharding(), custom.Sharding())
		}
	}
	diff(t, "objects of both shards", counts, map[string]int{"metadata": len(all), "custom": 20})
}

func TestShardConfig(t *testing.T) {
	srv, _ := shardedServer(t, listwatchtest.Config{})
	if _, err := New[*corev1.Pod](Config{REST: srv.RESTConfig(), Resource: pods, Shard: shard.Shard{Index: 3, Count: 3}}); err == nil ||
		!strings.Contains(err.Error(), "listwatch.Config: Shard: ") {
		t.Errorf("error is %v", err)
	}
	lw := shardOf[*corev1.Pod](t, srv, shard.Shard{Index: 1, Count: 3}, nil)
	if _, err := lw.Watch(t.Context(), metav1.ListOptions{ShardSelector: "x"}); err == nil ||
		!strings.Contains(mustFail(t, err, reason.Rejected).Error(), "use one of them") {
		t.Errorf("error is %v", err)
	}
	words := map[Sharding]string{ShardingUnknown: "unknown", ShardingServed: "served", ShardingIgnored: "ignored", ShardingRefused: "refused", 9: "Sharding(9)"}
	for _, s := range slices.Sorted(maps.Keys(words)) {
		if s.String() != words[s] {
			t.Errorf("%d is %s", s, s)
		}
	}
}
