package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// convergence bounds the wait for a watcher to know what the server knows. It
// covers the longest backoff after a crash.
const convergence = 20 * time.Second

// A fold is the collection that a stream of events describes. It notes where
// the stream contradicts itself.
type fold struct {
	mu      sync.Mutex
	objects map[string]identity // by namespace/name
	last    map[string]uint64   // newest resourceVersion by UID
	events  int
	faults  []string
	changed chan struct{} // closed and replaced by each event
}

// identity is one version of one object.
type identity struct{ UID, ResourceVersion string }

func newFold() *fold {
	return &fold{objects: map[string]identity{}, last: map[string]uint64{}, changed: make(chan struct{})}
}

// apply takes one event: ADDED, MODIFIED or DELETED.
func (f *fold) apply(kind, key string, id identity, finalStateUnknown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	have, known := f.objects[key]
	fault := func(what string) {
		f.faults = append(f.faults, fmt.Sprintf("%s %s %v: %s; known was %v", kind, key, id, what, have))
	}
	rv, err := strconv.ParseUint(id.ResourceVersion, 10, 64)
	switch {
	case err != nil:
		fault("no resourceVersion")
	// An object whose delete was found by a list has no newer version.
	case rv < f.last[id.UID], rv == f.last[id.UID] && !finalStateUnknown:
		fault(fmt.Sprintf("the newest version of this UID was %d", f.last[id.UID]))
	}
	f.last[id.UID] = max(rv, f.last[id.UID])
	switch kind {
	case "ADDED":
		if known {
			fault("added again")
		}
		f.objects[key] = id
	case "MODIFIED":
		if !known || have.UID != id.UID {
			fault("was not there")
		}
		f.objects[key] = id
	case "DELETED":
		if !known || have.UID != id.UID {
			fault("was not there")
		}
		delete(f.objects, key)
	default:
		fault("no such type of event")
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits, as long as ctx allows, until the fold is want, and reports every contradiction.
func (f *fold) await(ctx context.Context, t *testing.T, name string, want map[string]identity) {
	t.Helper()
	for {
		f.mu.Lock()
		diff := cmp.Diff(want, f.objects)
		changed, faults := f.changed, f.faults
		f.mu.Unlock()
		if diff == "" {
			if len(faults) > 0 {
				t.Errorf("%s: the events contradict themselves:\n%s", name, strings.Join(faults, "\n"))
			}
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Errorf("%s: not the server's state in time (- server, + folded):\n%s", name, diff)
			return
		}
	}
}

// count returns the number of events so far.
func (f *fold) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

// stateOf asks the server for the identities of the pods that match.
func stateOf(ctx context.Context, t *testing.T, client *kubernetes.Clientset, options metav1.ListOptions) map[string]identity {
	t.Helper()
	list, err := client.CoreV1().Pods("").List(ctx, options)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	state := map[string]identity{}
	for i := range list.Items {
		key, id := identify(&list.Items[i])
		state[key] = id
	}
	return state
}

func identify(pod *corev1.Pod) (key string, id identity) {
	return pod.Namespace + "/" + pod.Name, identity{string(pod.UID), pod.ResourceVersion}
}
