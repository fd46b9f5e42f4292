package reflector

import (
	"time"

	"github.com/nodewatch-go/nodewatch/internal/linked"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// resync is the part of a mailbox that drops what is pending.
//
// From the drop on until the consumer comes back only the difference is kept, object by object: what
// the consumer knows, which the first change tells that it has not read, and what there is now. Where
// the two are the same nothing is kept, so memory is bound by the objects that
// the consumer knows or that exist, and a consumer in step costs nothing.
type resync[T any] struct {
	n     uint64    // how often
	since time.Time // of the drop
	// lag is what the consumer missed; nil unless something was dropped since it read last.
	lag  map[decode.Key]*linked.Node[missed[T]]
	list linked.List[missed[T]] // of lag, in the order in which the consumer fell behind
	// news is what the consumer is told of that, as far as it has not read it.
	news []change[T]
	// mark is the last Synced of the store; nil before the first.
	mark *entry[T]
}

// missed is one object in two versions: as the consumer knows it, and as it is. nil is none.
type missed[T any] struct{ knows, is *entry[T] }

// drop turns a queue that is too long into a difference.
func (m *mailbox[T]) drop() {
	r := &m.resync
	switch {
	case len(m.initial) > 0:
		r.since = m.since
	case len(r.news) == 0:
		r.since = m.queue.First().Value.at
	}
	r.n++
	r.lag = make(map[decode.Key]*linked.Node[missed[T]])
	for _, e := range m.initial {
		r.miss(change[T]{typ: Added, e: e})
	}
	for _, c := range r.news {
		r.miss(c)
	}
	for l := m.queue.First(); l != nil; l = l.Next() {
		r.miss(l.Value.change)
	}
	m.initial, r.news, m.queue = nil, nil, linked.List[letter[T]]{}
}

// takes notes a change, and reports whether it is dealt with: the consumer is not back yet.
func (r *resync[T]) takes(c change[T]) bool {
	if c.typ == Synced {
		r.mark = c.e
	}
	if r.lag == nil {
		return false
	}
	r.miss(c)
	return true
}

func (r *resync[T]) miss(c change[T]) {
	if c.typ == Synced {
		return // there will be one
	}
	n := r.lag[c.e.key]
	if n == nil {
		n = &linked.Node[missed[T]]{Value: missed[T]{knows: c.old}}
		r.list.Push(n)
	}
	n.Value.is = c.e
	if c.typ == Deleted {
		n.Value.is = nil
	}
	// The key is a part of what is kept: that of another version would keep its text.
	switch m := n.Value; {
	case m.is != nil:
		r.lag[m.is.key] = n
	case m.knows != nil:
		r.lag[m.knows.key] = n
	default:
		r.list.Remove(n)
		delete(r.lag, c.e.key)
	}
}

// catchUp makes news of the difference, if there is one.
func (r *resync[T]) catchUp() {
	if r.lag == nil {
		return
	}
	for n := r.list.First(); n != nil; n = n.Next() {
		r.news = append(r.news, n.Value.changes()...)
	}
	if r.mark != nil {
		r.news = append(r.news, change[T]{typ: Synced, e: r.mark})
	}
	r.lag, r.list = nil, linked.List[missed[T]]{}
}

// changes are what leads from the one version to the other.
func (m missed[T]) changes() []change[T] {
	gone := change[T]{typ: Deleted, e: m.knows, old: m.knows, unknown: true}
	switch {
	case m.knows == nil:
		return []change[T]{{typ: Added, e: m.is}}
	case m.is == nil:
		return []change[T]{gone}
	case m.knows.uid != m.is.uid:
		return []change[T]{gone, {typ: Added, e: m.is}}
	}
	return []change[T]{{typ: Modified, e: m.is, old: m.knows}}
}

func (r *resync[T]) pop() change[T] {
	c := r.news[0]
	r.news[0] = change[T]{}
	if r.news = r.news[1:]; len(r.news) == 0 {
		r.news = nil
	}
	return c
}

// depth is how many events there are to read, about so many while the consumer is not back.
func (r *resync[T]) depth() int {
	n := len(r.news) + r.list.Len()
	if r.lag != nil && r.mark != nil {
		n++
	}
	return n
}
