package listwatch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

const plantedToken = "planted-token-c0ffee"

func withToken(c *Config) { c.REST.BearerToken = plantedToken }

// redirectTo answers /api/... with a redirect and anything else with a list.
func redirectTo(code int, location string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			w.Header().Set("Location", location)
			w.WriteHeader(code)
			return
		}
		answerWith(200, mediaJSON, emptyList)(w, r)
	}
}

func TestRedirectToTheSameServerIsFollowed(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		server := note(t, redirectTo(code, "/elsewhere?resourceVersion=7"))
		_, meta, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, withToken)
		if err != nil || meta.ResourceVersion != "1" {
			t.Fatalf("%d: %v", code, err)
		}
		second := server.seen()[1]
		if second.Method != "GET" || second.URL.String() != "/elsewhere?resourceVersion=7" || second.Header.Get("Authorization") != "Bearer "+plantedToken {
			t.Errorf("%d: %s %s with %q", code, second.Method, second.URL, second.Header)
		}
	}
}

// "A redirect is followed only to the same scheme and host, at most
// MaxRedirects times, so that credentials go to no other host."
func TestRedirectToAnotherHostIsRefused(t *testing.T) {
	other := note(t, answerWith(200, mediaJSON, emptyList))
	for name, location := range map[string]string{
		"another port":     other.URL + "/api/v1/pods?token=in-the-location",
		"another scheme":   strings.Replace(other.URL, "http:", "https:", 1),
		"another name":     strings.Replace(other.URL, "127.0.0.1", "localhost", 1),
		"scheme relative":  strings.TrimPrefix(other.URL, "http:") + "/x",
		"a file":           "file:///etc/passwd",
		"with credentials": "", // filled below
	} {
		t.Run(name, func(t *testing.T) {
			var server *requests
			server = note(t, func(w http.ResponseWriter, r *http.Request) {
				to := location
				if to == "" {
					to = strings.Replace(server.URL, "http://", "http://user:in-the-location@", 1) + "/elsewhere"
				}
				redirectTo(302, to)(w, r)
			})
			for _, verb := range []string{verbList, verbWatch} {
				lw := newFor[*corev1.Pod](t, server.URL, withToken)
				var err error
				if verb == verbList {
					_, err = lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
				} else {
					_, err = lw.Watch(t.Context(), metav1.ListOptions{})
				}
				e := mustFail(t, err, reason.Rejected)
				if e.Code != 302 || !strings.Contains(err.Error(), "refused: credentials go only to "+server.URL) {
					t.Errorf("error is %d %q", e.Code, err)
				}
				if strings.Contains(err.Error(), "in-the-location") || strings.Contains(e.URL, "in-the-location") {
					t.Errorf("the error shows what is secret: %q", err)
				}
			}
		})
	}
	if n := len(other.seen()); n != 0 {
		t.Errorf("the other host got %d requests", n)
	}
}

func TestRedirectsAreCounted(t *testing.T) {
	server := note(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Path+"x")
		w.WriteHeader(302)
	})
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Rejected)
	if n := len(server.seen()); n != 1+MaxRedirects || !strings.Contains(err.Error(), fmt.Sprintf("more than %d redirects", MaxRedirects)) {
		t.Errorf("%d requests, error %q", n, err)
	}
}

func TestRedirectWithoutALocation(t *testing.T) {
	for _, location := range []string{"", "http://[::1", "%zz"} {
		server := serveRaw(t, func(*http.Request) []byte {
			return []byte("HTTP/1.1 302 Found\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
		})
		_, _, err := list[*corev1.Pod](t, server.addr, metav1.ListOptions{}, nil)
		if e := mustFail(t, err, reason.Rejected); e.Code != 302 {
			t.Errorf("Location %q: %v", location, err)
		}
	}
	server := serve(t, answerWith(304, mediaJSON, ""))
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Rejected)
}
