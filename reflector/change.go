package reflector

// change is a change of the store as mailboxes hold it: entries, and not what they are made into
// when they are read, so that the backlog of a compact store is one of bytes.
type change[T any] struct {
	typ     EventType
	unknown bool      // Event.FinalStateUnknown
	initial bool      // Event.Initial
	ceased  bool      // a Deleted that says that the object does not match Subscription.Where any more
	rewound bool      // of Synced: the list found that the server went back in time
	e       *entry[T] // what Event.Object is of; for Synced only the resourceVersion counts
	old     *entry[T] // for Modified and Deleted the version before, which Event.Old is of where it is told
}

// event is what the subscriber is told. In a compact store it makes the objects, so no lock
// is held.
func (c change[T]) event() Event[T] {
	if c.typ == Synced {
		return Event[T]{Type: c.typ, ResourceVersion: c.e.rv, Initial: c.initial}
	}
	return c.eventOf(c.e.object(c.e.key))
}

// eventOf is event, of a change whose object was made.
func (c change[T]) eventOf(obj T) Event[T] {
	ev := Event[T]{
		Type: c.typ, Key: c.e.key, UID: c.e.uid, ResourceVersion: c.e.rv,
		Object: obj, Initial: c.initial, FinalStateUnknown: c.unknown,
	}
	if c.old != nil && (c.typ == Modified || c.ceased) {
		ev.Old = c.old.object(c.old.key)
	}
	return ev
}

// tellsNothing reports whether c leads back to what the subscriber knows: it missed that a list did not have an
// object which a later one has again, or what came between two moments of a server that went back in time.
// Contents are compared, which is slow and may call T's own functions, so no lock is held.
func (c change[T]) tellsNothing() bool {
	return c.typ == Modified && c.old.rv == c.e.rv && c.old.uid == c.e.uid &&
		sameContent(c.old.object(c.old.key), c.e.object(c.e.key))
}

// syncedAt is the change that says that a snapshot is complete.
func syncedAt[T any](rv string) change[T] {
	return change[T]{typ: Synced, e: &entry[T]{rv: rv}}
}
