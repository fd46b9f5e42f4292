package listwatchtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestListSemantics is the table "semantics for get and list" of the API
// concepts page: pods p-0 to p-4 are made, then p-0 is deleted and p-1 labelled.
func TestListSemantics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{FreshWait: -1})
	rvs := f.createPods(5)
	must(t, f.srv.Delete(testPod("p-0", "")))
	labelled := testPod("p-1", "node-b")
	labelled.Labels = map[string]string{"app": "web"}
	must(t, f.srv.Update(labelled))
	must(t, f.srv.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	now := f.srv.ResourceVersion()
	early := fmt.Sprint(rvs[2])

	for _, c := range []struct {
		params string // as in a query, with EARLY, NOW and FUTURE for versions
		code   int
		want   string // names@version, or the message of an error
	}{
		{"", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"resourceVersion=0", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"resourceVersion=EARLY", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"resourceVersion=EARLY&resourceVersionMatch=NotOlderThan", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"resourceVersion=EARLY&resourceVersionMatch=Exact", 200, "p-0 p-1 p-2@EARLY"},
		{"resourceVersion=NOW&resourceVersionMatch=Exact", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"resourceVersion=0&resourceVersionMatch=NotOlderThan", 200, "p-1 p-2 p-3 p-4@NOW"},
		// With a limit and no match, a version is exact, as it was before resourceVersionMatch.
		{"resourceVersion=EARLY&limit=10", 200, "p-0 p-1 p-2@EARLY"},
		{"resourceVersion=EARLY&limit=10&resourceVersionMatch=NotOlderThan", 200, "p-1 p-2 p-3 p-4@NOW"},
		// Any version comes from the watch cache, which ignores a limit.
		{"resourceVersion=0&limit=2", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"limit=2", 200, "p-1 p-2@NOW remaining=2 continue"},
		{"limit=4", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"limit=1&labelSelector=app%3Dweb", 200, "p-1@NOW continue"},
		{"labelSelector=app%3Dweb", 200, "p-1@NOW"},
		{"labelSelector=app", 200, "p-1@NOW"},
		{"labelSelector=!app", 200, "p-2 p-3 p-4@NOW"},
		{"fieldSelector=spec.nodeName%3Dnode-b", 200, "p-1@NOW"},
		{"fieldSelector=spec.host%3Dnode-b", 200, "p-1@NOW"},
		{"fieldSelector=spec.nodeName%3Dnode-a,metadata.name!%3Dp-2", 200, "p-3 p-4@NOW"},
		{"fieldSelector=status.phase%3DRunning,metadata.namespace%3Ddefault", 200, "p-1 p-2 p-3 p-4@NOW"},
		{"fieldSelector=spec.nodeName%3Dnode-b&resourceVersion=EARLY&resourceVersionMatch=Exact", 200, "@EARLY"},
		{"resourceVersion=abc", 400, `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{"resourceVersion=FUTURE", 504, "Timeout: Too large resource version: FUTURE, current: NOW"},
		{"resourceVersion=FUTURE&resourceVersionMatch=Exact", 504, "Timeout: Too large resource version: FUTURE, current: NOW"},
		{"resourceVersionMatch=Exact", 422, `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
		{"resourceVersion=0&resourceVersionMatch=Exact", 422, `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"resourceVersion=EARLY&resourceVersionMatch=Newest", 422, `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""`},
		{"sendInitialEvents=true", 422, `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`},
		{"limit=two", 400, ""},
		{"labelSelector=a%3D%3D%3Db", 400, ""},
	} {
		t.Run(c.params, func(t *testing.T) {
			versions := strings.NewReplacer("EARLY", early, "NOW", fmt.Sprint(now), "FUTURE", fmt.Sprint(now+100))
			got := f.get(podsPath + "?" + versions.Replace(c.params))
			if got.code != c.code {
				t.Fatalf("answered with %d, want %d: %.300s", got.code, c.code, got.body)
			}
			text := got.status(t).Message
			if got.code == http.StatusOK {
				text = describe(got.podList(t))
			}
			if want := versions.Replace(c.want); c.want != "" && text != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
		})
	}
}

func describe(list *corev1.PodList) string {
	s := names(list) + "@" + list.ResourceVersion
	if n := list.RemainingItemCount; n != nil {
		s += fmt.Sprintf(" remaining=%d", *n)
	}
	if list.Continue != "" {
		s += " continue"
	}
	return s
}

func TestPagesAreOfOneVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.createPods(5)
	at := f.srv.ResourceVersion()
	first := f.get(query(podsPath, "limit", "2")).podList(t)
	must(t, f.srv.Delete(testPod("p-3", "")))
	must(t, f.srv.Create(testPod("p-2a", "node-a")))

	second := f.get(query(podsPath, "limit", "2", "continue", first.Continue)).podList(t)
	third := f.get(query(podsPath, "limit", "2", "continue", second.Continue)).podList(t)
	got := describe(first) + ", " + describe(second) + ", " + describe(third)
	want := fmt.Sprintf("p-0 p-1@%[1]d remaining=3 continue, p-2 p-3@%[1]d remaining=1 continue, p-4@%[1]d", at)
	if got != want {
		t.Errorf("pages\n got %s\nwant %s", got, want)
	}
	if bad := f.get(query(podsPath, "continue", first.Continue, "resourceVersion", "3")); bad.code != 400 ||
		bad.status(t).Message != "specifying resource version is not allowed when using continue" {
		t.Errorf("continue with a resourceVersion: %d %s", bad.code, bad.body)
	}
}

func TestContinueTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ token, want string }{
		{encodeContinue("", 5), "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"},
		{encodeContinue("/a", 0), "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"},
		{encodeContinue("/../secrets", 5), "continue key is not valid: /../secrets"},
		{"eyJ2IjoidjAifQ", "continue key is not valid: server does not recognize this encoded version v0"},
		{"%%%", "continue key is not valid: illegal base64 data at input byte 0"},
	} {
		if _, _, err := decodeContinue(c.token, "/"); err == nil || err.Error() != c.want {
			t.Errorf("token %q: error %v, want %s", c.token, err, c.want)
		}
	}
	if key, rv, err := decodeContinue(encodeContinue("/web-1\x00", -1), "/default/"); err != nil || key != "/default/web-1\x00" || rv != -1 {
		t.Errorf("a good token gives %q, %d, %v", key, rv, err)
	}
}

func TestNamespacedPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.createPods(3)
	for _, ns := range []string{"another", "zoo"} {
		pod := testPod("p-0", "node-a")
		pod.Namespace = ns
		must(t, f.srv.Create(pod))
	}
	path := "/api/v1/namespaces/default/pods"
	first := f.get(query(path, "limit", "2")).podList(t)
	rest := f.get(query(path, "limit", "2", "continue", first.Continue)).podList(t)
	if *first.RemainingItemCount != 1 || names(first) != "p-0 p-1" || names(rest) != "p-2" {
		t.Errorf("pages of one namespace: %s, then %s", describe(first), describe(rest))
	}
}

// TestListWaitsForTheFuture: a version that is not there yet is waited for.
func TestListWaitsForTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(1)
		next := fmt.Sprint(f.srv.ResourceVersion() + 1)

		start := time.Now()
		go func() {
			time.Sleep(2 * time.Second)
			f.srv.AdvanceResourceVersion(1)
		}()
		if got := describe(f.get(query(podsPath, "resourceVersion", next)).podList(t)); got != "p-0@"+next || time.Since(start) != 2*time.Second {
			t.Errorf("listed %s after %s, want the version as soon as it was there", got, time.Since(start))
		}

		start = time.Now()
		tooLarge := f.get(query(podsPath, "resourceVersion", "1000"))
		if tooLarge.code != 504 || tooLarge.header.Get("Retry-After") != "1" || time.Since(start) != 3*time.Second {
			t.Errorf("after %s: %d, Retry-After %q; want 504 after 3s", time.Since(start), tooLarge.code, tooLarge.header.Get("Retry-After"))
		}
	})
}

func TestWindowBoundsHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Window: 3})
	rvs := f.createPods(6)
	exact := func(rv uint64) answer {
		return f.get(query(podsPath, "resourceVersion", fmt.Sprint(rv), "resourceVersionMatch", "Exact"))
	}
	if got := exact(rvs[2]); got.code != 200 || names(got.podList(t)) != "p-0 p-1 p-2" {
		t.Errorf("the oldest version in the window: %d %.200s", got.code, got.body)
	}
	if got := exact(rvs[1]); got.code != 410 {
		t.Errorf("a version before the window: %d, want 410", got.code)
	}
	f.srv.SetWindow(0)
	if got := exact(rvs[4]); got.code != 410 {
		t.Errorf("with no window: %d, want 410", got.code)
	}
	if got := exact(rvs[5]); got.code != 200 {
		t.Errorf("the current version is always there: %d", got.code)
	}
}

// TestAnyVersionIsThatOfTheCache: a list of any version has the version up to
// which the collection was looked at, not the newest of all resources.
func TestAnyVersionIsThatOfTheCache(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.createPods(2) // versions 2 and 3
	f.reach(8)
	for _, c := range []struct{ version, want string }{{"0", "3"}, {"2", "3"}, {"4", "8"}, {"0", "8"}} {
		if got := f.get(query(podsPath, "resourceVersion", c.version)).podList(t).ResourceVersion; got != c.want {
			t.Errorf("a list at %s or later has version %s, want %s", c.version, got, c.want)
		}
	}
	f.reach(10)
	if got := f.get(podsPath).podList(t).ResourceVersion; got != "10" {
		t.Errorf("a consistent list has version %s", got)
	}
}
