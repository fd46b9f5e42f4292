package reflector

import (
	"slices"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	h := histogram{bounds: []time.Duration{time.Second, time.Minute}}
	if s := h.snapshot(); s.Count != 0 || len(s.Buckets) != 2 || s.Buckets[1].Count != 0 {
		t.Errorf("empty: %+v", s)
	}
	for _, d := range []time.Duration{0, time.Second, time.Second + 1, time.Minute, time.Hour} {
		h.observe(d)
	}
	want := []Bucket{{time.Second, 2}, {time.Minute, 4}} // cumulative; what is above all bounds is in Count alone
	s := h.snapshot()
	if s.Count != 5 || s.Sum != time.Hour+time.Minute+2*time.Second+1 || !slices.Equal(s.Buckets, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
	for _, bounds := range [][]time.Duration{listBounds, watchBounds, handlerBounds} {
		if !slices.IsSorted(bounds) {
			t.Errorf("bounds are not ascending: %v", bounds)
		}
	}
}
