package podconfig

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/internal/linked"
)

// store is what the sources have, and for each pod what the consumer was told.
// What is pending is the difference of the two (see record), so that it is right
// whatever came in between, and never more than one thing for each pod.
//
// Sources apply changes; the pump alone takes, commits and retracts offers.
type store struct {
	behaviour Behaviour
	log       *slog.Logger
	wake      chan struct{} // holds a token when there may be something to take
	stale     chan struct{} // holds a token when the offer should be made anew

	mu        sync.Mutex
	sources   []*sourceStore // in the order of Config.Sources
	turns     []*sourceStore // those with something to tell; the first is at its turn
	offer     *offer         // what the consumer is being offered, or nil
	only      offer          // what offer points to: there is one at a time
	merged    uint64         // versions that the consumer never saw
	updates   [Reconcile + 1]uint64
	podsTold  [Reconcile + 1]uint64
	unknown   uint64 // pods gone that the source never had
	initialed int    // sources whose Initial update was received
}

// sourceStore is the part of one source.
type sourceStore struct {
	name    Source
	records map[types.UID]*record
	// names has the pods that the source has now, each name once.
	names map[types.NamespacedName]*record
	// set is the number of full states so far; a record has that of the last one
	// it was in.
	set     uint64
	refused []Refused
	initial initial

	pending [Reconcile + 1]linked.List[*record] // by operation, in the order in which they became so
	at      Op                                  // the operation that its turn has come to
	queued  bool                                // it is among the turns
	idle    chan struct{}                       // closed when nothing is pending any more; nil: nobody waits
}

// initial is how far the news has come that a source was seen.
type initial uint8

const (
	unseen initial = iota
	toTell         // the source told its first full state
	told           // the consumer has the update that says so
)

// record is one pod of one source. What an event looks at comes first: it is one
// line of the processor's cache, and what follows is another one.
type record struct {
	// newest is the newest version that the source told, also when gone.
	newest *corev1.Pod
	// told is the version that the consumer has; nil when it has none. A newer
	// one in which nothing is different takes its place.
	told *corev1.Pod
	// offered is the version in the offer, if the record is in it.
	offered *corev1.Pod
	source  *sourceStore
	name    types.NamespacedName

	node linked.Node[*record]
	op   Op // the pending list that the record is in, or 0
	gone bool
	uid  types.UID
	set  uint64
}

func newStore(names []Source, b Behaviour, log *slog.Logger) *store {
	s := &store{behaviour: b, log: log, wake: make(chan struct{}, 1), stale: make(chan struct{}, 1)}
	for _, n := range names {
		s.sources = append(s.sources, &sourceStore{
			name:    n,
			records: map[types.UID]*record{},
			names:   map[types.NamespacedName]*record{},
		})
	}
	return s
}

// apply merges a change of a source. The work is in proportion to the change,
// and to the pods of this source only where it is a full state.
func (s *store) apply(ss *sourceStore, ch Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch.Full {
		s.applySet(ss, ch.Pods)
	} else {
		for _, g := range ch.Gone {
			s.applyGone(ss, g)
		}
		for _, p := range ch.Pods {
			if refused := refusal(p); refused != nil {
				s.refuse(ss, *refused)
				continue
			}
			s.put(ss, p)
		}
	}
	if (ch.Full || ch.Initial) && ss.initial == unseen {
		ss.initial = toTell
		s.queue(ss)
	}
	signal(s.wake)
}

// applySet makes pods all that the source has. Of two with one full name, or with
// one UID, the first counts and the other is refused, as in the kubelet.
func (s *store) applySet(ss *sourceStore, pods []*corev1.Pod) {
	ss.set++
	before := ss.refused
	ss.refused = nil
	for _, p := range pods {
		refused := refusal(p)
		if refused == nil {
			refused = ss.duplicate(p)
		}
		if refused != nil {
			if slices.Contains(before, *refused) {
				ss.refused = append(ss.refused, *refused) // said before
			} else {
				s.refuse(ss, *refused)
			}
			continue
		}
		s.put(ss, p).set = ss.set
	}
	var gone []*record
	for _, r := range ss.records {
		if !r.gone && r.set != ss.set {
			gone = append(gone, r)
		}
	}
	slices.SortFunc(gone, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name), cmp.Compare(a.uid, b.uid))
	})
	for _, r := range gone {
		s.drop(r)
	}
}

// duplicate says why p cannot be in the set that is being applied, or nil.
func (ss *sourceStore) duplicate(p *corev1.Pod) *Refused {
	if r := ss.names[nameOf(p)]; r != nil && r.set == ss.set {
		return &Refused{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Reason: "the source has another pod of this name before it, with UID " + string(r.uid)}
	}
	if r := ss.records[p.UID]; r != nil && r.set == ss.set {
		return &Refused{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Reason: "the source has another pod with this UID before it, " + r.name.String()}
	}
	return nil
}

// refusal says why p cannot be told to anybody, or nil.
func refusal(p *corev1.Pod) *Refused {
	switch {
	case p == nil:
		return &Refused{Reason: "there is no pod, only nil"}
	case p.UID == "":
		return &Refused{Namespace: p.Namespace, Name: p.Name, Reason: "the pod has no UID"}
	case p.Name == "":
		return &Refused{Namespace: p.Namespace, UID: p.UID, Reason: "the pod has no name"}
	}
	return nil
}

// refusedLimit bounds the report of a source that goes on sending deltas with
// pods that cannot be.
const refusedLimit = 100

func (s *store) refuse(ss *sourceStore, r Refused) {
	s.log.Warn("pod refused", "source", string(ss.name), "namespace", r.Namespace, "pod", r.Name, "uid", string(r.UID), "reason", r.Reason)
	if len(ss.refused) < refusedLimit {
		ss.refused = append(ss.refused, r)
	}
}

// put makes p the newest version of its pod. Where another pod of the source has
// its name, that one is gone: names are unique in a source at any time, and what
// comes later is what is true.
func (s *store) put(ss *sourceStore, p *corev1.Pod) *record {
	r, name := ss.records[p.UID], nameOf(p)
	if r == nil {
		r = &record{source: ss, uid: p.UID}
		r.node.Value = r
		ss.records[p.UID] = r
	}
	// A record that is not gone has its name: no need to look, which costs as much as the rest
	// where the pods are too many for the processor's caches.
	if r.gone || r.name != name {
		if other := ss.names[name]; other != nil && other != r {
			s.drop(other)
		}
		if ss.names[r.name] == r {
			delete(ss.names, r.name)
		}
		r.name = name
		ss.names[name] = r
		s.reportConflict(r, p)
	}
	r.newest, r.gone = p, false
	s.reconsider(r)
	return r
}

// applyGone: by UID, and by name where the source does not know it.
func (s *store) applyGone(ss *sourceStore, g Gone) {
	r := ss.records[g.UID]
	if g.UID == "" {
		r = ss.names[types.NamespacedName{Namespace: g.Namespace, Name: g.Name}]
	}
	if r == nil || r.gone {
		s.unknown++
		return
	}
	s.drop(r)
}

// drop says that the source has the pod no longer.
func (s *store) drop(r *record) {
	if r.source.names[r.name] == r {
		delete(r.source.names, r.name)
	}
	r.gone = true
	s.reconsider(r)
}

// reportConflict warns when another source has a pod of the same full name.
// Both are told: they are two pods, and which one to run is the consumer's to
// decide. A mirror pod has the name of its static pod by design.
func (s *store) reportConflict(r *record, p *corev1.Pod) {
	if IsMirrorPod(p) {
		return
	}
	for _, ss := range s.sources {
		if ss == r.source {
			continue
		}
		if other := ss.names[r.name]; other != nil && !IsMirrorPod(other.newest) {
			s.log.Warn("two sources have a pod of one name", "namespace", r.name.Namespace, "pod", r.name.Name,
				"source", string(r.source.name), "uid", string(r.uid), "otherSource", string(ss.name), "otherUid", string(other.uid))
		}
	}
}

// drained waits until everything that the source told was received.
func (s *store) drained(ctx context.Context, ss *sourceStore) {
	s.mu.Lock()
	if !s.busy(ss) {
		s.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	ss.idle = idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// signal puts a token into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
