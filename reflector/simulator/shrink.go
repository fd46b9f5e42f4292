package simulator

import (
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Shrink returns the smallest schedule that it finds in which still breaks what
// broke in s, and how many runs that took. try runs a schedule.
//
// It leaves out parts of the lists, halves first and then smaller ones (delta
// debugging), until nothing can be left out.
func Shrink(s *Schedule, promise string, try func(*Schedule) *Failure, limit int) (*Schedule, int) {
	runs := 0
	broken := func(c *Schedule) bool {
		runs++
		f := try(c)
		return f != nil && f.Promise == promise
	}
	small := *s
	for _, simpler := range []func(*Schedule){
		func(c *Schedule) { c.Client.Gzip = false },
		func(c *Schedule) { c.Client.Encoding = listwatch.EncodingJSON },
		func(c *Schedule) { c.Client.PageSize = 0 },
		func(c *Schedule) { c.Client.Initial = reflector.InitialList },
		func(c *Schedule) { c.Client.WatchTimeout = 0 },
		func(c *Schedule) { c.Client.IdleTimeout = 0 },
		func(c *Schedule) { c.Client.Objects = reflector.ObjectsShared },
		func(c *Schedule) { c.Server.Chunk = 0 },
		func(c *Schedule) { c.Server.Window = 5000 },
	} {
		c := small
		if simpler(&c); broken(&c) {
			small = c
		}
	}
	for again := true; again && runs < limit; {
		again = false
		again = shrinkList(&small, func(c *Schedule) *[]Fault { return &c.Faults }, broken, &runs, limit) || again
		again = shrinkList(&small, func(c *Schedule) *[]Op { return &c.Ops }, broken, &runs, limit) || again
		again = shrinkList(&small, func(c *Schedule) *[]Consumer { return &c.Consumers }, broken, &runs, limit) || again
	}
	return &small, runs
}

// shrinkList leaves out elements of one list of s, and reports whether it could.
func shrinkList[E any](s *Schedule, field func(*Schedule) *[]E, broken func(*Schedule) bool, runs *int, limit int) bool {
	smaller := false
	for size := max(len(*field(s))/2, 1); ; size /= 2 {
		for i := 0; i < len(*field(s)) && *runs < limit; {
			all := *field(s)
			c := *s
			*field(&c) = append(append([]E(nil), all[:i]...), all[min(i+size, len(all)):]...)
			if broken(&c) {
				*s, smaller = c, true
				continue
			}
			i += size
		}
		if size <= 1 {
			return smaller
		}
	}
}
