package podconfig

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestK3OnTheWire uses a real server: Content-Length larger than what comes, and redirects.
func TestK3OnTheWire(t *testing.T) {
	var mu sync.Mutex
	var elsewhere []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		elsewhere = append(elsewhere, r.Header)
		io.WriteString(w, podList("other", "one:1"))
	}))
	defer other.Close()
	var auth []string
	mux := http.NewServeMux()
	mux.HandleFunc("/short", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10000")
		io.WriteString(w, podList("a", "one:1"))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, io.LimitReader(zeros{}, MaxManifestBytes+1))
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/pods", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/x", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/pods", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		auth = append(auth, r.Header.Get("Authorization")+"|"+r.Header.Get("X-Token"))
		io.WriteString(w, podList("a", "one:1"))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()

	// get makes one request of a new source.
	get := func(path string, change func(*URLConfig)) (pods []*corev1.Pod, err error) {
		t.Helper()
		c := URLConfig{URL: srv.URL + path, Node: "n1", Header: http.Header{"Authorization": {"Bearer secret"}, "X-Token": {"secret"}}}
		if change != nil {
			change(&c)
		}
		u, err := NewURL(c)
		if err != nil {
			t.Fatal(err)
		}
		defer u.fetcher.close()
		err = u.once(t.Context(), func(c Change) { pods = c.Pods })
		return pods, err
	}
	for _, tc := range []struct{ path, want string }{
		{"/short", "ends before its announced end"}, {"/large", "larger than 10485760 bytes"}, {"/there", "redirect to another host"},
		{"/round", "more than 10 redirects"}, {"/file", "redirect from http to file"}, {"/none", "404 Not Found"},
	} {
		if pods, err := get(tc.path, nil); err == nil || !strings.Contains(err.Error(), tc.want) || pods != nil {
			t.Errorf("%s: %d pods, error %v, want %q", tc.path, len(pods), err, tc.want)
		}
	}
	if len(elsewhere) != 0 {
		t.Errorf("the other host was asked")
	}
	if pods, err := get("/here", nil); err != nil || len(pods) != 1 || auth[0] != "Bearer secret|secret" {
		t.Errorf("a redirect on the same host: %d pods, error %v, headers %q", len(pods), err, auth)
	}
	if pods, err := get("/there", func(c *URLConfig) { c.Redirects = RedirectsAnyHost }); err != nil || len(pods) != 1 {
		t.Errorf("a redirect that is allowed: %d pods, error %v", len(pods), err)
	}
	if len(elsewhere) != 1 || strings.Contains(fmt.Sprint(elsewhere), "secret") || strings.Contains(fmt.Sprint(elsewhere), srv.URL) {
		t.Errorf("the other host got %v", elsewhere)
	}
	if pods, err := get("/there", func(c *URLConfig) { c.Behaviour = KubeletCompatible }); err != nil || len(pods) != 1 {
		t.Errorf("the kubelet's redirect: %d pods, error %v", len(pods), err)
	}
}

// TestRedirectRules is about what net/http would do of itself.
func TestRedirectRules(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		rule     Redirects
		kept, ok bool
	}{
		{"https://a.example/x", "https://a.example/y", RedirectsSameHost, true, true},
		{"https://a.example/x", "https://a.example:443/y", RedirectsSameHost, true, true},
		{"http://a.example/x", "https://a.example/y", RedirectsSameHost, true, true},
		{"https://a.example/x", "https://A.Example/y", RedirectsSameHost, true, true}, // RFC 3986, 3.2.2
		{"https://a.example/x", "http://a.example/y", RedirectsSameHost, false, false},
		{"https://a.example/x", "http://a.example/y", RedirectsAnyHost, false, false},
		{"https://a.example/x", "https://a.example:8443/y", RedirectsSameHost, false, false},
		{"https://a.example/x", "https://a.example:8443/y", RedirectsAnyHost, false, true},
		// net/http sends an Authorization to subdomains.
		{"https://a.example/x", "https://sub.a.example/y", RedirectsSameHost, false, false},
		{"https://a.example/x", "https://sub.a.example/y", RedirectsAnyHost, false, true},
		{"http://a.example/x", "http://b.example/y", RedirectsAnyHost, false, true},
	} {
		u, err := NewURL(URLConfig{URL: tc.from, Node: "n", Redirects: tc.rule})
		if err != nil {
			t.Fatal(err)
		}
		first := httptest.NewRequest(http.MethodGet, tc.from, nil)
		next := httptest.NewRequest(http.MethodGet, tc.to, nil)
		next.Header.Set("X-Token", "secret")
		err = u.fetcher.checkRedirect(next, []*http.Request{first})
		if (err == nil) != tc.ok {
			t.Errorf("%s to %s under %s: error %v, want followed %v", tc.from, tc.to, tc.rule, err, tc.ok)
		} else if tc.ok && (next.Header.Get("X-Token") != "") != tc.kept {
			t.Errorf("%s to %s under %s: headers %v, want kept %v", tc.from, tc.to, tc.rule, next.Header, tc.kept)
		}
	}
}

type zeros struct{}
