package codec

import (
	"hash/maphash"
)

// update is the part of a tape that knows of the version before. It remembers of the object what
// tracker does of one with a type: see Part. Here a field is named by a hash of its path, which is in the sums
// too, so that one field is never taken for another.
type update struct {
	upto int // down to which depth members are looked at, 0 for none

	path  uint64         // the hash of the member that is read by its own members, 0 for the root
	old   map[string]any // the version before, or its member that is read now
	was   Parts          // of the version before
	next  int            // where in was the next one is looked for first
	is    Parts          // of the object that is made
	twice bool           // the object has a member twice
}

// begin makes u ready for an object whose version before is old.
func (u *update) begin(old map[string]any, was Parts) {
	*u = update{upto: 1, old: old, was: was, is: u.is[:0]}
}

// before returns the index in was of what is at where, or -1.
func (u *update) before(where uint64) int {
	for k := range u.was {
		i := u.next + k
		if i >= len(u.was) {
			i -= len(u.was)
		}
		if u.was[i].at(where) {
			u.next = i + 1
			return i
		}
	}
	return -1
}

// byMembers tells whether each member of the root's member of this name is remembered, instead of the whole.
func byMembers(name []byte) bool { return string(name) == "metadata" || string(name) == "status" }

// member reads the value at i of the member t of the root, or of one of the root's that is remembered
// by its members. It takes it from the version before if that has the same bytes there.
func (d *tape) member(i int, t token, drop *dropTree, dropped bool) (next int, err error) {
	u, name := &d.update, t.key.Of(d.raw, d.side)
	switch c := byteAt(d.raw, i); {
	case c != '{' && c != '[':
		if dropped {
			return d.pass(i)
		}
		return d.value(i, t, drop)
	case d.depth == 1 && c == '{' && !dropped && byMembers(name):
		root := u.old
		u.upto, u.path = 2, maphash.Bytes(d.reader.seeds[0], name)
		u.old, _ = root[string(name)].(map[string]any)
		next, err = d.value(i, t, drop)
		u.upto, u.path, u.old = 1, 0, root
		return next, err
	}
	path := u.path*31 + maphash.Bytes(d.reader.seeds[0], name)
	where := path >> whereShift << whereShift
	if k := u.before(where); k >= 0 {
		part := u.was[k]
		size := part.size()
		old, ok := u.old[string(name)]
		if (ok || dropped) && shut(d.raw[i:], size) && part.sum == d.sum(path, d.raw[i:i+size]) {
			u.is = append(u.is, part.alone())
			if !dropped {
				t.kind = tokKnown
				d.tokens = append(d.tokens, t)
				d.known = append(d.known, old)
			}
			return i + size, nil
		}
	}
	m := d.mark()
	if dropped {
		next, err = d.pass(i)
	} else {
		next, err = d.value(i, t, drop)
	}
	if size := next - i; err == nil && size >= minPart && len(u.is) < 1<<countBits-1 {
		if !dropped && d.tokens[m.tokens].kind != tokKnown {
			// Its strings stand alone, so that it keeps nothing else alive through the versions to come.
			v := d.build(m)
			d.cut(m)
			d.isKnown(m.tokens, v)
		}
		u.is = append(u.is, Part{where | uint64(size), d.sum(path, d.raw[i:next])})
	}
	return next, err
}

// sum returns what says that b stands at path, but for its length.
func (d *tape) sum(path uint64, b []byte) uint64 { return maphash.Bytes(d.reader.seeds[1], b) + path }

// parts returns what is remembered of the object that was made. With a member twice there is nothing: it
// has the last, and it is not known which that was.
func (u *update) parts() Parts {
	if u.twice {
		return nil
	}
	return u.is.kept()
}
