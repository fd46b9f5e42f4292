package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// A script in testdata/script is one conversation of a reflector with a server,
// in virtual time: the requests that have to come, in order and no others, the
// answers as bytes, and what has to be true at the end. See testdata/script/README.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := parseScript(t, string(text))
			synctest.Test(t, func(t *testing.T) { s.run(t) })
		})
	}
}

// script is a parsed file.
type script struct {
	config map[string]string
	steps  []scriptStep
	checks [][2]string // word and rest
}

// scriptStep is one request and its answer.
type scriptStep struct {
	line    int
	request string // "LIST rv=100 limit=2"
	after   [2]time.Duration
	timed   bool
	answers []string
}

func parseScript(t *testing.T, text string) *script {
	t.Helper()
	s := &script{config: map[string]string{}}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "", "#":
		case "config":
			for _, kv := range strings.Fields(rest) {
				k, v, _ := strings.Cut(kv, "=")
				s.config[k] = v
			}
		case ">":
			times := 1
			st := scriptStep{line: i + 1}
			var words []string
			for _, w := range strings.Fields(rest) {
				switch k, v, _ := strings.Cut(w, "="); k {
				case "times":
					times = atoi(t, v)
				case "after":
					low, high, _ := strings.Cut(v, "..")
					st.timed, st.after = true, [2]time.Duration{duration(t, low), duration(t, high)}
				default:
					words = append(words, w)
				}
			}
			st.request = strings.Join(words, " ")
			for range times {
				s.steps = append(s.steps, st)
			}
		case "<":
			// The answer of all steps that came from the last request line.
			last := len(s.steps) - 1
			if last < 0 {
				t.Fatalf("line %d: an answer before the first request", i+1)
			}
			for k := last; k >= 0 && s.steps[k].line == s.steps[last].line; k-- {
				s.steps[k].answers = append(slices.Clone(s.steps[k].answers), rest)
			}
		default:
			s.checks = append(s.checks, [2]string{word, rest})
		}
	}
	return s
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

// show is the inverse of object for what is stored.
func show(p *corev1.Pod) string {
	if p == nil {
		return "nil"
	}
	s := p.Name + "@" + p.ResourceVersion
	if string(p.UID) != "uid-"+p.Name {
		s += "/" + string(p.UID)
	}
	if p.Status.Phase != "" {
		s += "=" + string(p.Status.Phase)
	}
	return s
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
func (s *script) scriptConfig(t *testing.T, lw reflector.ListerWatcher[*corev1.Pod], log io.Writer) reflector.Config[*corev1.Pod] {
	c := reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		InitialSync:   reflector.InitialList,
		Logger:        slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for k, v := range s.config {
		switch k {
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
		default:
			t.Fatalf("unknown config %q", k)
		}
	}
	return c
}

func (s *script) server(t *testing.T) *scripted {
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	return &scripted{script: s, dec: dec, done: make(chan struct{}), ended: time.Now()}
}

func (s *script) run(t *testing.T) {
	began := time.Now()
	lw := s.server(t)
	log := &logged{}
	r, err := reflector.New(s.scriptConfig(t, lw, log))
	if err != nil {
		t.Fatal(err)
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
	select {
	case <-lw.done:
	case <-time.After(24 * time.Hour):
		lw.bad("the script did not come to its end within a day")
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
	if lw.fault != "" {
		t.Errorf("%s", lw.fault)
	}
	for _, c := range s.checks {
		s.check(t, c[0], c[1], result{stored, events, status, stats, elapsed, log.String()})
	}
	if t.Failed() {
		t.Logf("requests (time since the last answer):\n  %s\nevents: %s\nstore: %s\nlog:\n%s",
			strings.Join(lw.log, "\n  "), strings.Join(events, ", "), strings.Join(stored, " "), log)
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

func (s *script) check(t *testing.T, word, rest string, got result) {
	t.Helper()
	equal := func(what, have string) {
		t.Helper()
		if strings.TrimSpace(have) != rest {
			t.Errorf("%s: got  %s\n want %s", what, have, rest)
		}
	}
	switch word {
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
		for _, cause := range []string{"duplicate", "stale", "foreign", "filtered"} {
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
			t.Errorf("last restart: got %+v, want %s", last, rest)
		}
	case "elapsed":
		low, high, _ := strings.Cut(rest, "..")
		if got.elapsed < duration(t, low) || got.elapsed > duration(t, high) {
			t.Errorf("elapsed: got %v, want %s", got.elapsed, rest)
		}
	case "log": // log TIMES TEXT
		times, text, _ := strings.Cut(rest, " ")
		if n := strings.Count(got.log, text); n != atoi(t, times) {
			t.Errorf("log: %d times %q, want %s", n, text, times)
		}
	case "detail":
		if !strings.Contains(got.status.Detail, rest) {
			t.Errorf("detail: got %q, want %q", got.status.Detail, rest)
		}
	default:
		t.Errorf("unknown check %q", word)
	}
}
