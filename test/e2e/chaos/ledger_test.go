package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// versions is a collection: UID and resourceVersion by namespace/name.
type versions map[string]string

func (v versions) set(pod *corev1.Pod) {
	v[pod.Namespace+"/"+pod.Name] = string(pod.UID) + " " + pod.ResourceVersion
}

// differ counts the objects in which two collections differ.
func (v versions) differ(other versions) int {
	n := 0
	for name, version := range v {
		if other[name] != version {
			n++
		}
	}
	for name := range other {
		if _, ok := v[name]; !ok {
			n++
		}
	}
	return n
}

// A ledger is what the events of one client add up to.
type ledger struct {
	mu      sync.Mutex
	pods    versions
	events  int
	faults  []string
	markers map[string]time.Time // when the first event of a marker came
	changed chan struct{}        // closed and replaced with each marker
}

func newLedger() *ledger {
	return &ledger{pods: versions{}, markers: map[string]time.Time{}, changed: make(chan struct{})}
}

// apply takes one event: old is nil for an add, now for a delete. A pod that was
// replaced by one of the same name may come as one change of the name.
func (l *ledger) apply(old, now *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	pod := now
	if pod == nil {
		pod = old
	}
	name := pod.Namespace + "/" + pod.Name
	_, known := l.pods[name]
	if known != (old != nil) {
		l.faults = append(l.faults, fmt.Sprintf("%s: known before: %v, and an event that says %v", name, known, old != nil))
	}
	if now == nil {
		delete(l.pods, name)
		return
	}
	l.pods.set(now)
	if _, seen := l.markers[now.Name]; !seen && strings.HasPrefix(now.Name, markerPrefix) {
		l.markers[now.Name] = time.Now()
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// sees waits for the first event of a marker and returns when it came.
func (l *ledger) sees(ctx context.Context, marker string) (time.Time, bool) {
	for {
		l.mu.Lock()
		at, ok := l.markers[marker]
		changed := l.changed
		l.mu.Unlock()
		if ok {
			return at, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, false
		}
	}
}

// copied returns the collection as it is now, and what contradicts itself.
func (l *ledger) copied() (versions, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods := make(versions, len(l.pods))
	for name, version := range l.pods {
		pods[name] = version
	}
	return pods, append([]string(nil), l.faults...)
}
