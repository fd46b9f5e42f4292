package codec

// luck is, by field, how often in a row its value was looked for among those of other objects and was not there. Of
// names, UIDs, addresses and IDs of containers no two are alike, and to find that out each time
// costs more than to read them: most of what is looked for in vain is in none of the processor's caches. So after
// patience failures one value in each pause is looked for, until one is found.
//
// It is one goroutine's. A field that shares one value in twenty shares nearly as many with it.
type luck []uint8

const (
	patience = 200
	pause    = 8
)

// try tells whether the value of f is to be looked for. If so, note is called next.
func (l luck) try(f *protoField) bool {
	n := &l[f.id]
	if *n < patience {
		return true
	}
	if *n++; *n < patience+pause {
		return false
	}
	*n = patience - 1
	return true
}

// note notes whether the value of f was there.
func (l luck) note(f *protoField, there bool) {
	if there {
		l[f.id] = 0
		return
	}
	l[f.id]++
}
