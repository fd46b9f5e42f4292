package codec

// luck is how often in a row the value of a field, or a value of a node, was looked for among those of other objects
// and was not there: strings by the id of their field, what is shared by that of its node. Of names,
// UIDs, addresses and IDs of containers no two are alike, and to find that out each time
// costs more than to read them: most of what is looked for in vain is in none of the processor's caches. So after
// patience failures one value in each pause is looked for, until one is found.
//
// It is one goroutine's. What one value in twenty shares is shared nearly as often with it.
type luck []uint8

const (
	patience = 200
	pause    = 8
)

// try tells whether the value is to be looked for. If so, note is called next.
func (l luck) try(id int) bool {
	n := &l[id]
	if *n < patience {
		return true
	}
	if *n++; *n < patience+pause {
		return false
	}
	*n = patience - 1
	return true
}

// note notes whether the value was there.
func (l luck) note(id int, there bool) {
	if there {
		l[id] = 0
		return
	}
	l[id]++
}
