package reflector

import (
	"strconv"
	"testing"
)

// delivered returns a function that changes an object and has a subscriber take the event.
func delivered(sub Subscription[*thing]) func() {
	s := NewStore[*thing]()
	list(s, "1", "a/u1@1")
	d := s.deliver(sub, nil)
	d.told(describe)
	objects := make([]*thing, 4096)
	for i := range objects {
		objects[i] = newThing("a/u1@" + strconv.Itoa(i+2))
	}
	rv := 2
	return func() {
		o := objects[rv%len(objects)]
		o.rv = strconv.Itoa(rv)
		rv++
		s.testUpsert(o.meta(), o)
		d.take()
	}
}

// What a subscriber costs for each event it is told: its letter. That the policies, predicates and replays exist costs
// nothing, and to have them costs no allocation of an event either.
func TestDeliveryAllocations(t *testing.T) {
	alone := NewStore[*thing]()
	rv := 1
	base := testing.AllocsPerRun(1000, func() {
		rv++
		o := &thing{name: "a", uid: "u1", rv: strconv.Itoa(rv)}
		alone.testUpsert(o.meta(), o)
	}) - 1 // the object
	for _, policy := range []Policy{Coalesce, Block, Resync} {
		if n := testing.AllocsPerRun(1000, delivered(Subscription[*thing]{Limit: 10, Policy: policy})); n > base+1 {
			t.Errorf("%v: %v allocations for a change and its event, %v without a subscriber; want one more", policy, n, base)
		}
	}
	every := func(*thing) bool { return true }
	if n := testing.AllocsPerRun(1000, delivered(Subscription[*thing]{Limit: 10, Where: every})); n > base+1 {
		t.Errorf("with a predicate: %v allocations for a change and its event, want %v", n, base+1)
	}
}

// BenchmarkDelivered is a change and its event, for a subscriber in step.
func BenchmarkDelivered(b *testing.B) {
	for _, tc := range []struct {
		name string
		sub  Subscription[*thing]
	}{
		{"coalesce", Subscription[*thing]{Limit: DefaultLimit}},
		{"block", Subscription[*thing]{Limit: DefaultLimit, Policy: Block}},
		{"where", Subscription[*thing]{Limit: DefaultLimit, Where: func(*thing) bool { return true }}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			next := delivered(tc.sub)
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}
