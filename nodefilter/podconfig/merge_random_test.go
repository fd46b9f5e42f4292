package podconfig

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// world is sources whose pods change at random, and what they have.
type world struct {
	rnd  *rand.Rand
	have map[Source]map[types.UID]*corev1.Pod
	seen map[Source]bool
	uid  int
	// renames: a UID may come back under another name.
	renames bool
}

func newWorld(seed uint64, renames bool, sources []Source) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), have: map[Source]map[types.UID]*corev1.Pod{}, seen: map[Source]bool{}, renames: renames}
	for _, s := range sources {
		w.have[s] = map[types.UID]*corev1.Pod{}
	}
	return w
}

// pick is a random pod of the source, nil for none.
func (w *world) pick(s Source) *corev1.Pod {
	n := len(w.have[s])
	if n == 0 {
		return nil
	}
	n = w.rnd.IntN(n)
	for i := range w.uid + 1 {
		if p := w.have[s][types.UID(fmt.Sprint(i))]; p != nil {
			if n--; n < 0 {
				return p
			}
		}
	}
	return nil
}

// newPod has a fresh UID, or that of a pod that was there before, and a name of a few.
func (w *world) newPod() *corev1.Pod {
	w.uid++
	uid := w.uid
	if w.rnd.IntN(4) == 0 {
		uid = w.rnd.IntN(w.uid) + 1
	}
	name := uid % 8
	if w.renames {
		name = w.rnd.IntN(8)
	}
	p := testPod(fmt.Sprint("p", name), fmt.Sprint(uid))
	if w.rnd.IntN(8) == 0 {
		terminating(p)
	}
	return p
}

func (w *world) edit(p *corev1.Pod) *corev1.Pod {
	edits := []func(*corev1.Pod){
		phase(corev1.PodPhase(fmt.Sprint("phase", w.rnd.IntN(3)))),
		image(fmt.Sprint(w.rnd.IntN(3))),
		annotated("x", fmt.Sprint(w.rnd.IntN(3))),
		annotated(firstSeenAnnotation, fmt.Sprint(w.rnd.IntN(3))),
		terminating,
		func(p *corev1.Pod) { p.ResourceVersion = fmt.Sprint(w.rnd.IntN(100)) },
	}
	return edited(p, edits[w.rnd.IntN(len(edits))])
}

// change makes one change of the source and keeps what it has after it.
func (w *world) change(s Source) Change {
	have := w.have[s]
	var ch Change
	switch {
	case !w.seen[s] && w.rnd.IntN(3) > 0:
		ch = Change{Initial: true, Full: true}
		w.seen[s] = true
	case w.rnd.IntN(6) == 0:
		ch = Change{Full: true}
		w.seen[s] = true
	}
	if !ch.Full {
		for range w.rnd.IntN(3) {
			if p := w.pick(s); p != nil {
				ch.Gone = append(ch.Gone, Gone{UID: p.UID})
				delete(have, p.UID)
			}
		}
		for range w.rnd.IntN(4) {
			p := w.newPod()
			if old := w.pick(s); old != nil && w.rnd.IntN(3) > 0 {
				p = w.edit(old)
			}
			ch.Pods = append(ch.Pods, p)
			for uid, other := range have { // a name is taken over
				if other.Name == p.Name && uid != p.UID {
					delete(have, uid)
				}
			}
			have[p.UID] = p
		}
		return ch
	}
	// What it had, some of it changed or left out, some of it new, in random
	// order, with duplicates of names and UIDs: the first counts.
	for _, p := range have {
		switch w.rnd.IntN(5) {
		case 0:
		case 1:
			ch.Pods = append(ch.Pods, w.edit(p))
		default:
			ch.Pods = append(ch.Pods, p)
		}
	}
	for range w.rnd.IntN(4) {
		ch.Pods = append(ch.Pods, w.newPod())
	}
	w.rnd.Shuffle(len(ch.Pods), func(i, j int) { ch.Pods[i], ch.Pods[j] = ch.Pods[j], ch.Pods[i] })
	clear(have)
	names := map[string]bool{}
	for _, p := range ch.Pods {
		if have[p.UID] == nil && !names[p.Name] {
			have[p.UID], names[p.Name] = p, true
		}
	}
	return ch
}

// consumer replays the updates, and knows which may come when.
type consumer struct {
	behaviour Behaviour
	have      map[Source]map[types.UID]*corev1.Pod
	initial   map[Source]bool
	last      map[Source]Op
}

func newConsumer(b Behaviour, sources []Source) *consumer {
	c := &consumer{behaviour: b, have: map[Source]map[types.UID]*corev1.Pod{}, initial: map[Source]bool{}, last: map[Source]Op{}}
	for _, s := range sources {
		c.have[s] = map[types.UID]*corev1.Pod{}
	}
	return c
}

// apply returns what is wrong with the update for one who knows what came before.
func (c *consumer) apply(u PodUpdate) error {
	have := c.have[u.Source]
	if u.Initial && (c.initial[u.Source] || u.Op != Add) {
		return fmt.Errorf("%s: initial a second time, or no ADD", line(u))
	}
	c.initial[u.Source] = c.initial[u.Source] || u.Initial
	if len(u.Pods) == 0 && !u.Initial {
		return fmt.Errorf("%s: says nothing", line(u))
	}
	for _, p := range u.Pods {
		old := have[p.UID]
		if (old == nil) != (u.Op == Add) {
			return fmt.Errorf("%s: %s known: %t", line(u), p.UID, old != nil)
		}
		switch u.Op {
		case Remove:
			delete(have, p.UID)
			continue
		case Add:
		default:
			if want := c.behaviour.compare(old, p); want != u.Op {
				return fmt.Errorf("%s: %s changed by %s", line(u), p.UID, want)
			}
		}
		have[p.UID] = p
	}
	names := map[string]types.UID{}
	for uid, p := range have {
		if other, taken := names[p.Name]; taken {
			return fmt.Errorf("%s: %s and %s have the name %s at once", line(u), uid, other, p.Name)
		}
		names[p.Name] = uid
	}
	return nil
}

// equals compares what the consumer has with what the sources have.
func (c *consumer) equals(w *world) error {
	for s, want := range w.have {
		if c.initial[s] != w.seen[s] {
			return fmt.Errorf("source %s: initial %t, seen %t", s, c.initial[s], w.seen[s])
		}
		if len(c.have[s]) != len(want) {
			return fmt.Errorf("source %s: the consumer has %d pods, the source %d", s, len(c.have[s]), len(want))
		}
		for uid, p := range want {
			if got := c.have[s][uid]; got == nil || c.behaviour.compare(got, p) != 0 {
				return fmt.Errorf("source %s: pod %s differs", s, uid)
			}
		}
	}
	return nil
}

// checkPending: "That takes memory in proportion to the pods, never to the changes."
func (s *store) checkPending() error {
	for _, ss := range s.sources {
		pending := 0
		for _, op := range ops {
			pending += ss.pending[op].Len()
		}
		if s.offer != nil && s.offer.source == ss {
			pending += len(s.offer.records)
		}
		known := 0
		for _, r := range ss.records {
			if r.told != nil || !r.gone || r.offered != nil {
				known++
			}
		}
		if pending > known || known != len(ss.records) {
			return fmt.Errorf("source %s: %d pending, %d known, %d records", ss.name, pending, known, len(ss.records))
		}
	}
	return nil
}

// TestRandomHistories: "Who applies the updates in order has what the sources
// have as soon as nothing is pending", and each update makes sense to one who
// knows what came before: several sources at random, offers that are received,
// taken back, or still open when the next change comes.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	sources := []Source{FileSource, HTTPSource, APIServerSource}
	steps := 0
	for seed := range uint64(250) {
		b := Improved
		if seed%4 == 3 {
			b = KubeletCompatible
		}
		w, c := newWorld(seed, b == Improved, sources), newConsumer(b, sources)
		s := newStore(sources, b, slog.New(slog.DiscardHandler))
		var open *offer
		step := func(received bool) {
			steps++
			switch {
			case open == nil:
				open, _ = s.take()
			case received:
				u := open.update()
				s.commit(open)
				open = nil
				if err := c.apply(u); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			default:
				s.retract(open)
				open = nil
			}
			if err := s.checkPending(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range 60 {
			k := w.rnd.IntN(len(sources))
			s.apply(s.sources[k], w.change(sources[k]))
			if err := s.checkPending(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for range w.rnd.IntN(5) * w.rnd.IntN(2) {
				step(w.rnd.IntN(4) > 0)
			}
			if w.rnd.IntN(10) > 0 {
				continue
			}
			if open != nil {
				step(true)
			}
			for step(true); open != nil; step(true) {
				step(true) // received; then the next is taken
			}
			if err := c.equals(w); err != nil {
				t.Fatalf("seed %d: with nothing pending %v", seed, err)
			}
		}
	}
	if steps < 10_000 {
		t.Errorf("only %d steps", steps)
	}
}

// TestRandomConsumer: the same through Run, sources telling at once, with a
// consumer that is slow at random.
func TestRandomConsumer(t *testing.T) {
	t.Parallel()
	sources := []Source{FileSource, APIServerSource}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w, c := newWorld(seed, true, sources), newConsumer(Improved, sources)
			producers := map[Source]*testSource{}
			var cfg Config
			for _, s := range sources {
				producers[s] = newTestSource(s)
				cfg.Sources = append(cfg.Sources, producers[s])
			}
			r := run(t, cfg)
			pause := rand.New(rand.NewPCG(seed, 2))
			go func() {
				for u := range r.Updates() {
					if err := c.apply(u); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
					time.Sleep(time.Duration(pause.IntN(1000)) * time.Millisecond)
				}
			}()
			for range 100 {
				src := sources[w.rnd.IntN(len(sources))]
				producers[src].changes <- w.change(src)
				time.Sleep(time.Duration(w.rnd.IntN(400)) * time.Millisecond)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := c.equals(w); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}
