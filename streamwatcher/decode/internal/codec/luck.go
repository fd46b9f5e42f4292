package codec

// luck is how often in a row the value of a field, or a value of a node, was looked for among those of other objects
// and was not there: strings by the id of their field, what is shared by that of its node. Of names,
// UIDs, addresses and IDs of containers no two are alike, and to find that out each time
// costs more than to read them: most of what is looked for in vain is in none of the processor's caches. So after
// patience failures some values in each round are looked for, until one is found: neighbours, since what is alike mostly
// is one behind the other.
//
// It is one goroutine's. What one value in twenty shares is shared nearly as often with it.
type luck []odds

type odds struct{ failures, turn uint8 }

const (
	patience = 200
	round    = 128
	tries    = 16 // of a round
)

// try tells whether the value is to be looked for. If so, note is called next.
func (l luck) try(id int) bool {
	o := &l[id]
	if o.failures < patience {
		return true
	}
	o.turn++
	return o.turn%round < tries
}

// note notes whether the value was there.
func (l luck) note(id int, there bool) {
	switch o := &l[id]; {
	case there:
		o.failures = 0
	case o.failures < patience:
		o.failures++
	}
}
