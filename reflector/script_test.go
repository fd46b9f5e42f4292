package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// A script in testdata/script is one conversation of a reflector with a server,
// in virtual time, over HTTP: the requests that have to come, in order and no
// others, the answers down to the bytes, and what has to be true at the end.
// Each is played in both encodings, but for those that say in which, and with each
// kind of objects, of which compact ones have no Transform.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		script, err := listwatchtest.LoadScript(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, encoding := range encodings {
			if only := setting(script, "encoding"); only != "" && only != encoding.name {
				continue
			}
			for _, objects := range encoding.objects {
				if objects == reflector.ObjectsCompact && setting(script, "transform") != "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%v", strings.TrimSuffix(filepath.Base(file), ".txt"), encoding.name, objects), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { runScript(t, script, encoding.policy, objects) })
				})
			}
		}
	}
}

// TestScriptsStoppedAnywhere (M2): "Everything stops within 100 ms of its
// context, from any point", here in the middle of every script; what the server
// does at that moment makes no difference.
func TestScriptsStoppedAnywhere(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	moments := []time.Duration{0, 100 * time.Millisecond, 2 * time.Second, 70 * time.Second}
	for i, file := range files {
		script, err := listwatchtest.LoadScript(file)
		if err != nil {
			t.Error(err)
			continue
		}
		// One moment a script: there are many scripts of each kind.
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { stopScript(t, script, moments[i%len(moments)]) })
		})
	}
}

func stopScript(t *testing.T, script *listwatchtest.Script, after time.Duration) {
	lw := newScripted(t, script, listwatch.EncodingAuto)
	c, spans := scriptConfig(t, script, lw, io.Discard), &spanRecorder{}
	c.Tracer = spans
	r, err := reflector.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	time.Sleep(after)
	cancel()
	stopping := time.Now()
	wg.Wait()
	if d := time.Since(stopping); d > 100*time.Millisecond {
		t.Errorf("stopped after %v: it took %v\n%s", after, d, lw.play.Transcript())
	}
	if s := r.Status(); s.State != reflector.StateStopped {
		t.Errorf("stopped after %v: the state is %v", after, s.State)
	}
	spans.check(t)
	lw.Close()
	lw.server.Close()
}

var encodings = []struct {
	name   string
	policy listwatch.EncodingPolicy
	// With which kinds of objects a script is played.
	objects []reflector.Objects
}{
	{"json", listwatch.EncodingJSON, []reflector.Objects{reflector.ObjectsShared, reflector.ObjectsPrivate}},
	{"protobuf", listwatch.EncodingAuto, []reflector.Objects{reflector.ObjectsShared, reflector.ObjectsCompact}},
}

// setting returns what a script's config lines say of key.
func setting(script *listwatchtest.Script, key string) string {
	for _, s := range script.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// scripted is a ListerWatcher whose server plays a script.
type scripted struct {
	*listwatch.ListerWatcher[*corev1.Pod]
	server *listwatchtest.Server
	play   *listwatchtest.Play
}

// newScripted starts a server and plays the script. It is called in a synctest bubble.
func newScripted(t *testing.T, script *listwatchtest.Script, encoding listwatch.EncodingPolicy) *scripted {
	t.Helper()
	s := &scripted{server: listwatchtest.New(listwatchtest.Config{})}
	c := listwatch.Config{REST: s.server.RESTConfig(), Resource: pods, Encoding: encoding}
	for _, set := range script.Settings {
		switch set.Key {
		case "header-timeout":
			c.HeaderTimeout = duration(t, set.Value)
		case "request-timeout":
			c.RequestTimeout = duration(t, set.Value)
		case "max-item":
			c.MaxItemBytes = atoi(t, set.Value)
		}
	}
	lw, err := listwatch.New[*corev1.Pod](c)
	if err != nil {
		t.Fatal(err)
	}
	s.ListerWatcher = lw
	s.play = s.server.Play(script)
	return s
}

// close ends the server and reports what did not go as the script says.
func (s *scripted) close(t *testing.T) {
	t.Helper()
	s.Close()
	s.server.Close()
	if err := s.play.Err(); err != nil {
		t.Errorf("%v\n%s", err, s.play.Transcript())
	}
	for _, r := range s.server.Requests() {
		q := r.Query
		switch match := q.Get("resourceVersionMatch"); {
		case r.Verb == "list" && r.ResourceVersion != "" && match != string(metav1.ResourceVersionMatchNotOlderThan):
			t.Errorf("%s: a list at a resourceVersion has resourceVersionMatch %q", r, match)
		case r.WatchList() && match != string(metav1.ResourceVersionMatchNotOlderThan):
			t.Errorf("%s has resourceVersionMatch %q", r, match)
		case r.Verb == "watch" && (q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") < "1"):
			t.Errorf("%s: bookmarks %q, timeoutSeconds %q", r, q.Get("allowWatchBookmarks"), q.Get("timeoutSeconds"))
		}
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// show writes an object as a script does.
func show(p *corev1.Pod) string {
	if p == nil {
		return "nil"
	}
	return listwatchtest.Notation(p)
}

func describe(ev reflector.Event[*corev1.Pod]) string {
	if ev.Type == reflector.Synced {
		return "SYNCED " + ev.ResourceVersion
	}
	s := ev.Type.String() + " " + show(ev.Object)
	if ev.FinalStateUnknown {
		s += "?"
	}
	return s
}

// sortDeletes sorts each run of deletes that a list found: their order is open.
func sortDeletes(events []string) []string {
	found := func(s string) bool { return strings.HasSuffix(s, "?") }
	for i := 0; i < len(events); i++ {
		k := i
		for k < len(events) && found(events[k]) {
			k++
		}
		sort.Strings(events[i:k])
		i = max(i, k-1)
	}
	return events
}

// logged keeps what was logged.
type logged struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// scriptConfig makes the reflector's configuration. The durations are those of
// the black-box scenarios unless a script says otherwise.
func scriptConfig(t *testing.T, script *listwatchtest.Script, lw reflector.ListerWatcher[*corev1.Pod], log io.Writer) reflector.Config[*corev1.Pod] {
	c := reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		InitialSync:   reflector.InitialList,
		Logger:        slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, set := range script.Settings {
		switch v := set.Value; set.Key {
		case "initial":
			c.InitialSync = map[string]reflector.InitialSync{"auto": reflector.InitialAuto, "watchlist": reflector.InitialWatchList}[v]
		case "watch-timeout":
			c.WatchTimeout = duration(t, v)
		case "idle-timeout":
			c.IdleTimeout = duration(t, v)
		case "backoff":
			low, high, _ := strings.Cut(v, "..")
			c.Backoff = reflector.Backoff{Min: duration(t, low), Max: duration(t, high)}
		case "page":
			c.PageSize = int64(atoi(t, v))
		case "accept": // only pods that are in this phase
			c.Accept = func(p *corev1.Pod) bool { return string(p.Status.Phase) == v }
		case "transform":
			c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
				switch {
				case v == "panic" && p.Status.Phase == "Bad":
					panic("transform of " + p.Name)
				case v == "fail" && p.Status.Phase == "Bad":
					return nil, errors.New("not this one")
				}
				return p, nil
			}
		case "header-timeout", "request-timeout", "max-item", "encoding": // not the reflector's
		default:
			t.Fatalf("%s: unknown config %q", set.Pos, set.Key)
		}
	}
	return c
}

func runScript(t *testing.T, script *listwatchtest.Script, encoding listwatch.EncodingPolicy, objects reflector.Objects) {
	began := time.Now()
	lw := newScripted(t, script, encoding)
	log := &logged{}
	c := scriptConfig(t, script, lw, log)
	c.Objects = objects
	r, err := reflector.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if objects != reflector.ObjectsPrivate {
		// What a script says is to come out of lists that are decoded on several cores, too.
		reflector.ShapeLine(r, 2, 2)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var events []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev := range r.Events(ctx) {
			events = append(events, describe(ev))
		}
	})
	synctest.Wait() // subscribed
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	patience, giveUp := context.WithTimeout(ctx, 24*time.Hour)
	defer giveUp()
	if err := lw.play.Wait(patience); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	status, stats, elapsed := r.Status(), r.Stats(), time.Since(began)
	var stored []string
	for _, p := range r.Store().All() {
		stored = append(stored, show(p))
	}
	sort.Strings(stored)
	cancel()
	stopping := time.Now()
	wg.Wait()
	if d := time.Since(stopping); d > 100*time.Millisecond {
		t.Errorf("stopping took %v", d)
	}
	lw.close(t)
	for _, want := range script.Wants {
		check(t, want, result{stored, events, status, stats, elapsed, log.String()})
	}
	if t.Failed() {
		t.Logf("what the client asked (>) and the server sent (<):\n%s\nevents: %s\nstore: %s\nlog:\n%s",
			lw.play.Transcript(), strings.Join(events, ", "), strings.Join(stored, " "), log)
	}
}

// result is what a script's checks look at.
type result struct {
	stored  []string
	events  []string
	status  reflector.Status
	stats   reflector.Stats
	elapsed time.Duration
	log     string
}

func check(t *testing.T, want listwatchtest.Want, got result) {
	t.Helper()
	rest := want.Text
	equal := func(what, have string) {
		t.Helper()
		if strings.TrimSpace(have) != rest {
			t.Errorf("%s: %s: got  %s\n want %s", want.Pos, what, have, rest)
		}
	}
	switch want.Word {
	case "store":
		equal("store", strings.Join(got.stored, " "))
	case "events":
		equal("events", strings.Join(sortDeletes(got.events), ", "))
	case "restarts":
		var have []string
		for _, why := range reason.All() {
			if n := got.stats.Restarts[why]; n > 0 && why != reason.Stopped {
				have = append(have, fmt.Sprintf("%s=%d", why, n))
			}
		}
		equal("restarts", strings.Join(have, " "))
	case "ignored":
		var have []string
		for _, cause := range reflector.Causes() {
			if n := got.stats.Ignored[cause]; n > 0 {
				have = append(have, fmt.Sprintf("%s=%d", cause, n))
			}
		}
		equal("ignored", strings.Join(have, " "))
	case "counts":
		equal("counts", fmt.Sprintf("regressions=%d decode=%d panics=%d skips=%d watches=%d", got.stats.Regressions,
			got.stats.DecodeErrors, got.stats.Panics, got.stats.ListSkips, got.stats.Watches))
	case "quarantined":
		var have []string
		for _, q := range got.status.Quarantined {
			have = append(have, q.Key.Name+"@"+q.ResourceVersion)
		}
		equal("quarantined", strings.Join(have, " "))
	case "state":
		equal("state", fmt.Sprintf("%s %s", got.status.State, got.status.ResourceVersion))
	case "last":
		last := got.status.LastRestart
		if last == nil || !strings.HasPrefix(fmt.Sprintf("%s %v", last.Reason, last.Err), rest) {
			t.Errorf("%s: last restart: got %+v, want %s", want.Pos, last, rest)
		}
	case "elapsed":
		low, high, _ := strings.Cut(rest, "..")
		if got.elapsed < duration(t, low) || got.elapsed > duration(t, high) {
			t.Errorf("%s: elapsed: got %v, want %s", want.Pos, got.elapsed, rest)
		}
	case "log": // log TIMES TEXT
		times, text, _ := strings.Cut(rest, " ")
		if n := strings.Count(got.log, text); n != atoi(t, times) {
			t.Errorf("%s: log: %d times %q, want %s", want.Pos, n, text, times)
		}
	case "detail":
		if !strings.Contains(got.status.Detail, rest) {
			t.Errorf("%s: detail: got %q, want %q", want.Pos, got.status.Detail, rest)
		}
	default:
		t.Errorf("%s: unknown check %q", want.Pos, want.Word)
	}
}
