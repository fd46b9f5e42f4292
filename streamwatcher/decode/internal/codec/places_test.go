package codec

import (
	"fmt"
	"hash/maphash"
	"sync"
	"testing"
)

// countingPlaces are places of numbers that are their own hashes.
func countingPlaces(first, limit int) *places[uint64] {
	p := new(places[uint64])
	p.init(first, limit, func(v *uint64) uint64 { return *v })
	return p
}

func (p *places[T]) size() int { return len(p.current.Load().slots) }

// What is put into more than a quarter of the places makes them more, up to the limit, and is found afterwards.
func TestPlacesGrow(t *testing.T) {
	p := countingPlaces(16, 100)
	value := func(i int) uint64 { return uint64(i+1)<<40 | uint64(i*7) }
	for i, want := range []int{16, 16, 16, 16, 32, 32, 32, 32, 32, 32, 32, 32, 32, 64} { // a growth begins to count anew
		v := value(i)
		p.store(v, &v)
		if got := p.size(); got != want {
			t.Fatalf("%d places after %d values, want %d", got, i+1, want)
		}
		for j := range i + 1 {
			table, v := p.current.Load(), value(j)
			if at := table.slots[table.at(v)].find(v); at == nil || *at != v {
				t.Fatalf("after %d values the one of %d is not there", i+1, j+1)
			}
		}
	}
	for v := range uint64(1000) {
		p.store(v, &v)
	}
	if got := p.size(); got != 100 {
		t.Errorf("%d places, want the limit", got)
	}
	one := uint64(1)
	if p = countingPlaces(64, 1); p.size() != 1 {
		t.Errorf("%d places of at most one", p.size())
	}
	p.store(one, &one)
	p.miss(p.current.Load(), one)
}

// Two that fall on one place get places of their own, as they displace each other each time.
func TestPlacesPartRivals(t *testing.T) {
	p := countingPlaces(16, 64)
	for range 20 {
		for _, v := range []uint64{3, 3 + 16} {
			table := p.current.Load()
			if at := table.slots[table.at(v)].find(v); at == nil || *at != v {
				p.store(v, &v)
			}
		}
	}
	if got := p.size(); got != 32 {
		t.Errorf("%d places for two values, want 32", got)
	}
}

// What was sighted once is still known when the places become more.
func TestGrowthKeepsSightings(t *testing.T) {
	s := newShares(1<<10, [2]maphash.Seed{})
	const first = 5<<32 | 64 + 7 // of place 7 of 64, and 71 of 128
	if s.came(first) {
		t.Fatal("it came before it came")
	}
	for _, want := range []int{128, 256, 512, 1 << 10, 1 << 10} {
		was := s.current.Load()
		s.grow(was)
		now := s.current.Load()
		s.grow(was) // as somebody who found the same at the same time
		if s.current.Load() != now {
			t.Fatal("the places were made twice, and what was put into the first is lost")
		}
		if s.size() != want || !s.didCome(first) {
			t.Fatalf("%d places, in which it is known: %t; want %d and true", s.size(), s.didCome(first), want)
		}
	}
}

// Places become more when what comes again is forgotten in between, and not for what comes only once,
// however much that is.
func TestPlacesGrowForWhatComesAgain(t *testing.T) {
	hash := func(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 }
	once := newShares(1<<12, [2]maphash.Seed{})
	for i := range uint64(100_000) {
		once.came(hash(i))
	}
	if got := once.size(); got != firstPlaces {
		t.Errorf("%d places for what comes once", got)
	}
	again := newShares(1<<12, [2]maphash.Seed{})
	for range 60 {
		for i := range uint64(1000) {
			again.came(hash(i))
		}
	}
	// Of 64 places hardly one would know it still.
	known := 0
	for i := range uint64(1000) {
		if again.came(hash(i)) {
			known++
		}
	}
	if got := again.size(); got < 512 || got > 1<<12 || known < 500 {
		t.Errorf("%d of 1000 are known in %d places", known, got)
	}
}

// Goroutines that put, miss and grow at a time: nothing is found that is not there, and there come to be no more places than may be.
func TestPlacesOfGoroutines(t *testing.T) {
	p := countingPlaces(4, 1<<10)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(3000) {
				v := (i*4 + g) * 0x9E3779B97F4A7C15
				table := p.current.Load()
				if at := table.slots[table.at(v)].find(v); at != nil && table.at(*at) != table.at(v) && table.at(*at) != table.at(v)-1 {
					t.Errorf("%d is at the place of %d", *at, v)
				}
				p.miss(table, v%100<<32)
				p.put(table, table.at(v), v, &v)
			}
		})
	}
	wg.Wait()
	if got := p.size(); got != 1<<10 {
		t.Errorf("%d places after 12,000 values, want the limit", got)
	}
}

// Words that come again and again are known, though there are few places at first.
func TestWordsGrow(t *testing.T) {
	w := newWords(1 << 14)
	if n := w.size(); n != firstPlaces {
		t.Errorf("%d places before anything came", n)
	}
	known := 0
	for range 100 {
		known = 0
		for i := range 1000 {
			if w.findOf(0, fmt.Appendf(nil, "word-%d", i)) != nil {
				known++
			}
		}
	}
	// A word can miss its place where three fall on two; of 4,096 places that are a few of a thousand.
	if known < 900 || w.size() < 2048 {
		t.Errorf("%d of 1000 words are known, in %d places", known, w.size())
	}
}
