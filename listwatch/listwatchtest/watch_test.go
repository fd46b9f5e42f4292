package listwatchtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rv formats a version as a query parameter.
func rv(n uint64) string { return strconv.FormatUint(n, 10) }

func TestWatchStarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, params string
		want         []string
	}{
		{"no version is the state, then what comes", "", []string{"ADDED p-0 rv=2", "ADDED p-2 rv=4"}},
		{"version 0 is the same", "resourceVersion=0", []string{"ADDED p-0 rv=2", "ADDED p-2 rv=4"}},
		{"a version is what came after it", "resourceVersion=3", []string{"ADDED p-2 rv=4", "DELETED p-1 rv=5"}},
		{"the newest version is nothing", "resourceVersion=9", nil},
		{"the future is nothing", "resourceVersion=99", nil},
		{"before the window is an event", "resourceVersion=2", []string{"ERROR 410 too old resource version: 2 (3)"}},
		{"initial events end with a bookmark", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			[]string{"ADDED p-0 rv=2", "ADDED p-2 rv=4", "BOOKMARK rv=9 end"}},
		{"an old-fashioned watch that allows them ends with one too, of a version that needs no look", "resourceVersion=0&allowWatchBookmarks=true",
			[]string{"ADDED p-0 rv=2", "ADDED p-2 rv=4", "BOOKMARK rv=5 end"}},
		{"a look is needed for a later version", "resourceVersion=6&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			[]string{"ADDED p-0 rv=2", "ADDED p-2 rv=4", "BOOKMARK rv=9 end"}},
		{"without bookmarks there is no end mark", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", []string{"ADDED p-0 rv=2", "ADDED p-2 rv=4"}},
		{"a watch-list does not take an old version for exact", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=2",
			[]string{"ADDED p-0 rv=2", "ADDED p-2 rv=4", "BOOKMARK rv=5 end"}},
		{"a watch-list in the future is an event", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=99",
			[]string{"ERROR 504 Timeout: Too large resource version: 99, current: 9"}},
		{"no initial events", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", nil},
		{"one object", "fieldSelector=metadata.name%3Dp-2", []string{"ADDED p-2 rv=4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{FreshWait: -1})
				f.createPods(3)                           // versions 2 to 4
				must(t, f.srv.Delete(testPod("p-1", ""))) // 5
				f.reach(9)
				f.srv.Compact(3)
				w := &watchStream{t: t, resp: f.open(t.Context(), http.MethodGet, podsPath+"?watch=1&timeoutSeconds=1&"+c.params, "")}
				w.dec = json.NewDecoder(w.resp.Body)
				w.expect(append(c.want, "end")...)
			})
		})
	}
}

func TestWatchRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	const invalid = `ListOptions.meta.k8s.io "" is invalid: `
	for _, c := range []struct {
		params string
		code   int
		want   string
	}{
		{"sendInitialEvents=true", 422, invalid + "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
		{"resourceVersionMatch=NotOlderThan&resourceVersion=1", 422, invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
		{"sendInitialEvents=true&resourceVersionMatch=Exact", 422, invalid + "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, " +
			`resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]`},
		{"fieldSelector=spec.bogus%3D1", 400, "field label not supported: spec.bogus"},
		{"timeoutSeconds=soon", 400, ""},
	} {
		got := f.get(podsPath + "?watch=true&" + c.params)
		if got.code != c.code || (c.want != "" && got.status(t).Message != c.want) {
			t.Errorf("%s: %d %s\nwant %d %s", c.params, got.code, got.body, c.code, c.want)
		}
	}
}

// TestSelectionOnAWatch: an object that enters the selection is ADDED, one that
// leaves is DELETED with its old content and the new resourceVersion.
func TestSelectionOnAWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch("resourceVersion", "1", "fieldSelector", "spec.nodeName=node-a", "labelSelector", "app!=no")
		pod := testPod("p", "")
		must(t, f.srv.Create(pod)) // 2: on no node
		pod.Spec.NodeName = "node-a"
		must(t, f.srv.Update(pod)) // 3: enters
		pod.Annotations = map[string]string{"a": "b"}
		must(t, f.srv.Update(pod)) // 4: changes inside
		pod.Labels = map[string]string{"app": "no"}
		must(t, f.srv.Update(pod)) // 5: leaves
		must(t, f.srv.Delete(pod)) // 6: outside
		must(t, f.srv.Create(testPod("q", "node-b")))
		must(t, f.srv.Create(testPod("r", "node-a"))) // 8
		w.expect("ADDED p rv=3", "MODIFIED p rv=4")
		var ev struct {
			Type   string
			Object corev1.Pod
		}
		must(t, w.dec.Decode(&ev))
		if ev.Type != "DELETED" || ev.Object.ResourceVersion != "5" || ev.Object.Labels["app"] == "no" || ev.Object.Annotations["a"] != "b" {
			t.Errorf("leaving the selection is %s with version %s and labels %v, want DELETED with the old content at version 5",
				ev.Type, ev.Object.ResourceVersion, ev.Object.Labels)
		}
		w.expect("ADDED r rv=8")
	})
}

func TestDeletedCarriesTheVersionOfTheDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(1)
		w := f.watch("resourceVersion", "2")
		pod := testPod("p-0", "")
		must(t, f.srv.Delete(pod))
		w.expect("DELETED p-0 rv=3")
		if pod.ResourceVersion != "3" || pod.Spec.NodeName != "node-a" {
			t.Errorf("Delete sets its argument to version %s on node %q, want the last state at version 3", pod.ResourceVersion, pod.Spec.NodeName)
		}
		if left, at := f.srv.Snapshot(podsGVR); len(left) != 0 || at != 3 {
			t.Errorf("%d pods left at version %d", len(left), at)
		}
	})
}

// TestBookmarkTimes: one a minute, and one 2 s before the timeout.
func TestBookmarkTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(1)
		start := time.Now()
		w := f.watch("resourceVersion", "2", "allowWatchBookmarks", "true", "timeoutSeconds", "150")
		quiet := f.watch("resourceVersion", "2", "timeoutSeconds", "150")
		go func() {
			time.Sleep(90 * time.Second)
			f.srv.AdvanceResourceVersion(5)
		}()
		for _, want := range []string{"1m0s BOOKMARK rv=2", "2m0s BOOKMARK rv=7", "2m28s BOOKMARK rv=7", "2m30s end"} {
			event := w.next()
			if got := time.Since(start).String() + " " + event; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		quiet.expect("end")
	})
}

func TestBookmarksOnRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{BookmarkInterval: -1})
		w := f.watch("resourceVersion", "1", "allowWatchBookmarks", "true", "timeoutSeconds", "600")
		future := f.watch("resourceVersion", "50", "allowWatchBookmarks", "true", "timeoutSeconds", "10")
		synctest.Wait()
		must(t, f.srv.Create(testPod("p", "node-a")))
		f.srv.SendBookmarks()
		w.expect("ADDED p rv=2", "BOOKMARK rv=2")
		future.expect("end") // a bookmark would take it back in time
	})
}

// TestEventsAreFlushedOneByOne: each comes at once, in a chunk of its own.
func TestEventsAreFlushedOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch("resourceVersion", "1")
		body := bufio.NewReader(w.resp.Body)
		for i, at := range f.createPods(3) {
			line, err := body.ReadString('\n')
			if err != nil || !strings.Contains(line, `"name":"p-`+strconv.Itoa(i)) || !strings.Contains(line, `"resourceVersion":"`+rv(at)+`"`) {
				t.Fatalf("event %d: %v %s", i, err, line)
			}
		}
	})
}

// TestGzipMembersOfAWatchList: initial events are one member, and each event
// after them one of its own that is complete when it comes.
func TestGzipMembersOfAWatchList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(2)
		resp := f.open(t.Context(), http.MethodGet, query(podsPath, "watch", "true", "sendInitialEvents", "true",
			"resourceVersionMatch", "NotOlderThan", "allowWatchBookmarks", "true"), "", "Accept-Encoding: deflate, gzip")
		defer resp.Body.Close()
		source := bufio.NewReader(resp.Body)
		zip, err := gzip.NewReader(source)
		must(t, err)
		member := func() string {
			var text bytes.Buffer
			zip.Multistream(false)
			_, err := text.ReadFrom(zip)
			must(t, err)
			return text.String()
		}
		if text := member(); strings.Count(text, "\n") != 3 || !strings.Contains(text, metav1.InitialEventsAnnotationKey) {
			t.Errorf("the first member is not the initial events: %s", text)
		}
		for _, name := range []string{"x", "y"} {
			must(t, f.srv.Create(testPod(name, "node-a")))
			must(t, zip.Reset(source))
			if text := member(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"name":"`+name+`"`) {
				t.Errorf("the member of %s holds %s", name, text)
			}
		}
	})
}

// TestCompressedEventsAreNotHeldBack: a reader that looks for the next member,
// as net/http's own, has each event before there is one.
func TestCompressedEventsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.client.Transport.(*http.Transport).DisableCompression = false
		start := time.Now()
		w := f.watch("sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan", "allowWatchBookmarks", "true", "timeoutSeconds", "30")
		if !w.resp.Uncompressed {
			t.Fatal("the watch-list is not compressed")
		}
		w.expect("BOOKMARK rv=1 end")
		must(t, f.srv.Create(testPod("p", "node-a")))
		w.expect("ADDED p rv=2")
		if held := time.Since(start); held != 0 {
			t.Errorf("the events were held back for %s", held)
		}
	})
}

// TestSlowWatchIsClosed: a watch that is too far behind ends, after what was queued.
func TestSlowWatchIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{WatchQueue: 10})
		w := f.watch("resourceVersion", "1")
		f.createPods(1)
		synctest.Wait() // the server is blocked in writing it
		for i := range 100 {
			must(t, f.srv.Create(testPod("q-"+strconv.Itoa(i), "node-a")))
		}
		got := 0
		for w.next() != "end" {
			got++
		}
		if got < 10 || got > 20 {
			t.Errorf("%d events came before the end, want those that were queued", got)
		}
		c := f.srv.writer.collection(podsGVR)
		synctest.Wait()
		f.srv.writer.mu.Lock()
		defer f.srv.writer.mu.Unlock()
		if len(c.watchers) != 0 {
			t.Errorf("%d watchers are left", len(c.watchers))
		}
	})
}

func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture, context.CancelFunc){
		"EndWatches":       func(f *fixture, _ context.CancelFunc) { f.srv.EndWatches() },
		"CloseConnections": func(f *fixture, _ context.CancelFunc) { f.srv.CloseConnections() },
		"Close":            func(f *fixture, _ context.CancelFunc) { f.srv.Close() },
		"client":           func(_ *fixture, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp := f.open(ctx, http.MethodGet, query(podsPath, "watch", "true"), "")
				defer resp.Body.Close()
				start := time.Now()
				end(f, cancel)
				_, err := bufio.NewReader(resp.Body).ReadByte()
				if clean := err.Error() == "EOF"; clean != (name == "EndWatches") {
					t.Errorf("the stream ends with %v", err)
				}
				synctest.Wait()
				f.srv.writer.mu.Lock()
				defer f.srv.writer.mu.Unlock()
				if n := len(f.srv.writer.collections[podsGVR].watchers); n != 0 || time.Since(start) != 0 {
					t.Errorf("%d watchers are left after %s", n, time.Since(start))
				}
			})
		})
	}
}

// TestCompactionLeavesWatchesAlone: only new watches from before it are refused.
func TestCompactionLeavesWatchesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch("resourceVersion", "1")
		rvs := f.createPods(2)
		f.srv.Compact(rvs[1])
		w.expect("ADDED p-0 rv=2", "ADDED p-1 rv=3")
		f.watch("resourceVersion", "2").expect("ERROR 410 too old resource version: 2 (3)", "end")
		f.watch("resourceVersion", "3", "timeoutSeconds", "1").expect("end")
	})
}

func TestNamespacedWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		resp := f.open(t.Context(), http.MethodGet, "/api/v1/namespaces/zoo/pods?watch=true&timeoutSeconds=5&resourceVersion=1", "")
		defer resp.Body.Close()
		f.createPods(1)
		pod := testPod("tiger", "node-a")
		pod.Namespace = "zoo"
		must(t, f.srv.Create(pod))
		w := &watchStream{t: t, resp: resp, dec: json.NewDecoder(resp.Body)}
		w.expect(fmt.Sprintf("ADDED tiger rv=%d", f.srv.ResourceVersion()), "end")
	})
}

func TestTableWatchHasColumnsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(2)
		resp := f.open(t.Context(), http.MethodGet, query(podsPath, "watch", "true", "includeObject", "Object"), "",
			"Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		defer resp.Body.Close()
		dec := json.NewDecoder(resp.Body)
		for i := range 2 {
			var ev struct {
				Type   string
				Object metav1.Table
			}
			must(t, dec.Decode(&ev))
			if columns := len(ev.Object.ColumnDefinitions); (columns > 0) != (i == 0) {
				t.Errorf("event %d has %d column definitions", i, columns)
			}
			if cells := fmt.Sprint(ev.Object.Rows[0].Cells[:3]); cells != fmt.Sprintf("[p-%d 0/1 Running]", i) {
				t.Errorf("event %d shows %s", i, cells)
			}
			var pod corev1.Pod
			if err := json.Unmarshal(ev.Object.Rows[0].Object.Raw, &pod); err != nil || pod.Kind != "Pod" || pod.Spec.NodeName != "node-a" {
				t.Errorf("event %d carries %v (%v), want the whole pod", i, pod.Kind, err)
			}
		}
	})
}
