package syncloop

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WorkQueue holds pods that are to be synced at a later time. The loop looks at
// it with each sync tick, so that a delay is rounded up to the next one. A pod is
// in it once; it can be used from any goroutine. Its zero value is empty and ready.
type WorkQueue struct {
	mu  sync.Mutex
	due map[types.UID]time.Time
}

// Enqueue lets the pod be synced when delay is over. A time that it had before
// is replaced, also an earlier one.
func (q *WorkQueue) Enqueue(pod types.UID, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.due == nil {
		q.due = map[types.UID]time.Time{}
	}
	q.due[pod] = time.Now().Add(delay)
}

// take removes and returns the pods whose time has come, the earliest first.
func (q *WorkQueue) take(now time.Time) []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	type item struct {
		pod types.UID
		at  time.Time
	}
	var ready []item
	for pod, at := range q.due {
		if !at.After(now) {
			ready = append(ready, item{pod, at})
			delete(q.due, pod)
		}
	}
	slices.SortFunc(ready, func(a, b item) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.pod, b.pod)) })
	pods := make([]types.UID, len(ready))
	for i, r := range ready {
		pods[i] = r.pod
	}
	return pods
}

// Len is the number of pods that wait.
func (q *WorkQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.due)
}
