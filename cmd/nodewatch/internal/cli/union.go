package cli

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
)

// union makes one history of those of several reflectors. It keeps, for what is
// printed of several nodes, the promise that a reflector keeps for one: a
// changed UID under one name is DELETED(old) then ADDED(new).
//
// The watches of two nodes are not ordered with each other. A pod that is
// deleted on one node and created again under its name on another (as those of
// a StatefulSet are) can come before it goes, and a reader who keeps pods by
// their names would then remove the new one. So union knows what each source
// has under a name, and shows the newest of them: resourceVersions of one
// resource are comparable (KEP-5504), and all those of a pod are above all
// those of one that had its name before.
//
// A pod that another one followed never comes back, however long its source goes
// on to have it: it was told DELETED, or the one after it was seen to go.
//
// The pods that the output shows are thus always those of all sources together,
// of each name the newest. Memory is O(pods). A union is for one goroutine.
type union struct {
	pods map[types.NamespacedName]*namesakes
	// unsynced is how many sources have not handed over their first snapshot.
	unsynced int
}

// namesakes are the pods of one name.
type namesakes struct {
	bySource map[int]claim // what each source has
	shown    *corev1.Pod   // as it was printed last; nil for none
}

// claim is a source's word that a pod is there.
type claim struct {
	pod  *corev1.Pod
	over bool // another pod followed it: its source is behind
}

func newUnion(sources int) *union {
	return &union{pods: make(map[types.NamespacedName]*namesakes), unsynced: sources}
}

// apply returns what an item of a source changes in the whole: nothing, the
// item, or an old pod's end and a new one's beginning. The whole is synced with
// the last of its sources.
func (u *union) apply(source int, it item) []item {
	if it.synced {
		if !it.initial {
			return nil // a relist; its events are what there is to say
		}
		if u.unsynced--; u.unsynced > 0 {
			return nil
		}
		return []item{it}
	}
	pod := it.event.Pod
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	n := u.pods[key]
	if n == nil {
		n = &namesakes{bySource: make(map[int]claim)}
		u.pods[key] = n
	}
	if it.event.Type == watch.Deleted {
		delete(n.bySource, source)
		if !it.event.FinalStateUnknown {
			// It went, and what was before it went before. A delete that a list
			// found says less: the server may have gone back in time.
			n.end(func(other *corev1.Pod) bool { return version(other) < version(pod) })
		}
	} else {
		was := n.bySource[source]
		n.bySource[source] = claim{pod: pod, over: was.over && was.pod.UID == pod.UID}
	}
	before, newest := n.shown, n.newest(source)
	if before != nil && newest != nil && newest.UID != before.UID {
		n.end(func(other *corev1.Pod) bool { return other.UID == before.UID })
	}
	n.shown = newest
	if len(n.bySource) == 0 {
		delete(u.pods, key)
	}

	var items []item
	if before != nil && (newest == nil || newest.UID != before.UID) {
		if it.event.Type != watch.Deleted || pod.UID != before.UID {
			// Nobody saw it go yet; what is known is that another has its name.
			items = append(items, item{initial: it.initial, event: output.Event{Type: watch.Deleted, Pod: before, FinalStateUnknown: true}})
		} else {
			items = append(items, it)
		}
		before = nil
	}
	switch {
	case newest == nil || newest == before:
		return items
	case before == nil:
		return append(items, item{initial: it.initial, event: output.Event{Type: watch.Added, Pod: newest}})
	default:
		return append(items, item{initial: it.initial, event: output.Event{Type: watch.Modified, Pod: newest}})
	}
}

// end marks the pods that are over.
func (n *namesakes) end(over func(*corev1.Pod) bool) {
	for source, c := range n.bySource {
		if over(c.pod) {
			n.bySource[source] = claim{pod: c.pod, over: true}
		}
	}
}

// newest returns the pod that has the name now, nil when there is none. Between
// equals it is that of the source that was heard last.
func (n *namesakes) newest(heard int) *corev1.Pod {
	var newest *corev1.Pod
	if c := n.bySource[heard]; !c.over {
		newest = c.pod
	}
	for _, c := range n.bySource {
		if !c.over && (newest == nil || version(c.pod) > version(newest)) {
			newest = c.pod
		}
	}
	return newest
}

// shown returns what the output shows now, in no order.
func (u *union) shown() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(u.pods))
	for _, n := range u.pods {
		if n.shown != nil {
			pods = append(pods, n.shown)
		}
	}
	return pods
}

// version is the resourceVersion as a number, 0 for what is none.
func version(pod *corev1.Pod) uint64 {
	v, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
