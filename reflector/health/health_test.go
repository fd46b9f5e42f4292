package health_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/health"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a reflector that says what a test wants.
type fake reflector.Status

func (f fake) Status() reflector.Status { return reflector.Status(f) }
func (f fake) Stats() reflector.Stats   { return reflector.Stats{} }

type fakes []fake

func (f fakes) Sources() []reflector.Source {
	all := make([]reflector.Source, len(f))
	for i, s := range f {
		all[i] = s
	}
	return all
}

// checker is controller-runtime's healthz.Checker.
type checker func(*http.Request) error

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // ages are exact
		now := time.Now()
		fresh := func(name string) fake {
			return fake{Name: name, State: reflector.StateWatching, Synced: true, FreshAsOf: now.Add(-time.Minute)}
		}
		away := fake{Name: "away", State: reflector.StateBackingOff, Synced: true, FreshAsOf: now.Add(-5 * time.Minute),
			LastRestart: &reflector.Restart{Reason: reason.Transport, Err: errors.New("connection refused")}}
		starting := fake{Name: "starting", State: reflector.StateListing}
		ended := fresh("ended")
		ended.LastRestart = &reflector.Restart{Reason: reason.EOF}
		ended.FreshAsOf = now.Add(-health.DefaultMaxAge - time.Second)
		gone := fresh("gone")
		gone.State = reflector.StateStopped
		spoiled := fresh("spoiled")
		spoiled.Quarantined = make([]reflector.Quarantined, 3)
		var many fakes
		for i := range 50 {
			many = append(many, fake{Name: fmt.Sprintf("node-%02d", i), State: reflector.StateListing})
		}
		for _, c := range []struct {
			name   string
			config health.Config
			query  string
			want   string // "" is ready; what begins with these lines
		}{
			{"no reflectors, none expected", health.Config{Registry: fakes{}}, "", ""},
			{"fresh", health.Config{Registry: fakes{fresh("a"), fresh("b")}, Expected: []string{"b", "a"}, AtLeast: 2}, "", ""},
			{"one does not run", health.Config{Registry: fakes{fresh("a")}, Expected: []string{"b", "a"}}, "", "b: does not run"},
			{"too few", health.Config{Registry: fakes{fresh("a")}, AtLeast: 2}, "", "1 of 2 reflectors run"},
			{"stopped, however fresh", health.Config{Registry: fakes{gone}, Expected: []string{"gone"}}, "", "gone: has stopped"},
			{"no snapshot", health.Config{Registry: fakes{fresh("a"), starting}}, "", "starting: no complete snapshot yet (Listing)"},
			{"not fresh, and why", health.Config{Registry: fakes{away, fresh("a")}}, "",
				"away: known current only up to 5m0s ago, the limit is 4m0s (BackingOff): connection refused"},
			{"a clean end is no reason", health.Config{Registry: fakes{ended}}, "", "ended: known current only up to 4m1s ago, the limit is 4m0s (Watching)"},
			{"each is named", health.Config{Registry: fakes{away, starting}}, "", "away: known current only up to 5m0s ago, the limit is 4m0s (BackingOff): connection refused\nstarting: "},
			{"a limit of the caller's", health.Config{Registry: fakes{away}, MaxAge: 5 * time.Minute}, "", ""},
			{"a limit of who asks", health.Config{Registry: fakes{fresh("a")}}, "max-age=30s", "a: known current only up to 1m0s ago, the limit is 30s (Watching)"},
			{"a longer one", health.Config{Registry: fakes{away}}, "max-age=1h", ""},
			{"the quarantine does not count", health.Config{Registry: fakes{spoiled}}, "", ""},
			{"another reason", health.Config{Registry: fakes{fresh("a")}, Also: func() error { return errors.New("no lease") }}, "", "no lease"},
			{"the reflectors come first", health.Config{Registry: fakes{starting}, Also: func() error { return errors.New("no lease") }}, "", "starting: "},
			{"many", health.Config{Registry: many}, "", "node-00: "},
		} {
			ready, err := health.New(c.config)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/readyz?"+c.query, nil)
			w := httptest.NewRecorder()
			ready.ServeHTTP(w, r)
			err = checker(ready.Check)(r)
			switch {
			case c.want == "":
				if err != nil || w.Code != 200 || w.Body.String() != "ok\n" {
					t.Errorf("%s: %v, %d %s", c.name, err, w.Code, w.Body)
				}
			case err == nil || !strings.HasPrefix(err.Error(), c.want) || w.Code != 503 || w.Body.String() != err.Error()+"\n":
				t.Errorf("%s: %v, %d %s; want %s", c.name, err, w.Code, w.Body, c.want)
			}
			if c.name == "many" && (strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "\nand 30 more")) {
				t.Errorf("of 50 the answer names:\n%v", err)
			}
		}
	})
}

func TestQuery(t *testing.T) {
	ready, err := health.New(health.Config{Registry: fakes{}})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"": 200, "max-age=": 200, "max-age=30s": 200, "max-age=30": 400, "max-age=-1s": 400, "max-age=0": 400, "max-age=x": 400,
		"max-age=0s": 400, "max-age=2562047h": 200, "max-age=9999999h": 400, "max-age=NaN": 400, "max-age=1ns": 200} {
		r := httptest.NewRequest(http.MethodGet, "/readyz?"+query, nil)
		w := httptest.NewRecorder()
		ready.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%q: %d %s", query, w.Code, w.Header())
		}
		if err := ready.Check(r); (err != nil) != (want == 400) {
			t.Errorf("%q: %v", query, err)
		}
	}
	if err := ready.Check(nil); err != nil {
		t.Errorf("without a request: %v", err)
	}
}

func TestNew(t *testing.T) {
	_, err := health.New(health.Config{MaxAge: -time.Second, AtLeast: -1})
	for _, want := range []string{"Config.Registry is nil", "Config.MaxAge is -1s", "Config.AtLeast is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// Readiness turns on freshness: it is lost when the server cannot be reached for longer than the
// limit, and comes back with the first event or bookmark. Liveness stays.
func TestReadinessFollowsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := listwatchtest.New(listwatchtest.Config{})
		defer server.Close()
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: server.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		registry := &reflector.Registry{}
		r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		ready, err := health.New(health.Config{Registry: registry, Expected: []string{"pods"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := ready.Check(nil); err == nil || err.Error() != "pods: does not run" {
			t.Errorf("before the start: %v", err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = r.Run(t.Context())
		}()
		t.Cleanup(func() { <-done })
		if err := r.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Hours of a quiet collection.
		for range 90 {
			time.Sleep(2 * time.Minute)
			if err := ready.Check(nil); err != nil {
				t.Fatalf("with a server that is well: %v", err)
			}
		}
		server.Pause()
		time.Sleep(health.DefaultMaxAge - time.Minute - time.Second)
		if err := ready.Check(nil); err != nil {
			t.Errorf("within the limit: %v", err)
		}
		time.Sleep(time.Minute + 2*time.Second)
		if err := ready.Check(nil); err == nil || !strings.HasPrefix(err.Error(), "pods: known current only up to 4m") {
			t.Errorf("after the limit: %v", err)
		}
		w := httptest.NewRecorder()
		health.Live().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		if w.Code != 200 || w.Body.String() != "ok\n" {
			t.Errorf("liveness: %d %s", w.Code, w.Body)
		}
		server.Resume()
		time.Sleep(2 * time.Minute)
		if err := ready.Check(nil); err != nil {
			t.Errorf("the server is back: %v\n%+v", err, r.Status())
		}
	})
}
