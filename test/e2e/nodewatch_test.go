package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// A way is how a reflector asks.
type way struct {
	encoding listwatch.EncodingPolicy
	initial  reflector.InitialSync
	page     int64
}

func (w way) String() string {
	return fmt.Sprintf("%s,%s,page=%d", map[listwatch.EncodingPolicy]string{
		listwatch.EncodingJSON: "json", listwatch.EncodingProtobuf: "protobuf"}[w.encoding],
		map[reflector.InitialSync]string{
			reflector.InitialList: "list", reflector.InitialWatchList: "watchlist"}[w.initial], w.page)
}

// ways are all combinations of encoding and first sync, and one with pages.
var ways = []way{
	{listwatch.EncodingJSON, reflector.InitialList, 0},
	{listwatch.EncodingJSON, reflector.InitialWatchList, 0},
	{listwatch.EncodingProtobuf, reflector.InitialList, 0},
	{listwatch.EncodingProtobuf, reflector.InitialWatchList, 0},
	{listwatch.EncodingProtobuf, reflector.InitialList, 7},
}

// newReflector makes a reflector of the pods of a node.
func newReflector(t *testing.T, config *rest.Config, node string, w way, logger *slog.Logger) *reflector.Reflector[*corev1.Pod] {
	t.Helper()
	r, err := nodefilter.NewPodReflector(nodefilter.Config{
		REST: config, Node: node, Logger: logger,
		ListWatch: func(c *listwatch.Config) { c.Encoding = w.encoding },
		Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.InitialSync, c.PageSize = w.initial, w.page
			// Crashes are many here; nobody wants to wait for long.
			c.Backoff = reflector.Backoff{Min: 50 * time.Millisecond, Max: time.Second}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// running runs a reflector until the test ends.
func running(t *testing.T, r *reflector.Reflector[*corev1.Pod]) {
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
}

// folded folds a reflector's events until the test ends.
func folded(t *testing.T, r *reflector.Reflector[*corev1.Pod]) *fold {
	f := newFold(true)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		for e := range r.Events(ctx) {
			if e.Type == reflector.Synced {
				continue
			}
			f.apply(e.Type.String(), identity{e.Key.String(), string(e.UID), e.ResourceVersion}, e.FinalStateUnknown)
		}
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
	return f
}

// TestReflectorFollowsChurn: what a subscriber learns by events is what the
// server has, whatever happened to the server meanwhile.
func TestReflectorFollowsChurn(t *testing.T) {
	onTargets(t, func(t *testing.T, tg target) {
		ctx := t.Context()
		type watcher struct {
			name, node string
			reflector  *reflector.Reflector[*corev1.Pod]
			fold       *fold
		}
		var watchers []watcher
		for node := range 10 {
			for _, w := range ways {
				name := fmt.Sprintf("node-%d", node)
				r := newReflector(t, tg.RESTConfig(apiserver.Admin), name, w, nil)
				running(t, r)
				watchers = append(watchers, watcher{name + "," + w.String(), name, r, folded(t, r)})
			}
		}
		for _, w := range watchers {
			if err := w.reflector.WaitForSync(ctx); err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
		}
		churn(ctx, t, tg, 1000, crashes())
		phase("%s: comparing", t.Name())
		admin := clientset(t, tg, apiserver.Admin)
		ctx, cancel := context.WithTimeout(ctx, convergence)
		defer cancel()
		events, restarts := 0, map[reason.Reason]uint64{}
		for _, w := range watchers {
			want := stateOf(ctx, t, admin, metav1.ListOptions{FieldSelector: "spec.nodeName=" + w.node})
			w.fold.await(ctx, t, w.name, want)
			have := map[string]string{}
			for _, pod := range w.reflector.Store().All() {
				id := identify(pod)
				have[id.object()] = id.ResourceVersion
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("%s: the server has (-), the store holds (+):\n%s", w.name, diff)
			}
			events += w.fold.count()
			for why, n := range w.reflector.Stats().Restarts {
				restarts[why] += n
			}
		}
		if events == 0 {
			t.Error("no events at all")
		}
		phase("%s: %d watchers, %d events, ends by reason: %v", t.Name(), len(watchers), events, restarts)
		if len(restarts) == 0 {
			t.Error("the server was killed twice and no watch ended")
		}
	})
}

// TestReflectorSeesPodsLive: single changes arrive, with their contents, in each way.
func TestReflectorSeesPodsLive(t *testing.T) {
	onTargets(t, func(t *testing.T, tg target) {
		for _, how := range ways {
			t.Run(how.String(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), rowTimeout)
				defer cancel()
				w := newWorld(t, tg).inNamespace(ctx, t, namespaceFor(t))
				node := "node-of-" + w.namespace
				w.create(ctx, t, "", newPod(w.namespace, "early", node, map[string]string{"app": "web"}))
				w.create(ctx, t, "", newPod(w.namespace, "elsewhere", "node-z", nil))
				r := newReflector(t, tg.RESTConfig(apiserver.Admin), node, how, nil)
				act := func() {
					w.create(ctx, t, "", newPod(w.namespace, "bound", "", nil))
					w.bind(ctx, t, w.namespace, "bound", node)
					w.setPhase(ctx, t, w.namespace, "early", corev1.PodRunning)
					w.relabel(ctx, t, w.namespace, "early", map[string]string{"app": "db"})
					w.remove(ctx, t, w.namespace, "early", 30)
					w.remove(ctx, t, w.namespace, "early", 0)
					w.create(ctx, t, "", newPod(w.namespace, sentinel, node, nil))
				}
				var got []string
				running(t, r)
				for e := range r.Events(ctx) {
					switch {
					case e.Type == reflector.Synced && e.Initial:
						got = append(got, "SYNCED")
						act()
					case e.Type != reflector.Synced && e.Key.Name != sentinel:
						got = append(got, describe(e))
					}
					if e.Key.Name == sentinel {
						break
					}
				}
				want := []string{
					"ADDED early phase=Pending app=web",
					"SYNCED",
					"ADDED bound phase=Pending",
					"MODIFIED early phase=Running app=web",
					"MODIFIED early phase=Running app=db",
					"MODIFIED early phase=Running app=db grace=30",
					"MODIFIED early phase=Running app=db grace=0",
					"DELETED early phase=Running app=db grace=0",
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("events (- want, + got):\n%s", diff)
				}
				if _, ok := r.Store().Get(w.namespace, "early"); ok {
					t.Error("a deleted pod is in the store")
				}
			})
		}
	})
}

// describe writes the contents of an event that the test changes.
func describe(e reflector.Event[*corev1.Pod]) string {
	text := fmt.Sprintf("%s %s phase=%s", e.Type, e.Key.Name, e.Object.Status.Phase)
	if app := e.Object.Labels["app"]; app != "" {
		text += " app=" + app
	}
	if grace := e.Object.DeletionGracePeriodSeconds; grace != nil {
		text += fmt.Sprint(" grace=", *grace)
	}
	return text
}

// TestRefusals: a user without rights gets one typed error that says who may
// not do what.
func TestRefusals(t *testing.T) {
	onTargets(t, func(t *testing.T, tg target) {
		bogus := tg.RESTConfig(apiserver.Admin)
		bogus.BearerToken = "bogus-token-4711"
		cases := map[string]struct {
			config *rest.Config
			node   string
			reason reason.Reason
			is     func(error) bool
			says   []string
		}{
			"weak user": {tg.RESTConfig(apiserver.Weak), "node-a", reason.Forbidden, apierrors.IsForbidden,
				[]string{"list", "pods", `"weak"`}},
			"node user, another node": {tg.RESTConfig(apiserver.Node), "node-b", reason.Forbidden, apierrors.IsForbidden,
				[]string{"list", "pods", `"system:node:node-a"`}},
			"bad token": {bogus, "node-a", reason.Unauthorized, apierrors.IsUnauthorized, []string{"pods"}},
		}
		for name, c := range cases {
			for _, how := range ways {
				t.Run(name+","+how.String(), func(t *testing.T) {
					t.Parallel()
					var log lockedBuffer
					logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					r := newReflector(t, c.config, c.node, how, logger)
					running(t, r)
					ctx, cancel := context.WithTimeout(t.Context(), rowTimeout)
					defer cancel()
					go cancelAfterRefusal(ctx, cancel, r)
					err := r.WaitForSync(ctx)
					var typed *listwatch.Error
					if !errors.As(err, &typed) || typed.Reason != c.reason || !c.is(err) {
						t.Fatalf("WaitForSync: %v (%T), want a *listwatch.Error that is %s", err, err, c.reason)
					}
					// A watch-list is a watch.
					text := strings.Replace(err.Error(), "cannot watch", "cannot list", 1)
					for _, word := range c.says {
						if !strings.Contains(strings.ReplaceAll(text, "watch pods", "list pods"), word) {
							t.Errorf("the error does not name %s: %v", word, err)
						}
					}
					if strings.Contains(err.Error()+log.String(), c.config.BearerToken) {
						t.Error("the token is in the error or in the log")
					}
				})
			}
		}
	})
}

// cancelAfterRefusal cancels when the first attempt of a reflector has ended.
func cancelAfterRefusal(ctx context.Context, cancel context.CancelFunc, r *reflector.Reflector[*corev1.Pod]) {
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for r.Status().LastRestart == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// TestCredentials: the users that may, may, also with a token in a file.
func TestCredentials(t *testing.T) {
	onTargets(t, func(t *testing.T, tg target) {
		newWorld(t, tg).create(t.Context(), t, "", newPod("default", "mine", "node-a", nil))
		fromFile := tg.RESTConfig(apiserver.Admin)
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(fromFile.BearerToken+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fromFile.BearerToken, fromFile.BearerTokenFile = "", path
		for name, config := range map[string]*rest.Config{
			"token file": fromFile, "node user": tg.RESTConfig(apiserver.Node),
		} {
			for _, how := range ways {
				t.Run(name+","+how.String(), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), rowTimeout)
					defer cancel()
					r := newReflector(t, config, "node-a", how, nil)
					running(t, r)
					if err := r.WaitForSync(ctx); err != nil {
						t.Fatal(err)
					}
					if _, ok := r.Store().Get("default", "mine"); !ok {
						t.Error("the node's pod is missing")
					}
				})
			}
		}
	})
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
