package herd

import (
	"math"
	"slices"
	"sync"
	"time"
)

// arrival is what arrives at the server.
type arrival uint8

const (
	dial arrival = iota // a connection asked for, refused or not
	list
	watch
	watchList
	kinds // how many there are
)

// bin is the resolution of the counts.
const bin = 100 * time.Millisecond

// tally counts what the server is asked, from the kill on, and when the clients are fresh.
type tally struct {
	mu               sync.Mutex // guards all below
	began            time.Time  // zero: not counting yet
	listening, ready time.Time
	bins             [][kinds]int
	listed           int                   // bytes of lists and of initial events
	fresh            map[int]time.Duration // by client, how long after ready
	waiting          int
}

func newTally(clients int) *tally {
	return &tally{fresh: make(map[int]time.Duration, clients), waiting: clients}
}

// begin starts the counting.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.listed = time.Now(), 0
}

func (t *tally) arrive(what arrival) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		return
	}
	i := int(time.Since(t.began) / bin)
	for len(t.bins) <= i {
		t.bins = append(t.bins, [kinds]int{})
	}
	t.bins[i][what]++
}

// list counts bytes of a list or of initial events.
func (t *tally) list(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listed += bytes
}

// listens and isReady note when the server comes back.
func (t *tally) listens() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listening = time.Now()
}

func (t *tally) isReady() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready = time.Now()
}

// saw notes that a client's store has the new pod.
func (t *tally) saw(client int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again := t.fresh[client]; !again {
		t.fresh[client] = time.Since(t.ready)
		t.waiting--
	}
}

func (t *tally) stale() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting
}

// peak is the largest number of arrivals of the kinds within any window.
func (t *tally) peak(window time.Duration, of ...arrival) int {
	most, now, width := 0, 0, int(window/bin)
	for i := range t.bins {
		now += t.in(i, of)
		if i >= width {
			now -= t.in(i-width, of)
		}
		most = max(most, now)
	}
	return most
}

func (t *tally) in(bin int, of []arrival) int {
	sum := 0
	for _, k := range of {
		sum += t.bins[bin][k]
	}
	return sum
}

func (t *tally) total(of ...arrival) int {
	sum := 0
	for i := range t.bins {
		sum += t.in(i, of)
	}
	return sum
}

// freshAfter is within how long after readiness the part q of all clients was
// fresh: the smallest time that at least that part did not exceed.
func (t *tally) freshAfter(q float64) time.Duration {
	times := make([]time.Duration, 0, len(t.fresh))
	for _, d := range t.fresh {
		times = append(times, d)
	}
	slices.Sort(times)
	return times[max(int(math.Ceil(q*float64(len(times))))-1, 0)]
}

// requests are what a server works for.
var requests = []arrival{list, watch, watchList}
