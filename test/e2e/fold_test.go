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
const convergence = 60 * time.Second

// A fold is the collection that a stream of events describes. It notes where
// the stream contradicts itself.
//
// It goes by UID, not by name: where one stream tells of several nodes, events
// are in order for each object only, and the delete of a pod on one node may
// come after the creation of its successor, of the same name, on another. A
// stream of one collection has no such excuse: oneCollection says so.
type fold struct {
	oneCollection bool

	mu      sync.Mutex
	objects map[string]string // resourceVersion by object, see identity.object
	names   map[string]string // UID of the pod that has the name
	last    map[string]uint64 // newest resourceVersion by UID
	events  int
	faults  []string
	changed chan struct{} // closed and replaced by each event
}

// identity is one version of one object.
type identity struct{ Key, UID, ResourceVersion string }

// object names the object of all these versions.
func (id identity) object() string { return id.Key + " " + id.UID }

func newFold(oneCollection bool) *fold {
	return &fold{oneCollection: oneCollection, names: map[string]string{}, objects: map[string]string{}, last: map[string]uint64{}, changed: make(chan struct{})}
}

// apply takes one event: ADDED, MODIFIED or DELETED.
func (f *fold) apply(kind string, id identity, finalStateUnknown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	have, known := f.objects[id.object()]
	fault := func(what string) {
		f.faults = append(f.faults, fmt.Sprintf("%s %v: %s; known was %q", kind, id, what, have))
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
		if uid, taken := f.names[id.Key]; taken && f.oneCollection {
			fault("added before the delete of its predecessor " + uid)
		}
		f.names[id.Key] = id.UID
		f.objects[id.object()] = id.ResourceVersion
	case "MODIFIED":
		if !known {
			fault("was not there")
		}
		f.objects[id.object()] = id.ResourceVersion
	case "DELETED":
		if !known {
			fault("was not there")
		}
		delete(f.objects, id.object())
		if f.names[id.Key] == id.UID {
			delete(f.names, id.Key)
		}
	default:
		fault("no such type of event")
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits, as long as ctx allows, until the fold is want, and reports every contradiction.
func (f *fold) await(ctx context.Context, t *testing.T, name string, want map[string]string) {
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

// stateOf asks the server for the pods that match, in the form of fold.objects.
func stateOf(ctx context.Context, t *testing.T, client *kubernetes.Clientset, options metav1.ListOptions) map[string]string {
	t.Helper()
	list, err := client.CoreV1().Pods("").List(ctx, options)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	state := map[string]string{}
	for i := range list.Items {
		id := identify(&list.Items[i])
		state[id.object()] = id.ResourceVersion
	}
	return state
}

func identify(pod *corev1.Pod) identity {
	return identity{pod.Namespace + "/" + pod.Name, string(pod.UID), pod.ResourceVersion}
}
