package podconfig

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Status is a PodConfig at one moment.
type Status struct {
	// Ready is SeenAllSources.
	Ready bool `json:"ready"`
	// Sources are in the order of Config.Sources.
	Sources []SourceState `json:"sources"`
	// Pending is the number of pods with something that the reader of Updates has
	// not received, what it is being offered included. It is never more than the
	// number of pods that it knows or that a source has.
	Pending int `json:"pending"`
	// Merged is the number of versions of pods that the reader never saw, because
	// a newer one was there before it was ready for them.
	Merged uint64 `json:"merged"`
	// Updates and Pods count what the reader received, by operation.
	Updates map[Op]uint64 `json:"updates"`
	Pods    map[Op]uint64 `json:"pods"`
	// UnknownGone counts pods that a source said are gone and that it never had.
	UnknownGone uint64 `json:"unknownGone,omitempty"`
	// Conflicts are the names that pods of more than one source have now, mirror
	// pods not counted. All of these pods are told.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// SourceState is one source as the merge sees it, beside what it says of itself.
type SourceState struct {
	Source Source `json:"source"`
	// Told says that the reader of Updates has received the source's Initial update.
	Told bool `json:"told"`
	// Merged is the number of pods of the source that are in the merge.
	Merged  int `json:"merged"`
	Pending int `json:"pending"`
	// Refused are pods of the source's last full state that are not told, and
	// those of changes since then, up to 100.
	Refused []Refused `json:"refused,omitempty"`
	// Own is the producer's Status.
	Own SourceStatus `json:"own"`
}

// Refused is a pod that a source has and that is not told.
type Refused struct {
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	Reason    string    `json:"reason"`
}

// Conflict is one full name in several sources.
type Conflict struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Sources   []Source `json:"sources"`
}

// Status can be called at any time, from any goroutine. It costs time in
// proportion to the pods.
func (c *PodConfig) Status() Status {
	own := make([]SourceStatus, len(c.cfg.Sources))
	for i, p := range c.cfg.Sources {
		own[i] = p.Status() // before the lock: it is the producer's code
	}
	st := c.store.status()
	for i := range st.Sources {
		st.Sources[i].Own = own[i]
	}
	return st
}

func (s *store) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Ready:       s.initialed == len(s.sources),
		Merged:      s.merged,
		Updates:     map[Op]uint64{},
		Pods:        map[Op]uint64{},
		UnknownGone: s.unknown,
	}
	for _, op := range ops {
		st.Updates[op], st.Pods[op] = s.updates[op], s.podsTold[op]
	}
	holders := map[types.NamespacedName][]Source{}
	for _, ss := range s.sources {
		state := SourceState{Source: ss.name, Told: ss.initial == told, Merged: len(ss.names), Refused: slices.Clone(ss.refused)}
		for _, op := range ops {
			state.Pending += ss.pending[op].Len()
		}
		if s.offer != nil && s.offer.source == ss {
			state.Pending += len(s.offer.records)
		}
		st.Pending += state.Pending
		st.Sources = append(st.Sources, state)
		for name, r := range ss.names {
			if !IsMirrorPod(r.newest) {
				holders[name] = append(holders[name], ss.name)
			}
		}
	}
	for name, sources := range holders {
		if len(sources) > 1 {
			st.Conflicts = append(st.Conflicts, Conflict{Namespace: name.Namespace, Name: name.Name, Sources: sources})
		}
	}
	slices.SortFunc(st.Conflicts, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return st
}
