package reflector

// change is a change of the store as mailboxes hold it: entries, and not what they are made into
// when they are read, so that the backlog of a compact store is one of bytes.
type change[T any] struct {
	typ     EventType
	unknown bool      // Event.FinalStateUnknown
	initial bool      // Event.Initial
	e       *entry[T] // what Event.Object is of; for Synced only the resourceVersion counts
	old     *entry[T] // what Event.Old is of; nil unless Modified
}

// event is what the subscriber is told. In a compact store it makes the objects, so no lock
// is held.
func (c change[T]) event() Event[T] {
	ev := Event[T]{Type: c.typ, ResourceVersion: c.e.rv, Initial: c.initial, FinalStateUnknown: c.unknown}
	if c.typ == Synced {
		return ev
	}
	ev.Key, ev.UID, ev.Object = c.e.key, c.e.uid, c.e.object(c.e.key)
	if c.old != nil {
		ev.Old = c.old.object(c.old.key)
	}
	return ev
}

// syncedAt is the change that says that a snapshot is complete.
func syncedAt[T any](rv string) change[T] {
	return change[T]{typ: Synced, e: &entry[T]{rv: rv}}
}
