package simulator

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// dice is a seeded source with the few throws that schedules need.
type dice struct{ *rand.Rand }

func newDice(seed, stream uint64) dice { return dice{rand.New(rand.NewPCG(seed, stream))} }

// one is true once in n.
func (d dice) one(n int) bool { return d.IntN(n) == 0 }

// between returns a time that no timer of the client has.
func (d dice) between(low, high time.Duration) time.Duration {
	return odd(low + time.Duration(d.Int64N(int64(high-low))))
}

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// NewSchedule returns the schedule of a seed.
func NewSchedule(seed uint64) *Schedule {
	d := newDice(seed, 1)
	s := &Schedule{Seed: seed}
	s.Client = Client{
		Initial:      pick(d, reflector.InitialAuto, reflector.InitialList, reflector.InitialList),
		Encoding:     pick(d, listwatch.EncodingAuto, listwatch.EncodingJSON),
		Gzip:         d.one(3),
		PageSize:     pick[int64](d, 0, 0, 3),
		WatchTimeout: pick(d, 0, 30*time.Second, 2*time.Minute, 5*time.Second),
		IdleTimeout:  pick(d, 0, 0, 0, odd(35*time.Second), odd(2*time.Second)),
		Objects:      pick(newDice(seed, 4), reflector.ObjectsShared, reflector.ObjectsPrivate, reflector.ObjectsCompact),
	}
	s.Server = Server{
		Step:         pick[int64](d, 1, 1, 1, 7),
		Window:       pick(d, 5, 20, 100, 5000),
		Bookmarks:    odd(pick(d, time.Minute, time.Minute, 10*time.Second)),
		LowBookmarks: d.one(2),
		Members:      members(d.IntN(4)),
		Chunk:        pick(d, 0, 1, 7, 100, 4096),
		Latency:      d.between(time.Millisecond, 20*time.Millisecond),
	}
	if s.Client.IdleTimeout > odd(2*time.Second) {
		// Of a shorter patience than the server's bookmarks, a quiet watch is cut
		// each time. There are clients of that kind too, whose patience is 2 s.
		s.Server.Bookmarks = odd(10 * time.Second)
	}
	s.Chaos = pick(d, 20*time.Second, 2*time.Minute, 10*time.Minute, 40*time.Minute)
	if !s.hears() {
		s.Chaos = min(s.Chaos, 10*time.Minute) // it makes a request every few seconds
	}
	objects := 2 + d.IntN(10)
	var ops []Op
	for range pick(d, 5, 20, 60) {
		ops = append(ops, s.randomOp(d, objects, s.Chaos))
	}
	// Some objects are there before anybody looks.
	for i := range d.IntN(objects + 1) {
		ops = append(ops, Op{At: time.Duration(2*i + 1), Kind: Touch, Object: i})
	}
	storm := d.one(25)
	if storm {
		ops = append(ops, Op{At: d.between(0, s.Chaos), Kind: Storm, Object: d.IntN(objects), Count: 1200 + d.IntN(400)})
		s.Server.Window, s.Server.Chunk = 5000, max(s.Server.Chunk, 100)
	}
	for range d.IntN(pick(d, 3, 8, 20)) {
		s.Faults = append(s.Faults, s.randomFault(d, s.Chaos))
	}
	// A few kinds of trouble take several faults to meet; some seeds look for them.
	switch d.IntN(8) {
	case 0:
		ops = append(ops, s.restored(d, objects)...)
	case 1:
		ops = append(ops, s.listed(d, objects)...)
	case 2:
		ops = append(ops, s.watchListed(d, objects)...)
	}
	// Once the server is well it stays so. The collection becomes readable, and
	// is changed a few times to see that changes still come.
	s.End = s.Chaos + s.healing()
	ops = append(ops, Op{At: s.Chaos + odd(time.Second), Kind: Mend})
	for range d.IntN(4) {
		ops = append(ops, s.soundOp(d, objects, s.Chaos+2*time.Second, s.End-time.Minute))
	}
	last := 10 * time.Second
	if !s.hears() {
		last += reflector.DefaultBackoffMax // a watch that hears nothing for its patience is no healthy one
	}
	for range d.IntN(4) {
		ops = append(ops, s.soundOp(d, objects, s.End-time.Minute, s.End-last))
	}
	s.Ops = ops
	s.Consumers = s.randomConsumers(d, storm)
	switch d.IntN(4) {
	case 0: // in the middle
		s.Stop = d.between(0, s.End)
	case 1: // in the middle of new faults
		for range 1 + d.IntN(4) {
			f := s.randomFault(d, time.Minute)
			if f.Kind != Restore && f.Kind != Compact {
				f.At += s.End + time.Second
				s.Faults = append(s.Faults, f)
			}
		}
		s.Stop = s.End + d.between(time.Second, 2*time.Minute)
	default:
		s.Stop = s.End + d.between(time.Second, 2*time.Minute)
	}
	slices.SortFunc(s.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	slices.SortFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return s
}

// healing is how long the client may take until all is well. What takes long is
// to notice that a silent watch is of another history: two watches that live
// their time, and more if silence had been harmless before.
func (s *Schedule) healing() time.Duration {
	if !s.hears() {
		return odd(10 * time.Minute) // it is not held to notice that
	}
	timeout := s.Client.WatchTimeout
	if timeout == 0 {
		timeout = 5 * time.Minute
	}
	return odd(10*time.Minute + 8*timeout)
}

func (s *Schedule) randomOp(d dice, objects int, until time.Duration) Op {
	o := s.soundOp(d, objects, 0, until)
	switch d.IntN(20) {
	case 0:
		o.Kind = Spoil
	case 1:
		o.Kind = Grow
	}
	return o
}

func (s *Schedule) soundOp(d dice, objects int, from, to time.Duration) Op {
	return Op{
		At:     d.between(from, to),
		Kind:   pick(d, Touch, Touch, Touch, Touch, Touch, Delete, Delete, Recreate, Cross, Elsewhere, Elsewhere),
		Object: d.IntN(objects),
	}
}

// restored makes a busy collection of few objects that etcd is restored under, so
// that resourceVersions are given out again, and the client may notice.
func (s *Schedule) restored(d dice, objects int) (ops []Op) {
	s.Server.Step = 1
	at := d.between(s.Chaos/4, s.Chaos/2)
	for range 10 + d.IntN(30) {
		ops = append(ops, s.randomOp(d, min(objects, 3), s.Chaos))
	}
	s.Faults = append(s.Faults, Fault{At: at, For: d.between(100*time.Millisecond, 5*time.Second), Kind: Restore, N: 3 + d.IntN(20), HTTP: d.one(3)})
	if d.one(2) {
		s.Faults = append(s.Faults, Fault{At: at + d.between(0, s.Chaos/2), Kind: ErrorEvent, Form: Expired410})
	}
	return ops
}

// listed makes the client lose its place, after changes that it did not see,
// so that it lists anew, and the lists go wrong one after the other.
func (s *Schedule) listed(d dice, objects int) (ops []Op) {
	for range 1 + d.IntN(3) {
		at, down := d.between(0, s.Chaos), d.between(time.Second, 15*time.Second)
		s.Faults = append(s.Faults, Fault{At: at, For: down, Kind: Restart})
		for range 2 + d.IntN(6) {
			ops = append(ops, s.randomOp(d, objects, s.Chaos))
			ops[len(ops)-1].At = min(at+d.between(0, down), s.Chaos)
		}
		for range 1 + d.IntN(4) {
			at += odd(time.Microsecond)
			f := s.randomFault(d, s.Chaos)
			f.At, f.Kind, f.Verb, f.For = at, pick(d, Stale, Stale, CutList, CutList, HangList, SlowList), list, d.between(time.Second, 20*time.Second)
			if s.Client.Initial != reflector.InitialList && d.one(2) {
				f.Kind, f.Verb = pick(d, NoMark, LostMark, LateMark), watchList
			}
			s.Faults = append(s.Faults, f)
		}
	}
	return ops
}

// watchListed makes the client lose its place again and again, so that it reads
// one watch-list after the other, which begin before what it knows, end early,
// or wait for their mark, while objects come and go and a consumer does not look.
func (s *Schedule) watchListed(d dice, objects int) (ops []Op) {
	s.Client.Initial = reflector.InitialAuto
	s.stall = d.one(2)
	for range 1 + d.IntN(5) {
		at := d.between(0, s.Chaos)
		s.Faults = append(s.Faults, Fault{At: at, Kind: ErrorEvent, Form: pick(d, Expired410, Expired410, Gone410, TooLargeText504), HTTP: d.one(2)})
		for range 1 + d.IntN(3) {
			at += odd(time.Microsecond)
			f := Fault{At: at, Kind: pick(d, Early, Early, Early, Stale, LateMark, NoMark, LostMark, Silence), Verb: watchList, N: 1 + d.IntN(15)}
			f.For = pick(d, d.between(time.Millisecond, time.Second), d.between(time.Second, 70*time.Second))
			if f.Kind == NoMark || f.Kind == LostMark {
				f.N = 1 + d.IntN(2)
			}
			s.Faults = append(s.Faults, f)
		}
		// What happens before, and while the watch-list is read.
		for range 2 + d.IntN(12) {
			o := s.randomOp(d, min(objects, 4), s.Chaos)
			o.At = odd(min(max(at+d.between(-20*time.Second, 20*time.Second), 0), s.Chaos))
			ops = append(ops, o)
		}
	}
	return ops
}

func (s *Schedule) randomFault(d dice, until time.Duration) Fault {
	f := Fault{
		At:    d.between(0, until),
		Form:  Form(d.IntN(forms)),
		Retry: Retry(d.IntN(retries)),
		After: pick(d, time.Second, 3*time.Second, 20*time.Second, 99999*time.Second),
		N:     1 + d.IntN(6),
		Part:  d.IntN(100),
		HTTP:  d.one(2),
	}
	short := d.between(100*time.Millisecond, 20*time.Second)
	long := d.between(time.Second, 5*time.Minute)
	switch d.IntN(10) {
	case 0: // the server's storage
		f.Kind = pick(d, Compact, Compact, Restart, Restart, Restore)
		switch f.Kind {
		case Restart:
			f.For = short
		case Restore:
			f.For, f.N = short, 1+d.IntN(40)
		}
	case 1, 2: // for some time
		f.Kind = pick(d, Down, Blackhole, Sick, NoList, NoWatch, Mute, Brief)
		f.For = pick(d, short, long)
		if f.Kind == NoList {
			f.Form = pick(d, BadRequest400, Denied403, NotAllowed405, NotAcceptable406, Invalid422, NoSuchThing501, Throttled429, Internal500)
		}
	case 3, 4, 5: // one request
		f.Kind = Answer + FaultKind(d.IntN(int(End-Answer)))
		switch f.Kind {
		case Answer, Page, WrongType, Silence, Reset:
			f.Verb = pick(d, "", list, watch, watchList)
		case Stale:
			f.Verb = pick(d, list, watchList)
		case CutList, HangList, SlowList:
			f.Verb = list
			f.For = short
		case Early:
			f.Verb = watchList
			f.For = pick(d, d.between(time.Millisecond, time.Second), d.between(time.Second, 70*time.Second))
		default:
			f.Verb = watchList
			f.For = d.between(time.Second, 70*time.Second)
		}
	default: // one stream
		f.Kind = End + FaultKind(d.IntN(int(Delay-End)+1))
		f.For = short
	}
	return f
}

func (s *Schedule) randomConsumers(d dice, storm bool) []Consumer {
	list := []Consumer{{Prompt: true, Latency: time.Millisecond + 7}}
	for i := range d.IntN(3) {
		c := Consumer{Join: d.between(0, s.Chaos), Latency: time.Duration(i+1)*time.Millisecond + 11}
		if d.one(2) {
			c.Latency = d.between(time.Millisecond, 5*time.Second)
		}
		list = append(list, c)
	}
	if storm || s.stall || d.one(3) {
		c := Consumer{Latency: time.Millisecond + 13}
		from := d.between(0, s.Chaos)
		if storm {
			from = odd(time.Millisecond)
		}
		c.Stalls = append(c.Stalls, Span{from, s.Chaos + d.between(0, time.Minute)})
		list = append(list, c)
	}
	of := newDice(s.Seed, 5)
	for i := range list[1:] {
		list[i+1].subscribes(of)
	}
	return list
}

// subscribes draws what a consumer that is not prompt asks for.
func (c *Consumer) subscribes(d dice) {
	switch d.IntN(4) {
	case 0:
		c.Limit = 1 + d.IntN(8)
	case 1:
		c.Policy, c.Limit = reflector.Resync, 1+d.IntN(8)
	case 2:
		// It has room for all that happens, so that the client is as fresh as the model says.
		c.Policy, c.Limit = reflector.Block, 100_000
	}
	c.Some = d.one(3)
	if d.one(4) {
		c.Replay = odd(5 * time.Minute)
	}
}
