package reflector

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// What the tests of the store do to it, with objects as they are.

func (s *Store[T]) testUpsert(m decode.Meta, obj T) outcome {
	return s.upsert(s.find(m.Key()), &m, content[T]{obj: obj})
}

func (s *Store[T]) testRemove(m decode.Meta, final T, haveFinal bool) outcome {
	return s.remove(s.find(m.Key()), &m, content[T]{obj: final}, haveFinal)
}

func (r *replacement[T]) testPut(m decode.Meta, obj T) {
	r.put(r.s.find(m.Key()), &m, content[T]{obj: obj})
}

func (r *replacement[T]) testUnchanged(m decode.Meta) bool {
	return r.unchanged(r.s.find(m.Key()), &m)
}

// testSubscribe returns a coalescing mailbox; limit may be 0.
func (s *Store[T]) testSubscribe(limit int) *mailbox[T] {
	return s.subscribe(Subscription[T]{Limit: limit})
}

// testEvents ranges over s as a coalescing subscriber.
func (s *Store[T]) testEvents(ctx context.Context, limit int) iter.Seq[Event[T]] {
	return s.events(ctx, Subscription[T]{Limit: limit}, slog.New(slog.DiscardHandler))
}

func testMailbox[T any](limit int, initial []*entry[T], now time.Time) *mailbox[T] {
	return newMailbox("", Coalesce, limit, initial, now)
}

// popEvent is what a subscriber without a predicate does.
func (m *mailbox[T]) popEvent() (ev Event[T], ok, more bool) {
	c, ok, more := m.pop()
	for ok && c.tellsNothing() {
		c, ok, more = m.pop()
	}
	if ok {
		ev = c.event()
	}
	return ev, ok, more
}

// kept returns how a store of that kind keeps a thing.
func kept(t *testing.T, as Objects) func(*thing) content[*thing] {
	if as != ObjectsCompact {
		return func(o *thing) content[*thing] { return content[*thing]{obj: o} }
	}
	dec, err := decode.New[*thing]()
	if err != nil {
		t.Fatal(err)
	}
	return func(o *thing) content[*thing] {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := dec.(decode.Packer[*thing]).Pack(decode.JSON, raw)
		if err != nil {
			t.Fatal(err)
		}
		return content[*thing]{obj: o, packed: &p}
	}
}

type wireThing struct {
	Name, UID, RV string
	Values        []string
}

// MarshalJSON and UnmarshalJSON let a thing be kept as bytes.
func (o *thing) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireThing{o.name, o.uid, o.rv, o.values})
}
func (o *thing) UnmarshalJSON(b []byte) error {
	var w wireThing
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*o = thing{name: w.Name, uid: w.UID, rv: w.RV, values: w.Values}
	return nil
}
