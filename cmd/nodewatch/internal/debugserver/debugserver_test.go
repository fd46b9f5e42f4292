package debugserver

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server, a reflector of its pods that runs and is synced, and the pages.
type fixture struct {
	server    *listwatchtest.Server
	reflector *reflector.Reflector[*corev1.Pod]
	pages     http.Handler
	run       func()
}

const secret = "planted-secret"

// newFixture returns what is not running yet. maxAge is that of /readyz.
func newFixture(t *testing.T, maxAge time.Duration, config listwatchtest.Config) *fixture {
	t.Helper()
	f := &fixture{server: listwatchtest.Start(config)}
	t.Cleanup(f.server.Close)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: corev1.PodSpec{NodeName: "node-a"}}
	if err := f.server.Create(pod); err != nil {
		t.Fatal(err)
	}
	registry := &reflector.Registry{}
	rc := f.server.RESTConfig()
	rc.BearerToken = secret
	var err error
	f.reflector, err = nodefilter.NewPodReflector(nodefilter.Config{REST: rc, Node: "node-a", Name: "node-a", Registry: registry,
		Reflector: func(c *reflector.Config[*corev1.Pod]) {
			c.Backoff = reflector.Backoff{Min: 10 * time.Millisecond, Max: 20 * time.Millisecond}
		}})
	if err != nil {
		t.Fatal(err)
	}
	f.pages, err = Handler(Config{Registry: registry, Expected: 1, MaxAge: maxAge})
	if err != nil {
		t.Fatal(err)
	}
	f.run = func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = f.reflector.Run(t.Context()) // it ends with the test's context
		}()
		t.Cleanup(func() { <-done })
	}
	return f
}

func (f *fixture) get(t *testing.T, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	f.pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if strings.Contains(w.Body.String(), secret) {
		t.Errorf("%s has the token:\n%s", path, w.Body)
	}
	return w.Code, w.Body.String()
}

func TestReady(t *testing.T) {
	f := newFixture(t, time.Hour, listwatchtest.Config{})
	if code, text := f.get(t, "/readyz"); code != 503 || !strings.Contains(text, "0 of 1 reflectors run") {
		t.Errorf("before the start: %d %q", code, text)
	}
	f.run()
	if err := f.reflector.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, text := f.get(t, "/readyz"); code != 200 || text != "ok\n" {
		t.Errorf("synced: %d %q", code, text)
	}
	if code, text := f.get(t, "/readyz?max-age=1ns"); code != 503 || !strings.Contains(text, "node-a: known current only up to ") || !strings.Contains(text, "the limit is 1ns (Watching)") {
		t.Errorf("too old for who asks: %d %q", code, text)
	}
	for _, bad := range []string{"x", "-1s", "0", ""} {
		want := 400
		if bad == "" {
			want = 200
		}
		if code, text := f.get(t, "/readyz?max-age="+bad); code != want {
			t.Errorf("max-age=%q: %d %q", bad, code, text)
		}
	}
	if code, text := f.get(t, "/healthz"); code != 200 || text != "ok\n" {
		t.Errorf("/healthz: %d %q", code, text)
	}
}

// TestNotReady: the page says why there is no list, and where that is a
// refusal, without the token.
func TestNotReady(t *testing.T) {
	f := newFixture(t, time.Hour, listwatchtest.Config{Tokens: map[string]string{}})
	f.run()
	for f.reflector.Status().LastError == nil {
		time.Sleep(time.Millisecond) // a condition: the first attempt has failed
	}
	code, text := f.get(t, "/readyz")
	if code != 503 || !strings.Contains(text, "node-a: no complete snapshot yet") || !strings.Contains(text, "401 Unauthorized") {
		t.Errorf("%d %q", code, text)
	}
	_, text = f.get(t, "/debug/reflectors")
	if !strings.Contains(text, `"Reason": "unauthorized"`) || !strings.Contains(text, `"LastError": "`) || strings.Count(text, "401 Unauthorized") != 2 {
		t.Errorf("/debug/reflectors: %s", text)
	}
	// Fields of the error's type are not shown.
	if strings.Contains(text, "http://") || strings.Contains(text, "APIStatus") {
		t.Errorf("/debug/reflectors shows an error's fields: %s", text)
	}
}

func TestDebugReflectors(t *testing.T) {
	f := newFixture(t, time.Hour, listwatchtest.Config{})
	f.run()
	if err := f.reflector.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, text := f.get(t, "/debug/reflectors")
	var shown struct {
		Reflectors []struct {
			Status reflector.Status
			Stats  reflector.Stats
		}
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	got := shown.Reflectors
	if _, page := f.get(t, "/debug/reflectors?format=html"); !strings.Contains(page, "<title>nodewatch: reflectors</title>") || !strings.Contains(page, ">node-a</a>") {
		t.Errorf("no page:\n%s", page)
	}
	if len(got) != 1 || got[0].Status.Name != "node-a" || !got[0].Status.Synced || got[0].Status.Objects != 1 || got[0].Stats.ListItems != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestMetrics(t *testing.T) {
	f := newFixture(t, time.Hour, listwatchtest.Config{})
	f.run()
	if err := f.reflector.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, text := f.get(t, "/metrics")
	for _, want := range []string{`reflector="node-a"`, "\nnodewatch_", "\ngo_goroutines ", "\nprocess_start_time_seconds "} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("/metrics (%d) lacks %q", code, want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestOtherRequests(t *testing.T) {
	f := newFixture(t, time.Hour, listwatchtest.Config{})
	if code, text := f.get(t, "/"); code != 200 || !strings.Contains(text, "/metrics") {
		t.Errorf("/: %d %q", code, text)
	}
	if code, _ := f.get(t, "/debug/pprof/"); code != 404 {
		t.Errorf("/debug/pprof/ is %d", code)
	}
	w := httptest.NewRecorder()
	f.pages.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != 405 {
		t.Errorf("POST is %d", w.Code)
	}
}

func TestStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := Config{Addr: taken.Addr().String(), Registry: &reflector.Registry{}, Logger: slog.New(slog.DiscardHandler)}
	if _, err := Start(c); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a port that is taken: %v", err)
	}
	c.Addr = "127.0.0.1:0"
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Get("http://" + s.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != "ok\n" {
		t.Errorf("%q %v", body, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	client.CloseIdleConnections()
	if _, err := client.Get("http://" + s.Addr().String() + "/healthz"); err == nil {
		t.Error("it serves after Close")
	}
}

// TestFurther: pages, collectors and a reason not to be ready that the caller adds.
func TestFurther(t *testing.T) {
	why := "sources not seen yet: api"
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "planted_things", Help: "Planted."})
	c := Config{
		Registry: &reflector.Registry{}, MaxAge: time.Hour, NotReady: func() string { return why },
		Pages:      map[string]func() any{"/debug/planted": func() any { return map[string]int{"a": 1} }},
		Collectors: []prometheus.Collector{gauge},
	}
	f := &fixture{}
	var err error
	if f.pages, err = Handler(c); err != nil {
		t.Fatal(err)
	}
	if code, text := f.get(t, "/readyz"); code != 503 || text != why+"\n" {
		t.Errorf("%d %s", code, text)
	}
	why = ""
	if code, text := f.get(t, "/readyz"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if code, text := f.get(t, "/debug/planted"); code != 200 || text != "{\n  \"a\": 1\n}\n" {
		t.Errorf("%d %s", code, text)
	}
	if _, text := f.get(t, "/metrics"); !strings.Contains(text, "planted_things 0") {
		t.Error("the collector is not served")
	}
	if _, text := f.get(t, "/"); !strings.HasSuffix(text, "/debug/reflectors\n/debug/planted\n") {
		t.Errorf("the index is %q", text)
	}
	c.Collectors = append(c.Collectors, gauge)
	if _, err := Handler(c); err == nil {
		t.Error("a collector twice is accepted")
	}
}
