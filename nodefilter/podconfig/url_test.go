package podconfig

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestK1RefusedThenPodList: not seen until the first good answer.
func TestK1RefusedThenPodList(t *testing.T) {
	log := new(logLines)
	inURLWorld(t, URLConfig{Logger: log.logger(), Period: time.Second}, refused, func(w *urlWorld) {
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if w.n() != 0 || w.url.Status().Seen {
			t.Errorf("told %d changes and seen is %v before an answer", w.n(), w.url.Status().Seen)
		}
		w.wantsFault("", "connection refused")
		w.says(body(podList("a", "one:1", "b", "two:2")))
		time.Sleep(time.Second)
		synctest.Wait()
		w.wants(1, "a-n1=one:1 b-n1=two:2")
		if c := w.last(); !c.Full || !c.Initial || !w.url.Status().Seen {
			t.Errorf("the first change is %+v", c)
		}
		w.wantsFault("", "")
		for _, p := range w.last().Pods {
			if p.Annotations["kubernetes.io/config.source"] != "http" || len(p.Spec.Tolerations) != 0 || p.Spec.NodeName != "n1" {
				t.Errorf("the pod is %+v", p)
			}
		}
		if got := log.String(); strings.Contains(got, "secret") {
			t.Errorf("the log has the password:\n%s", got)
		}
	})
}

// TestFailuresAreSaidThreeTimes: then quietly, and aloud again after a success.
func TestFailuresAreSaidThreeTimes(t *testing.T) {
	log := new(logLines)
	inURLWorld(t, URLConfig{Logger: log.logger()}, refused, func(w *urlWorld) {
		w.period(10)
		if got := log.count("cannot be used"); got != 3 {
			t.Errorf("eleven failures were said %d times, want 3", got)
		}
		w.wantsFault("", "connection refused")
		if got := w.url.Status().Errors[0].Count; got != 11 {
			t.Errorf("the count is %d, want 11", got)
		}
		w.says(body(podList()))
		w.period(1)
		w.says(status(503, ""))
		w.period(1)
		if got := log.count("cannot be used"); got != 4 {
			t.Errorf("a failure after a success was not said:\n%s", log)
		}
		w.wantsFault("", "503 Service Unavailable")
		w.wants(1, "")
	})
}

// TestK2Headers: split at the first colon; repeated headers; sent as given.
func TestK2Headers(t *testing.T) {
	h, err := ParseURLHeaders([]string{"Authorization: Bearer a:b:c", "X-A:one", "X-A: two,three"})
	if err != nil {
		t.Fatal(err)
	}
	inURLWorld(t, URLConfig{Header: h}, body(podList()), func(w *urlWorld) {
		r, _ := w.lastRequest()
		if got := r.Header.Get("Authorization"); got != "Bearer a:b:c" {
			t.Errorf("Authorization is %q", got)
		}
		if got := strings.Join(r.Header.Values("X-A"), "|"); got != "one|two,three" {
			t.Errorf("X-A is %q", got)
		}
	})
	for _, tc := range []struct{ text, want string }{
		{"nothing", "header 1 has no colon"}, {":x", "name is empty"}, {"a b: c", `"a b" is not a name`}, {"a: secret\nX: y", "control character"},
	} {
		if _, err := ParseURLHeaders([]string{tc.text}); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want %q and no value", tc.text, err, tc.want)
		}
	}
}

// TestK3InvalidBody: an invalid body twice is never a success; the last good pods are kept.
func TestK3InvalidBody(t *testing.T) {
	for _, behaviour := range []Behaviour{Improved, KubeletCompatible} {
		inURLWorld(t, URLConfig{Behaviour: behaviour}, body(podList("a", "one:1")), func(w *urlWorld) {
			for i, bad := range []func(*http.Request) (*http.Response, error){
				body("kind: ["), body("kind: ["), body("hello"), body(`{"apiVersion":"v1","kind":"Service"}`), body(manifestText("''", "x:1")),
				status(404, podList()), status(304, ""), status(204, ""), body(podList("a", "one:1", "b", "")[:40]),
				body(podList("a", "two:2") + strings.Repeat(" ", MaxManifestBytes)),
			} {
				w.says(bad)
				w.period(1)
				w.wants(1, "a-n1=one:1")
				if s := w.url.Status(); len(s.Errors) != 1 {
					t.Errorf("answer %d: the faults are %v, want one", i, s.Errors)
				}
			}
			w.says(body(podList("a", "one:1")))
			w.period(1)
			w.wantsFault("", "")
			w.wants(1, "a-n1=one:1")
		})
	}
}

// TestK3EmptyBody: an error that changes nothing; the kubelet takes it for no pods.
// A list without items is no pods.
func TestK3EmptyBody(t *testing.T) {
	inURLWorld(t, URLConfig{}, body(""), func(w *urlWorld) {
		w.wants(0, "")
		w.says(body(podList("a", "one:1")))
		w.period(1)
		w.says(body(""))
		w.period(1)
		w.wants(1, "a-n1=one:1")
		w.wantsFault("", "empty")
		w.says(body(podList()))
		w.period(1)
		w.wants(2, "")
		w.wantsFault("", "")
	})
	inURLWorld(t, URLConfig{Behaviour: KubeletCompatible}, body(podList("a", "one:1")), func(w *urlWorld) {
		w.says(body(""))
		w.period(1)
		w.wants(2, "")
		w.wantsFault("", "empty")
		// The kubelet takes the answer before the empty one for nothing new. One that it
		// refused in between makes it new.
		w.says(body(podList("a", "one:1")))
		w.period(1)
		w.wants(2, "")
		w.says(body("kind: ["))
		w.period(1)
		w.says(body(podList("a", "one:1")))
		w.period(1)
		w.wants(3, "a-n1=one:1")
	})
}

// TestK3OneInvalidOfThree: the others are good, and this one keeps its last good version.
func TestK3OneInvalidOfThree(t *testing.T) {
	good, bad := podList("a", "one:1", "b", "one:1", "c", "one:1"), podList("a", "two:2", "b", "", "c", "two:2")
	inURLWorld(t, URLConfig{}, body(good), func(w *urlWorld) {
		w.wants(1, "a-n1=one:1 b-n1=one:1 c-n1=one:1")
		w.says(body(bad, "ETag", `"2"`))
		w.period(1)
		w.wants(2, "a-n1=two:2 b-n1=one:1 c-n1=two:2")
		w.wantsFault("items[1]", "line 1: spec.containers[0].image: Required value")
		w.wantsFault("items[1]", "the pod default/b-n1 stays")
		// The same again, and a 304 to it, are no success for this item.
		w.period(1)
		w.says(status(304, ""))
		w.period(1)
		w.wantsFault("items[1]", "Required value")
		if got := w.url.Status().Errors[0].Count; got != 3 {
			t.Errorf("the fault was counted %d times, want 3", got)
		}
		// It leaves the list, and nothing is left of it.
		w.says(body(podList("a", "two:2")))
		w.period(1)
		w.wants(3, "a-n1=two:2")
		if s := w.url.Status(); len(s.Errors) != 0 {
			t.Errorf("faults: %v", s.Errors)
		}
	})
	// At the start there is no last good version.
	inURLWorld(t, URLConfig{}, body(bad), func(w *urlWorld) {
		w.wants(1, "a-n1=two:2 c-n1=two:2")
	})
	// The kubelet refuses the whole list.
	inURLWorld(t, URLConfig{Behaviour: KubeletCompatible}, body(good), func(w *urlWorld) {
		w.says(body(bad))
		w.period(1)
		w.wants(1, "a-n1=one:1 b-n1=one:1 c-n1=one:1")
		w.wantsFault("", "items[1]")
	})
	// An invalid item of which nobody knows which pod it was: all of them stay.
	inURLWorld(t, URLConfig{}, body(good), func(w *urlWorld) {
		w.says(body(podList("a", "two:2", "", "x:1")))
		w.period(1)
		w.wants(2, "a-n1=two:2 b-n1=one:1 c-n1=one:1")
		w.says(body(strings.Replace(podList("a", "two:2", "b", "x:1"), `{"metadata":{"name":"b"}`, `{"kind":"Service","metadata":{"name":"b"}`, 1)))
		w.period(1)
		w.wants(3, "a-n1=two:2 b-n1=one:1")
		w.wantsFault("items[1]", "items[1] is a Service, not a Pod")
	})
}

func TestURLNameTwice(t *testing.T) {
	inURLWorld(t, URLConfig{}, body(podList("a", "one:1", "a", "two:2")), func(w *urlWorld) {
		w.wants(1, "a-n1=one:1")
		w.wantsFault("items[1]", "default/a-n1")
		// The first one is invalid and not known: the second is taken.
		w.says(body(podList("a", "", "a", "two:2")))
		w.period(1)
		w.wants(1, "a-n1=one:1")
	})
}

// TestK3Conditional: 304 is a success, and asked for only by the validators of an
// answer that was good.
func TestK3Conditional(t *testing.T) {
	inURLWorld(t, URLConfig{}, body(podList("a", "one:1"), "ETag", `"1"`, "Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT"), func(w *urlWorld) {
		w.says(status(304, ""))
		w.period(1)
		r, n := w.lastRequest()
		if r.Header.Get("If-None-Match") != `"1"` || r.Header.Get("If-Modified-Since") != "Mon, 30 Nov 2026 12:00:00 GMT" || n != 2 {
			t.Errorf("request %d has the headers %v", n, r.Header)
		}
		w.wants(1, "a-n1=one:1")
		w.wantsFault("", "")
		// The answer that is no good has another tag: it is not sent back.
		w.says(body("kind: [", "ETag", `"2"`))
		w.period(1)
		w.says(status(304, ""))
		w.period(1)
		if r, _ := w.lastRequest(); r.Header.Get("If-None-Match") != `"1"` {
			t.Errorf("the tag of a bad answer was sent back: %v", r.Header)
		}
		w.wantsFault("", "")
		// No validators: no condition.
		w.says(body(podList("a", "two:2")))
		w.period(2)
		if r, _ := w.lastRequest(); r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != "" {
			t.Errorf("conditions without validators: %v", r.Header)
		}
		w.wants(2, "a-n1=two:2")
	})
}

// TestURLTimeout: a server that says nothing, or never ends, does not hold up the next try.
func TestURLTimeout(t *testing.T) {
	silent := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Request: r, Body: &endless{ctx: r.Context()}}, nil
	}
	inURLWorld(t, URLConfig{}, silent, func(w *urlWorld) {
		time.Sleep(DefaultURLTimeout)
		synctest.Wait()
		w.wantsFault("", "no whole answer within 10s")
		w.says(body(podList("a", "one:1")))
		w.period(1)
		w.wants(1, "a-n1=one:1")
	})
}

// endless is a body that comes to no end before its context does.
type endless struct{ ctx context.Context }

func (e *endless) Read([]byte) (int, error) { <-e.ctx.Done(); return 0, e.ctx.Err() }
func (e *endless) Close() error             { return nil }

// TestURLSamePod: what means the same is the same object, and no change.
func TestURLSamePod(t *testing.T) {
	inURLWorld(t, URLConfig{}, body(manifestText("a", "one:1")), func(w *urlWorld) {
		w.says(body("# a comment\n" + manifestText("a", "one:1")))
		w.period(1)
		w.wants(1, "a-n1=one:1")
		w.says(body(podList("a", "one:1")))
		w.period(1)
		w.wants(1, "a-n1=one:1")
	})
}

// TestURLUIDIsNotOfThePassword: a new password, or other headers, are the same pods.
func TestURLUIDIsNotOfThePassword(t *testing.T) {
	uid := func(url string) (uid types.UID) {
		inURLWorld(t, URLConfig{URL: url}, body(manifestText("a", "one:1")), func(w *urlWorld) { uid = w.last().Pods[0].UID })
		return uid
	}
	if a, b := uid("https://u:one@a.example/p"), uid("https://u:two@a.example/p"); a != b {
		t.Errorf("the UIDs are %s and %s, want one", a, b)
	}
	if a, b := uid("https://a.example/p"), uid("https://a.example/q"); a == b {
		t.Error("two URLs have one UID")
	}
}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

func TestURLConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		c    URLConfig
		want string
	}{
		{URLConfig{Node: "n"}, `URL has the scheme ""`},
		{URLConfig{Node: "n", URL: "ftp://user:secret@a/b"}, `URL has the scheme "ftp"`},
		{URLConfig{Node: "n", URL: "http://user:secret@a b/\x00"}, "URL is not a URL"},
		{URLConfig{URL: "http://a"}, "Node: nodefilter: the node name is empty"},
		{URLConfig{Node: "n", URL: "http://a", Header: http.Header{"A b": {"secret"}}}, "Header:"},
		{URLConfig{Node: "n", URL: "http://a", Period: -1}, "Period is -1ns"},
		{URLConfig{Node: "n", URL: "http://a", Timeout: -1}, "Timeout is -1ns"},
		{URLConfig{Node: "n", URL: "http://a", Redirects: "x"}, `Redirects is "x"`},
		{URLConfig{Node: "n", URL: "http://a", Behaviour: "x"}, `Behaviour is "x"`},
	} {
		if _, err := NewURL(tc.c); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: error %v, want %q", tc.c, err, tc.want)
		}
	}
	u, err := NewURL(URLConfig{Node: "n", URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Run(ctx, func(Change) {}); err != nil {
		t.Error(err)
	}
	if err := u.Run(ctx, func(Change) {}); !errors.Is(err, ErrAlreadyRun) {
		t.Errorf("the second Run: %v", err)
	}
}
