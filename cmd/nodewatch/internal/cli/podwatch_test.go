package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
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
		took := func(first item) (string, time.Duration) {
			began := time.Now()
			return names(batch(first, items)), time.Since(began)
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
	if n := len(batch(itemOf("first", false), items)); n != maxBatch {
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
