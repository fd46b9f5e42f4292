package simulator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// held is an object as somebody on the client's side has it.
type held struct {
	uid string
	rv  int64
	seq int // of the version whose content it is; 0 is none of the model's
}

func holds(pod *corev1.Pod) held {
	seq, _ := strconv.Atoi(pod.Annotations[contentNote])
	return held{uid: string(pod.UID), rv: number(pod.ResourceVersion), seq: seq}
}

// consumer folds the events of one subscription and finds fault with them.
type consumer struct {
	Consumer
	id    int
	s     *server
	ready time.Duration // until when it handles what it found last

	mu        sync.Mutex // guards what follows
	log       transcript
	objects   map[string]held
	delivered map[held]bool // without seq
	synced    bool
}

func newConsumer(s *server, id int, c Consumer) *consumer {
	return &consumer{Consumer: c, id: id, s: s, objects: map[string]held{}, delivered: map[held]bool{}}
}

// run consumes until the subscription ends.
func (c *consumer) run(ctx context.Context, r *reflector.Reflector[*corev1.Pod]) {
	if pause(ctx, c.Join) != nil {
		return
	}
	c.s.settle()
	sub := reflector.Subscription[*corev1.Pod]{Policy: c.Policy, Limit: c.Limit, Replay: c.Replay}
	if c.Some {
		sub.Where = func(pod *corev1.Pod) bool { return c.matches(number(pod.ResourceVersion)) }
	}
	for ev := range r.Subscribe(&patient{Context: ctx, s: c.s}, sub) {
		if now := c.s.now(); now > c.ready {
			// The first event of a batch: it takes its time, and then takes
			// with it whatever came meanwhile.
			wait := c.Latency
			for _, stall := range c.Stalls {
				if now >= stall.From && now < stall.To {
					wait = stall.To - now
				}
			}
			c.ready = now + wait
			if pause(ctx, wait) != nil {
				return
			}
			c.s.settle()
		}
		c.take(ev, r.Status())
	}
}

// patient makes a consumer that waited look only when all that came in the same moment is
// there: how much of that it finds would else be the goroutine scheduler's
// to say, and a small limit depends on it. It relies on how a subscription
// waits: on Done, and then it asks Err. One goroutine uses it.
type patient struct {
	context.Context
	s      *server
	waited bool
}

func (p *patient) Done() <-chan struct{} {
	p.waited = true
	return p.Context.Done()
}

func (p *patient) Err() error {
	if p.waited {
		p.waited = false
		p.s.settle()
	}
	return p.Context.Err()
}

func (c *consumer) take(ev reflector.Event[*corev1.Pod], status reflector.Status) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.s.now()
	bad := func(promise, format string, args ...any) {
		c.log.fail(now, promise, fmt.Sprintf("consumer %d: ", c.id)+fmt.Sprintf(format, args...))
	}
	if ev.Initial != !c.synced {
		bad(promiseSnapshot, "%v of %q says Initial=%v, a Synced came before: %v", ev.Type, ev.Key.Name, ev.Initial, c.synced)
	}
	if ev.Type == reflector.Synced {
		c.log.add(now, "consumer %d: SYNCED %s", c.id, ev.ResourceVersion)
		c.syncedAt(number(ev.ResourceVersion), bad)
		if h, n, known := c.s.shadow.position(); known && c.Prompt && !c.s.shadow.listing() {
			c.s.fresh(status.FreshAsOf, h, n)
		}
		c.synced = true
		return
	}
	name := ev.Key.Name
	have, known := c.objects[name]
	var got held
	if ev.Object != nil {
		got = holds(ev.Object)
	}
	suffix := ""
	if ev.Replay {
		c.log.add(now, "consumer %d: replay %s@%d/%s", c.id, name, got.rv, ev.UID)
		if ev.Type != reflector.Modified || ev.Object != ev.Old || !known || have != got {
			bad(promiseTwice, "replay of %s@%d/%s as %v, delivered before: %v", name, got.rv, ev.UID, ev.Type, have)
		}
		return
	}
	if ev.FinalStateUnknown {
		suffix = ", final state unknown"
	}
	c.log.add(now, "consumer %d: %v %s@%d/%s%s", c.id, ev.Type, name, got.rv, ev.UID, suffix)
	if got.uid != string(ev.UID) || got.rv != number(ev.ResourceVersion) {
		bad(promiseIdentity, "%v of %s says %s/%s, its object %s/%d", ev.Type, name, ev.UID, ev.ResourceVersion, got.uid, got.rv)
	}
	if !c.exists(got) {
		bad(promiseOrder, "%v of %s: the server never had (%s, %d) with the content of write %d", ev.Type, name, got.uid, got.rv, got.seq)
	}
	// A server that was restored to the past takes its versions up again.
	past := now >= c.s.world.restored
	if ev.Type != reflector.Deleted {
		if !c.matches(got.rv) {
			bad(promiseOrder, "%v of %s@%d, which it does not want", ev.Type, name, got.rv)
		}
		key := held{uid: got.uid, rv: got.rv}
		if c.delivered[key] && !past {
			bad(promiseTwice, "%v of %s@%d/%s was delivered before", ev.Type, name, got.rv, got.uid)
		}
		c.delivered[key] = true
	}
	switch ev.Type {
	case reflector.Added:
		if known {
			bad(promiseIdentity, "ADDED %s/%s, but %s is there and was not deleted", name, got.uid, have.uid)
		}
		c.objects[name] = got
	case reflector.Modified:
		switch {
		case !known:
			bad(promiseOrder, "MODIFIED %s, which is not there", name)
		case have.uid != got.uid:
			bad(promiseIdentity, "MODIFIED %s from %s to %s", name, have.uid, got.uid)
		case have.rv > got.rv && !past:
			bad(promiseOrder, "MODIFIED %s from %d back to %d", name, have.rv, got.rv)
		case have == got:
			bad(promiseTwice, "MODIFIED %s at %d to the same", name, got.rv)
		case ev.Old == nil || holds(ev.Old) != have:
			bad(promiseOrder, "MODIFIED %s: Old is not what was delivered before", name)
		}
		c.objects[name] = got
	case reflector.Deleted:
		switch {
		case !known:
			bad(promiseOrder, "DELETED %s, which is not there", name)
		case have.uid != got.uid:
			bad(promiseIdentity, "DELETED %s/%s, but %s is there", name, got.uid, have.uid)
		case have.rv > got.rv && !past:
			bad(promiseOrder, "DELETED %s at %d, after %d", name, got.rv, have.rv)
		case ev.Old != nil && (c.matches(got.rv) || holds(ev.Old) != have):
			bad(promiseOrder, "DELETED %s at %d as if it did not match; Old is not what was delivered before", name, got.rv)
		}
		delete(c.objects, name)
	}
}

// sawAll holds a consumer for which the client waits against the prompt one: every version was delivered.
func (c *consumer) sawAll(prompt *consumer) {
	for _, key := range slices.SortedFunc(maps.Keys(prompt.delivered), func(a, b held) int { return cmp.Compare(a.rv, b.rv) }) {
		if c.matches(key.rv) && !c.delivered[key] {
			c.log.fail(c.s.now(), promiseOrder, fmt.Sprintf("consumer %d: (%s, %d) was not delivered to it", c.id, key.uid, key.rv))
			return
		}
	}
}

// exists reports whether the server ever had an object like that.
func (c *consumer) exists(h held) bool {
	for _, v := range c.s.world.byID[h.uid][h.rv] {
		if v.content().seq == h.seq || v.at <= c.s.now() && c.s.shadow.blind {
			return true
		}
	}
	return false
}

// syncedAt: the fold is what the list had. Only the prompt consumer can tell,
// since what comes after a list is merged into what a late one has not read yet.
func (c *consumer) syncedAt(rv int64, bad func(string, string, ...any)) {
	if !c.Prompt {
		return
	}
	for i := len(c.s.shadow.snapshots) - 1; i >= 0; i-- {
		if snap := c.s.shadow.snapshots[i]; snap.rv == rv {
			if diff := c.s.compare(c.objects, snap.h, snap.n, c.Consumer); diff != "" {
				bad(promiseSnapshot, "at SYNCED %d %s", rv, diff)
			}
			return
		}
	}
	bad(promiseSnapshot, "SYNCED %d, but no list was complete there", rv)
}
