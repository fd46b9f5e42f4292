package reflector

import (
	"sync"
	"time"
)

// Histogram is a cumulative distribution of durations.
type Histogram struct {
	Count uint64
	Sum   time.Duration
	// Buckets holds for each upper bound how many observations were at most that long.
	Buckets []Bucket
}

// Bucket is one upper bound of a Histogram.
type Bucket struct {
	UpperBound time.Duration
	Count      uint64
}

// histogram counts durations. Its methods are safe from any goroutine.
type histogram struct {
	bounds []time.Duration // ascending; set before the first use, then left alone

	mu     sync.Mutex
	counts []uint64 // parallel to bounds, not cumulative
	n      uint64
	sum    time.Duration
}

func (h *histogram) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.sum += d
	for i, bound := range h.bounds {
		if d <= bound {
			if h.counts == nil {
				h.counts = make([]uint64, len(h.bounds))
			}
			h.counts[i]++
			return
		}
	}
}

func (h *histogram) snapshot() Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Histogram{Count: h.n, Sum: h.sum, Buckets: make([]Bucket, len(h.bounds))}
	var below uint64
	for i, bound := range h.bounds {
		if h.counts != nil {
			below += h.counts[i]
		}
		out.Buckets[i] = Bucket{UpperBound: bound, Count: below}
	}
	return out
}

// listBounds span an empty namespace and 100,000 pods over a slow line.
var listBounds = []time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond,
	time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute,
}

// watchBounds span a watch that is refused and the ten minutes of a healthy one.
var watchBounds = []time.Duration{
	time.Second, 10 * time.Second, time.Minute, 3 * time.Minute,
	5 * time.Minute, 8 * time.Minute, 11 * time.Minute, time.Hour,
}
