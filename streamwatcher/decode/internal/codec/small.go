package codec

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// smalls are numbers and bools for pointers to point to, by their value: most such pointers in
// the API (ports, modes, grace periods, flags) point to one of a few. Nobody may
// write to them. They are safe for several goroutines.
type smalls struct {
	yes, no bool
	narrow  places[int32]
	wide    places[int64]
}

func newSmalls() *smalls {
	s := &smalls{yes: true}
	s.narrow.init(16, 256, func(v *int32) uint64 { return smallHash(*v) })
	s.wide.init(16, 256, func(v *int64) uint64 { return smallHash(*v) })
	return s
}

func (s *smalls) bool(v bool) layout.Ptr {
	if v {
		return layout.Of(&s.yes)
	}
	return layout.Of(&s.no)
}

// integer returns the variable with v of size bytes, 4 or 8.
func (s *smalls) integer(size uintptr, v int64) layout.Ptr {
	if size == 4 {
		return layout.Of(oneOf(&s.narrow, int32(v)))
	}
	return layout.Of(oneOf(&s.wide, v))
}

func oneOf[N int32 | int64](all *places[N], v N) *N {
	t := all.current.Load()
	hash := smallHash(v)
	i := t.at(hash)
	if p := t.slots[i].find(hash); p != nil && *p == v {
		return p
	}
	p := new(N)
	*p = v
	all.put(t, i, hash, p)
	return p
}

func smallHash[N int32 | int64](v N) uint64 { return uint64(uint32(v) * 0x9E3779B1 >> 24) }

// hasSmall tells whether pointers to n can point to a small.
func hasSmall(n *node) bool {
	return n.kind == aBool || n.kind == anInt && (n.size == 4 || n.size == 8)
}

// jsonSmall reads the value of n at i, a bool, number or string, and makes the pointer at p
// point to one, which others may have too. What it pointed to is left as it is.
func (d *state) jsonSmall(n *node, p layout.Ptr, i int) (next int, err error) {
	if n.kind == aString {
		if byteAt(d.raw, i) != '"' {
			return 0, d.mismatch(i, n)
		}
		s, next, err := d.str(i + 1)
		if err != nil {
			return 0, err
		}
		if w := d.known(s); w != nil {
			p.SetPointee(layout.Of(w))
			return next, nil
		}
		to := new(string)
		p.SetPointee(layout.Of(to))
		d.text.String(to, s, d.raw, d.side)
		return next, nil
	}
	var yes bool
	var narrow int32
	var wide int64
	switch {
	case n.kind == aBool:
		next, err = d.plainJSON(aBool, n, layout.Of(&yes), i)
		p.SetPointee(d.smalls.bool(yes))
	case n.size == 4:
		next, err = d.jsonInteger(n, layout.Of(&narrow), i)
		p.SetPointee(d.smalls.integer(4, int64(narrow)))
	default:
		next, err = d.jsonInteger(n, layout.Of(&wide), i)
		p.SetPointee(d.smalls.integer(8, wide))
	}
	return next, err
}

// A pointer to a time of an object that is shared points to the first time that stands in the object itself, if it is the
// same: what was started (pods, jobs) mostly was so in the second in which it was created. Parts
// that can outlive the object have none of it.

// ownTimes tells whether pointers may point to a time in the object at hand.
func (d *state) ownTimes() bool { return d.sharing() && d.text == &d.own }

// noteTime notes that a time is to be read into the variable at p.
func (d *state) noteTime(p layout.Ptr) error {
	switch {
	case !d.ownTimes():
	case d.created.IsNil() && p.Behind(d.base) < d.prog.typ.Size:
		d.created = p
	case d.created == p:
		return errAgain // a pointer may point to it
	}
	return nil
}

// timePointer makes the pointer at p, to n, a time, point to one that is read by read. What it pointed to is
// left as it is.
func (d *state) timePointer(n *node, p layout.Ptr, read func(to layout.Ptr) error) error {
	d.moment = metav1.Time{}
	if err := read(layout.Of(&d.moment)); err != nil {
		return err
	}
	to := d.created
	if to.IsNil() || *layout.As[metav1.Time](to) != d.moment {
		to = d.variable(n)
		*layout.As[metav1.Time](to) = d.moment
	}
	p.SetPointee(to)
	return nil
}
