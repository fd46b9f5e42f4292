package reflector

import (
	"hash/maphash"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// table holds entries by their keys. It is a hash table with open addressing, of which a
// place is one pointer: a map would hold the key (32 bytes) once more, and look for it
// twice where a version is replaced. Unlike a map it gives memory back when the collection shrinks.
type table[T any] struct {
	slots []*entry[T] // a power of two; nil is free
	n     int
}

// tableLeast is the smallest number of places.
const tableLeast = 16

// hashSeed makes the order in a table differ from one process to the next.
var hashSeed = maphash.MakeSeed()

func hashOf(k decode.Key) uint32 {
	h := maphash.String(hashSeed, k.Name) ^ maphash.String(hashSeed, k.Namespace)*0x9E3779B97F4A7C15
	return uint32(h ^ h>>32)
}

// find returns the entry under k, or nil.
func (t *table[T]) find(k decode.Key) *entry[T] {
	if t.n == 0 {
		return nil
	}
	h := hashOf(k)
	for i := t.home(h); t.slots[i] != nil; i = t.after(i) {
		if e := t.slots[i]; e.hash == h && e.key == k {
			return e
		}
	}
	return nil
}

func (t *table[T]) home(h uint32) int { return int(h) & (len(t.slots) - 1) }
func (t *table[T]) after(i int) int   { return (i + 1) & (len(t.slots) - 1) }

// free returns the first free place from h's home on.
func (t *table[T]) free(h uint32) int {
	i := t.home(h)
	for t.slots[i] != nil {
		i = t.after(i)
	}
	return i
}

// at returns the place of e, which is in the table.
func (t *table[T]) at(e *entry[T]) int {
	i := t.home(e.hash)
	for t.slots[i] != e {
		if t.slots[i] == nil {
			panic("reflector: an entry is not in the table that it was taken from")
		}
		i = t.after(i)
	}
	return i
}

// put adds e, whose key is not in the table.
func (t *table[T]) put(e *entry[T]) {
	if t.n >= len(t.slots)/4*3 {
		t.resize(max(tableLeast, 2*len(t.slots)))
	}
	t.slots[t.free(e.hash)] = e
	t.n++
}

// replace puts e in the place of old, which has the same key.
func (t *table[T]) replace(old, e *entry[T]) { t.slots[t.at(old)] = e }

// delete takes e out. What stands behind it moves up, so that no search ends at a gap
// before what it looks for.
func (t *table[T]) delete(e *entry[T]) {
	gap := t.at(e)
	for i := t.after(gap); t.slots[i] != nil; i = t.after(i) {
		// It may move to the gap if that is not before its home.
		if mask := len(t.slots) - 1; (i-t.home(t.slots[i].hash))&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = nil
	t.n--
	if len(t.slots) > tableLeast && t.n < len(t.slots)/8 {
		t.resize(len(t.slots) / 4)
	}
}

func (t *table[T]) resize(size int) {
	old := t.slots
	t.slots = make([]*entry[T], max(tableLeast, size))
	for _, e := range old {
		if e != nil {
			t.slots[t.free(e.hash)] = e
		}
	}
}

// entries returns all entries, in no particular order.
func (t *table[T]) entries() []*entry[T] {
	all := make([]*entry[T], 0, t.n)
	for _, e := range t.slots {
		if e != nil {
			all = append(all, e)
		}
	}
	return all
}
