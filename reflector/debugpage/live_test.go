package debugpage_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/debugpage"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// A server with one object that does not decode, which is unreachable, comes back
// without its history, and then refuses.
const faults = `
> WATCHLIST rv=
< ADDED a@90
< ADDED <b>bad</b>@91!
< MARK 100
< MODIFIED a@101
< RST
> WATCH rv=101
< 410 Expired <i>too old</i>
> WATCHLIST rv=101
< ADDED a@101
< ADDED <b>bad</b>@91!
< ADDED c@110
< MARK 120
< RST
> WATCH rv=120 times=3
< 403 Forbidden <script>alert("no")</script>
`

// TestLive: what the page and the JSON show of a reflector that has lived through faults.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script, err := listwatchtest.ParseScript(t.Name(), []byte(faults))
		if err != nil {
			t.Fatal(err)
		}
		server := listwatchtest.New(listwatchtest.Config{})
		defer server.Close()
		play := server.Play(script)
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: server.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		registry := &reflector.Registry{}
		r, err := reflector.New(reflector.Config[*corev1.Pod]{Name: "node <a>", ListerWatcher: lw, Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		page, err := debugpage.New(debugpage.Config{Registry: registry, MaxAge: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		get := func(path string) string {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			return w.Body.String()
		}
		if text := get("/?format=html"); !strings.Contains(text, "No reflector runs.") {
			t.Errorf("before the start:\n%s", text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		// It subscribes first: later it would find what had changed by then merged into its snapshot.
		subscribed := make(chan struct{})
		go func() {
			for range r.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{Name: "stuck & slow", OnStart: func() { close(subscribed) }}) {
				<-ctx.Done()
			}
		}()
		<-subscribed
		go func() {
			defer close(done)
			_ = r.Run(ctx)
		}()
		for r.Stats().Restarts[reason.Forbidden] < 3 {
			time.Sleep(time.Second)
		}
		if err := play.Err(); err != nil {
			t.Fatalf("%v\n%s", err, play.Transcript())
		}

		text := regexp.MustCompile(`\s+`).ReplaceAllString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(get("/?format=html"), " "), " ")
		for _, want := range []string{
			"1 reflector 0 fine 1 not fresh 1 backing off 1 quarantined 2 objects",
			"node &lt;a&gt; pods BackingOff not fresh quarantined",
			"snapshot complete, 2 objects of pods", "resourceVersion 120", "last restart forbidden,",
			"alert(&#34;no&#34;)",
			"transport 2", "expired 1", "watch-lists success 2", "1 were there already",
			"ADDED 5 · MODIFIED 1 · BOOKMARK 2", "decode errors 2",
			"stuck &amp; slow coalesce 4 of 1\u202f024",
			"&lt;b&gt;bad&lt;/b&gt; 91 ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		var shown struct {
			Reflectors []struct {
				Status struct {
					Name, State, ResourceVersion string
					NextAttempt                  time.Time
					LastRestart                  struct{ Reason, Err string }
					Quarantined                  []struct{ Key string }
				}
				Stats struct {
					Restarts            map[string]int
					BackoffDelaySeconds float64
					Mailboxes           []struct{ Depth int }
				}
				Trouble []string
			}
		}
		raw := get("/")
		if err := json.Unmarshal([]byte(raw), &shown); err != nil || len(shown.Reflectors) != 1 {
			t.Fatalf("%v:\n%s", err, raw)
		}
		got := shown.Reflectors
		s, c := got[0].Status, got[0].Stats
		if s.Name != "node <a>" || s.State != "BackingOff" || s.ResourceVersion != "120" || s.LastRestart.Reason != "forbidden" || len(s.Quarantined) != 1 ||
			!s.NextAttempt.After(time.Now()) || c.BackoffDelaySeconds < 1 || c.BackoffDelaySeconds > 240 || c.Restarts["transport"] != 2 || c.Mailboxes[0].Depth != 4 {
			t.Errorf("got %+v of\n%s", got[0], raw)
		}
		if t.Failed() {
			t.Log(text)
		}
		cancel()
		<-done
		if text := get("/"); !strings.Contains(text, `"Reflectors": []`) {
			t.Errorf("after the end: %s", text)
		}
	})
}
