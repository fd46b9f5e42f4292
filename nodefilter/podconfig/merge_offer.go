package podconfig

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// offer is one update on its way to the consumer.
type offer struct {
	source  *sourceStore
	op      Op
	initial bool
	records []*record
	changed int // changes of pods in it since it was made
}

// update is what the consumer gets.
func (o *offer) update() PodUpdate {
	pods := make([]*corev1.Pod, len(o.records))
	for i, r := range o.records {
		pods[i] = r.offered
	}
	return PodUpdate{Pods: pods, Op: o.op, Source: o.source.name, Initial: o.initial}
}

// outdated says when an offer is made anew: when a sixteenth of it has changed.
// Making it costs as much as it has pods, so that a change costs a constant
// amount however large the offer is, and an offer of a few pods is always that of
// the newest state.
func (o *offer) outdated() bool { return o.changed >= max(1, len(o.records)/16) }

// free lets go of the records. The slice of a small offer is used again.
func (o *offer) free() {
	clear(o.records)
	if o.records = o.records[:0]; cap(o.records) > 64 {
		o.records = nil
	}
}

// difference is what the consumer has to be told of a pod, or 0.
func (s *store) difference(r *record) Op {
	switch {
	case r.gone && r.told == nil:
		return 0
	case r.gone:
		return Remove
	case r.told == nil:
		return Add
	case s.behaviour == Improved && nameOf(r.told) != nameOf(r.newest):
		// No API server does it; another source may. The old name may be taken
		// by now, so that this is not an update: ADD follows the REMOVE.
		return Remove
	}
	return s.behaviour.compare(r.told, r.newest)
}

// reconsider puts a record that changed where it belongs. One that the consumer
// is being offered waits for the end of the offer.
func (s *store) reconsider(r *record) {
	if r.offered != nil {
		s.merged++
		if s.offer.changed++; s.offer.outdated() {
			signal(s.stale)
		}
		return
	}
	if r.op != 0 {
		s.merged++ // what was pending is never seen
	}
	s.place(r)
}

// place moves a record to the list of what is pending of it.
func (s *store) place(r *record) {
	op := s.difference(r)
	if op != r.op {
		if r.op != 0 {
			r.source.pending[r.op].Remove(&r.node)
		}
		if r.op = op; op != 0 {
			r.source.pending[op].Push(&r.node)
			s.queue(r.source)
		}
	}
	switch {
	case op != 0:
	case r.gone:
		delete(r.source.records, r.uid)
	case s.behaviour == Improved:
		// Nothing is different that the consumer cares for. Keep one version, not two.
		r.told = r.newest
	}
}

// queue gives a source its turn.
func (s *store) queue(ss *sourceStore) {
	if !ss.queued {
		ss.queued, ss.at = true, 0
		s.turns = append(s.turns, ss)
	}
}

// busy reports whether the source has something that the consumer did not receive.
func (s *store) busy(ss *sourceStore) bool {
	if ss.initial == toTell || s.offer != nil && s.offer.source == ss {
		return true
	}
	for _, op := range ops {
		if ss.pending[op].Len() > 0 {
			return true
		}
	}
	return false
}

// settle wakes who waits for the source to be idle, if it is.
func (s *store) settle(ss *sourceStore) {
	if ss.idle != nil && !s.busy(ss) {
		close(ss.idle)
		ss.idle = nil
	}
}

// following is the operation to tell next in the source's turn, or 0 at its end.
//
// A turn goes once through the operations in their order, so that a source that
// changes all the time holds up neither another source nor its own later
// operations. Removals go first at any point: the name of a pod that is gone may
// be that of one to add.
func (ss *sourceStore) following() Op {
	for _, op := range ops {
		if (op == Remove || op >= ss.at) && (ss.pending[op].Len() > 0 || op == Add && ss.initial == toTell) {
			return op
		}
	}
	return 0
}

// take makes an offer of what is next; ok is false when nothing is pending.
func (s *store) take() (*offer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.turns) > 0 {
		ss := s.turns[0]
		op := ss.following()
		if op == 0 { // the end of its turn
			s.turns = slices.Delete(s.turns, 0, 1)
			ss.queued = false
			if s.busy(ss) {
				s.queue(ss)
			}
			continue
		}
		if op != Remove {
			ss.at = op + 1
		}
		o := &s.only
		*o = offer{source: ss, op: op, records: slices.Grow(o.records, ss.pending[op].Len())}
		now := time.Now()
		for l := &ss.pending[op]; l.First() != nil; {
			r := l.First().Value
			l.Remove(&r.node)
			r.op = 0
			switch {
			case s.behaviour == KubeletCompatible:
				r.offered = asKubelet(op, ss.name, r.told, r.newest, now)
			case op == Remove && nameOf(r.told) != nameOf(r.newest):
				r.offered = r.told // the name that the consumer knows
			default:
				r.offered = r.newest
			}
			o.records = append(o.records, r)
		}
		o.initial = op == Add && ss.initial == toTell
		select {
		case <-s.stale: // meant the offer before
		default:
		}
		s.offer = o
		return o, true
	}
	return nil, false
}

// commit: the consumer has received the offer.
func (s *store) commit(o *offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offer = nil
	s.updates[o.op]++
	s.podsTold[o.op] += uint64(len(o.records))
	for _, r := range o.records {
		r.told = r.offered
		if o.op == Remove {
			r.told = nil
		}
		r.offered = nil
		s.place(r)
	}
	if o.initial {
		o.source.initial = told
		s.initialed++
	}
	s.settle(o.source)
	o.free()
}

// retract takes the offer back: the consumer did not receive it.
func (s *store) retract(o *offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offer = nil
	for _, r := range o.records {
		r.offered = nil
		s.place(r)
	}
	// Its turn goes on with the operation that it did not tell.
	o.source.at = min(o.source.at, o.op)
	o.free()
}

func (s *store) seenAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.initialed == len(s.sources)
}
