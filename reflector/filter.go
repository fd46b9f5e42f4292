package reflector

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// filter is Subscription.Where at work. It knows what the subscriber was told, so that each object that was
// added ends, whatever the predicate says of which version.
type filter[T any] struct {
	where  func(T) bool
	known  shrinkingMap[decode.Key, struct{}]
	panics *atomic.Uint64
	log    *slog.Logger
	told   time.Time // when a panic was logged
}

// panicRepeat is how often the panics of one predicate are told.
const panicRepeat = time.Minute

// event is what the subscriber is told of c; ok is false where that is nothing. c.old is the version
// that it took before, which is the one that the subscriber knows if it knows the object.
func (f *filter[T]) event(c change[T]) (ev Event[T], ok bool) {
	if c.typ == Synced {
		return c.event(), true
	}
	known := f.knows(c.e.key)
	if c.typ == Deleted {
		f.known.delete(c.e.key)
		if known {
			ev = c.event()
		}
		return ev, known
	}
	obj := c.e.object(c.e.key)
	switch matches := f.matches(c.e, obj); {
	case matches:
		// Also where the key is known: that of the version before would keep its text.
		f.known.set(c.e.key, struct{}{})
		if !known {
			c.typ = Added
		}
	case known:
		f.known.delete(c.e.key)
		c.typ, c.ceased = Deleted, true
	default:
		return ev, false
	}
	return c.eventOf(obj), true
}

func (f *filter[T]) knows(k decode.Key) bool {
	_, known := f.known.get(k)
	return known
}

// matches asks the predicate, and answers for it where it panics.
func (f *filter[T]) matches(e *entry[T], obj T) (yes bool) {
	defer func() {
		if p := recover(); p != nil {
			yes = false
			f.panics.Add(1)
			if now := time.Now(); now.Sub(f.told) >= panicRepeat {
				f.told = now
				f.log.Error("predicate of a subscription panicked: the object does not match", "key", e.key.String(),
					"rv", e.rv, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}
	}()
	return f.where(obj)
}
