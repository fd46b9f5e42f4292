package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func itemOf(name string, initial bool) item {
	return item{event: output.Event{Type: watch.Added, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}}, initial: initial}
}

func names(events []output.Event) string {
	var all []string
	for _, ev := range events {
		all = append(all, ev.Pod.Name)
	}
	return strings.Join(all, " ")
}

// TestBatch: what is there is taken together; the rows of a first list wait
// alignDelay for each other, or until it is complete; nothing else waits.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := make(chan item, 10)
		more := func() bool { return true }
		took := func(first item) (string, time.Duration) {
			began := time.Now()
			return names(batch(first, items, more)), time.Since(began)
		}
		check := func(what, got, want string, took, limit time.Duration) {
			t.Helper()
			if got != want || took != limit {
				t.Errorf("%s: got %q after %s, want %q after %s", what, got, took, want, limit)
			}
		}

		got, d := took(itemOf("a", false))
		check("a change alone", got, "a", d, 0)

		items <- itemOf("b", false)
		items <- itemOf("c", false)
		got, d = took(itemOf("a", false))
		check("changes that are there", got, "a b c", d, 0)

		go func() {
			time.Sleep(alignDelay / 2)
			items <- itemOf("b", true)
		}()
		got, d = took(itemOf("a", true))
		check("a first list that goes on", got, "a b", d, alignDelay)

		go func() {
			time.Sleep(alignDelay / 2)
			items <- itemOf("b", true)
			items <- item{synced: true, initial: true}
		}()
		got, d = took(itemOf("a", true))
		check("a first list that is complete", got, "a b", d, alignDelay/2)

		items <- itemOf("x", false)
		got, d = took(item{synced: true, initial: true})
		check("an empty first list", got, "x", d, 0)

		items <- itemOf("b", true)
		more = func() bool { return false }
		got, d = took(itemOf("a", true))
		check("a change while only a node that failed is missing", got, "a b", d, 0)
		more = func() bool { return true }

		close(items)
		got, d = took(itemOf("a", true))
		check("the end", got, "a", d, 0)
	})
}

func TestBatchIsBounded(t *testing.T) {
	items := make(chan item, 2*maxBatch)
	for i := range 2 * maxBatch {
		items <- itemOf(fmt.Sprint(i), false)
	}
	if n := len(batch(itemOf("first", false), items, nil)); n != maxBatch {
		t.Errorf("%d events in one batch, want %d", n, maxBatch)
	}
}

func TestQuiet(t *testing.T) {
	if err := quiet(fmt.Errorf("standard output: %w", syscall.EPIPE)); err != nil {
		t.Errorf("a reader that went away is a failure: %v", err)
	}
	if err := quiet(errors.New("disk full")); err == nil {
		t.Error("a full disk is no failure")
	}
}

// lockedBuffer is a standard output that can be looked at while it is written to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// await waits until a command that runs has written text so many times.
func await(t *testing.T, ended <-chan int, b *lockedBuffer, text string, times int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for strings.Count(b.String(), text) < times {
		select {
		case status := <-ended:
			t.Fatalf("it ended with status %d before it wrote %q\n%s", status, text, b.String())
		case <-deadline:
			t.Fatalf("it does not write %q\n%s", text, b.String())
		case <-time.After(time.Millisecond):
		}
	}
}

// gate is an API server behind a proxy that holds back what comes of the
// watches of one node while it is shut.
type gate struct {
	*httptest.Server
	mu   sync.RWMutex // locked for writing while it is shut
	node string
}

func newGate(t *testing.T, target, node string) *gate {
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{node: node}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.Contains(r.Request.URL.Query().Get("fieldSelector"), node) {
			r.Body = gatedBody{r.Body, &g.mu}
		}
		return nil
	}
	g.Server = httptest.NewServer(proxy)
	return g
}

type gatedBody struct {
	io.ReadCloser
	gate *sync.RWMutex
}

func (b gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.RLock()
	defer b.gate.RUnlock()
	return n, err
}

// TestTwoNodes: a pod is deleted on one node and created under its name on
// another, and the watch of the first node lags behind. A reader who keeps pods
// by their names has the new one in the end.
func TestTwoNodes(t *testing.T) {
	server := listwatchtest.Start(listwatchtest.Config{})
	defer server.Close()
	proxy := newGate(t, server.URL(), "node-a")
	defer proxy.Close()
	place := func(name, node string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		if err := server.Create(pod); err != nil {
			t.Fatal(err)
		}
	}
	place("web-0", "node-a")
	place("other", "node-b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout lockedBuffer
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"nodewatch", "pods", "--server", proxy.URL, "--node", "node-a", "--node", "node-b", "--output-watch-events",
			"-o", `jsonpath={.type} {.object.metadata.name} {.object.spec.nodeName} {.finalStateUnknown}{"\n"}`},
			&streams{out: &stdout, err: &terminal{w: &stderr}})
	}()
	wait := func(text string) {
		t.Helper()
		await(t, ended, &stdout, text, 1)
	}
	wait("ADDED web-0 node-a")
	wait("ADDED other node-b")
	proxy.mu.Lock()
	if err := server.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}); err != nil {
		t.Fatal(err)
	}
	place("web-0", "node-b")
	wait("ADDED web-0 node-b")
	proxy.mu.Unlock()
	place("last", "node-a") // comes after the delete that was held back
	wait("ADDED last node-a")
	cancel()
	if status := <-ended; status != exitOK {
		t.Fatalf("status %d\n%s", status, stderr.String())
	}
	_, after, _ := strings.Cut(stdout.String(), "ADDED other node-b")
	var got []string
	for line := range strings.Lines(after) {
		if line = strings.TrimSpace(line); strings.Contains(line, "web-0") {
			got = append(got, line)
		}
	}
	want := []string{"DELETED web-0 node-a true", "ADDED web-0 node-b"}
	if i := slices.Index(got, "ADDED web-0 node-a"); i >= 0 {
		got = slices.Delete(got, i, i+1) // the first lists of two nodes come in any order
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q in\n%s", got, want, stdout.String())
	}
}

// fullDisk is a standard output that cannot be written to.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOutputFails: what cannot be written, or rendered, is a failure with its reason.
func TestOutputFails(t *testing.T) {
	server := listwatchtest.Start(listwatchtest.Config{})
	defer server.Close()
	if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: corev1.PodSpec{NodeName: "node-a"}}); err != nil {
		t.Fatal(err)
	}
	base := []string{"nodewatch", "pods", "--server", server.URL(), "--node", "node-a"}
	for _, once := range []string{"--once", "--once=false"} {
		var stderr bytes.Buffer
		status := run(t.Context(), append(base, once), &streams{out: fullDisk{}, err: &terminal{w: &stderr}})
		if status != exitFailed || !strings.HasSuffix(stderr.String(), "error: standard output: no space left on device\n") {
			t.Errorf("%s: status %d\n%s", once, status, stderr.String())
		}
		var stdout bytes.Buffer
		stderr.Reset()
		status = run(t.Context(), append(base, once, "-o", "go-template={{index .metadata.name 99}}"), &streams{out: &stdout, err: &terminal{w: &stderr}})
		if status != exitFailed || !strings.Contains(stderr.String(), "error: pod default/a: ") || stdout.Len() > 0 {
			t.Errorf("%s: status %d, output %q\n%s", once, status, stdout.String(), stderr.String())
		}
	}
}

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		listed, remaining int64
		missing, nodes    int
		want              string
	}{
		{0, 0, 1, 1, "waiting for the first list (3s)"},
		{1500, 0, 1, 1, "listing: 1500 pods (3s)"},
		{1500, 8500, 1, 1, "listing: 1500 pods (3s), about 8500 to come"},
		{10, 0, 1, 3, "listing: 10 pods (3s), 2 of 3 nodes complete"},
	} {
		if got := progressLine(c.listed, c.remaining, c.missing, c.nodes, 3400*time.Millisecond); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
