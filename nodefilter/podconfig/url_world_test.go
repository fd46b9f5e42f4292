package podconfig

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// podList is a PodList of manifests in JSON, of pairs of name and image; an image "" is invalid.
func podList(pairs ...string) string {
	var items []string
	for i := 0; i < len(pairs); i += 2 {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"app","image":%q}]}}`, pairs[i], pairs[i+1]))
	}
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}

// urlWorld is a URL source in a bubble with virtual time, with answers as a test gives them.
type urlWorld struct {
	t   *testing.T
	url *URL
	listener

	mu       sync.Mutex
	answer   func(*http.Request) (*http.Response, error)
	requests []*http.Request
}

func (w *urlWorld) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.answer(r)
}

// says makes the next answers.
func (w *urlWorld) says(answer func(*http.Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// last request, and how many there were.
func (w *urlWorld) lastRequest() (*http.Request, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[len(w.requests)-1], len(w.requests)
}

func body(text string, headers ...string) func(*http.Request) (*http.Response, error) {
	return status(http.StatusOK, text, headers...)
}

func status(code int, text string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Header: h,
			Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r}, nil
	}
}

func refused(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

const testURL = "https://user:secret@config.example/pods?token=secret"

func inURLWorld(t *testing.T, c URLConfig, first func(*http.Request) (*http.Response, error), test func(w *urlWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &urlWorld{t: t, answer: first}
		if c.URL == "" {
			c.URL = testURL
		}
		c.Node, c.Transport = "n1", w
		var err error
		if w.url, err = NewURL(c); err != nil {
			t.Fatal(err)
		}
		during(t, w.url, w.tell, 0, func() { test(w) })
	})
}

// period lets a number of periods go by.
func (w *urlWorld) period(n int) {
	time.Sleep(time.Duration(n) * DefaultURLPeriod)
	synctest.Wait()
}

func (w *urlWorld) wants(changes int, images string) {
	w.t.Helper()
	w.listener.wants(w.t, changes, images)
}

// wantsFault checks the fault at the URL, or at a part of it.
func (w *urlWorld) wantsFault(part, text string) {
	w.t.Helper()
	got := fault(w.url.Status(), strings.TrimSpace("https://config.example/pods?... "+part))
	if text == "" && got != "" || !strings.Contains(got, text) {
		w.t.Errorf("the fault of the URL %s is %q, want %q in it; all are %v", part, got, text, w.url.Status().Errors)
	}
}
