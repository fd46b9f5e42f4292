package listwatchtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzRequest: whatever is asked, the server answers, with a Status where it
// refuses, and keeps to memory in proportion to what it was sent.
func FuzzRequest(f *testing.F) {
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b","namespace":"default"},"spec":{"nodeName":"n1"}}`
	for _, target := range []string{
		"/api/v1/pods", "/api/v1/namespaces/default/pods/a", "/api", "/apis", "/version", "/api/v1", "/",
		"/api/v1/pods?limit=1&resourceVersion=1&resourceVersionMatch=NotOlderThan",
		"/api/v1/pods?limit=1&continue=" + encodeContinue("default/a\x00", 3),
		"/api/v1/pods?limit=-1&continue=" + encodeContinue("../x", -1),
		"/api/v1/pods?resourceVersion=99999999999999999999&timeoutSeconds=0x1",
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=app+in+(a,b),!c",
		"/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=2&allowWatchBookmarks=true",
		"/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1",
		"/api/v1/namespaces/default/pods?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Da",
	} {
		f.Add(http.MethodGet, target, "application/json", []byte(nil))
		f.Add(http.MethodGet, target, "application/vnd.kubernetes.protobuf;q=0.9, application/json;as=Table;g=meta.k8s.io;v=v1", []byte(nil))
	}
	f.Add(http.MethodPost, "/api/v1/namespaces/default/pods", "application/json", []byte(pod))
	f.Add(http.MethodPut, "/api/v1/namespaces/default/pods/a/status", "*/*", []byte(strings.ReplaceAll(pod, `"b"`, `"a"`)))
	f.Add(http.MethodPatch, "/api/v1/namespaces/default/pods/a", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":null}}}`))
	f.Add(http.MethodDelete, "/api/v1/namespaces/default/pods/a", "", []byte(`{"kind":"DeleteOptions","preconditions":{"uid":"u"}}`))
	f.Fuzz(func(t *testing.T, method, target, media string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" {
			return // net/http would not hand it on
		}
		if strings.IndexFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) >= 0 || method == "" {
			return
		}
		synctest.Test(t, func(t *testing.T) { fuzzRequest(t, method, u, media, body) })
	})
}

func fuzzRequest(t *testing.T, method string, u *url.URL, media string, body []byte) {
	srv := New(Config{FreshWait: -1})
	defer srv.Close()
	for _, name := range []string{"a", "z"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}}}
		if err := srv.Create(p); err != nil {
			t.Fatal(err)
		}
	}
	// A minute of virtual time: a watch ends then at the latest.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := (&http.Request{
		Method: method, URL: u, Host: "h", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Accept": {media}, "Content-Type": {media}},
		Body:          io.NopCloser(strings.NewReader(string(body))),
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	srv.Handler().ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20+1<<10*uint64(len(body)+len(u.RawQuery)) {
		t.Errorf("%d bytes allocated for %s %s with a body of %d", grown, method, u, len(body))
	}
	if w.Code < 200 || w.Code > 599 {
		t.Fatalf("%s %s is answered with %d", method, u, w.Code)
	}
	if w.Code < 400 || method == http.MethodHead || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		return
	}
	var s metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Kind != "Status" || int(s.Code) != w.Code {
		t.Errorf("%s %s is refused with %d and %q, which is no Status of it (%v)", method, u, w.Code, w.Body, err)
	}
}
