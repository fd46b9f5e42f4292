package reflector

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Index is a named index of a Store.
type Index[T any] struct {
	// Name is what By asks for; one store has each name once.
	Name string
	// Values returns the values under which the object is found: none, one or
	// several; one that is named twice counts once. It is called once for each
	// version of an object, by the reflector's goroutine and before the
	// version is visible, and must neither block nor change the object.
	Values func(T) []string
}

// ByLabel indexes by the value of one label; the index is called "label:"+label.
// An object without the label is not in it, one with an empty value is found
// under "".
func ByLabel[T metav1.Object](label string) Index[T] {
	return Index[T]{
		Name: "label:" + label,
		Values: func(obj T) []string {
			if v, ok := obj.GetLabels()[label]; ok {
				return []string{v}
			}
			return nil
		},
	}
}

// ByNamespace indexes by namespace; the index is called "namespace". Objects
// without a namespace are found under "".
func ByNamespace[T metav1.Object]() Index[T] {
	return Index[T]{
		Name:   "namespace",
		Values: func(obj T) []string { return []string{obj.GetNamespace()} },
	}
}

// ByUID indexes by UID; the index is called "uid".
func ByUID[T metav1.Object]() Index[T] {
	return Index[T]{
		Name:   "uid",
		Values: func(obj T) []string { return []string{string(obj.GetUID())} },
	}
}

// By ranges over the objects of which the named index has value, in no
// particular order, as All does: a snapshot of pointers, no lock in the body. A
// value that no object has is an empty range.
//
// It panics when the store has no index of that name. That is a mistake in the
// program, like a wrong map type, and an empty range would hide it.
func (s *Store[T]) By(index, value string) iter.Seq2[decode.Key, T] {
	at := s.indexAt(index)
	return func(yield func(decode.Key, T) bool) {
		s.mu.RLock()
		var snapshot []*entry[T]
		if b, ok := s.byIndex[at].get(value); ok {
			snapshot = slices.Clone(b.entries)
		}
		s.mu.RUnlock()
		yieldEntries(snapshot, yield)
	}
}

// Indexes returns the indexes that the store was made with.
func (s *Store[T]) Indexes() []Index[T] { return slices.Clone(s.indexes) }

// indexAt returns the place of the named index; it panics where there is none.
func (s *Store[T]) indexAt(name string) int {
	at := slices.IndexFunc(s.indexes, func(ix Index[T]) bool { return ix.Name == name })
	if at < 0 {
		panic(fmt.Sprintf("reflector: the store has no index %q; it was made with %q", name, s.indexNames()))
	}
	return at
}

func (s *Store[T]) indexNames() []string {
	names := make([]string, len(s.indexes))
	for i, ix := range s.indexes {
		names[i] = ix.Name
	}
	return names
}

// indexTable is one index: for each value the entries that have it.
type indexTable[T any] struct {
	shrinkingMap[string, *bucket[T]]
}

// bucket is one value of one index. Where each of its entries stands is written in the
// entry (see place), so that a version takes the place of the one before without a search.
type bucket[T any] struct {
	table   *indexTable[T]
	value   string // a copy: the bucket outlives the object that opened it
	entries []*entry[T]
}

// place is where an entry stands in a bucket.
type place[T any] struct {
	*bucket[T]
	at   int
	next *place[T] // of the same entry
}

func checkIndexes[T any](indexes []Index[T]) {
	names := make(map[string]bool, len(indexes))
	for i, ix := range indexes {
		switch {
		case ix.Name == "":
			panic(fmt.Sprintf("reflector: index %d of a store has no name", i))
		case ix.Values == nil:
			panic(fmt.Sprintf("reflector: index %q of a store has no Values function", ix.Name))
		case names[ix.Name]:
			panic(fmt.Sprintf("reflector: a store has two indexes called %q", ix.Name))
		}
		names[ix.Name] = true
	}
}

// indexValues asks every index for the values of obj.
func indexValues[T any](indexes []Index[T], obj T) [][]string {
	values := make([][]string, len(indexes))
	for i, ix := range indexes {
		values[i] = ix.Values(obj)
	}
	return values
}

// reindex puts d into all tables, and takes old, which may be nil, out of those
// that d is not in. Which they are is known by the places of old, so that an object that somebody
// changed against the rules is still found when it leaves them.
func reindex[T any](tables []indexTable[T], old *entry[T], d draft[T]) {
	if len(tables) == 0 {
		return
	}
	n := 0
	for _, values := range d.values {
		n += len(values)
	}
	places := make([]place[T], n)
	for i, values := range d.values {
		for _, v := range values {
			b := tables[i].open(v)
			if b.of(d.entry) == nil { // a value that is named twice counts once
				b.put(old, d.entry, &places[0])
				places = places[1:]
			}
		}
	}
	unindex(old)
}

// unindex takes e out of all buckets in which no other version stands in its place.
func unindex[T any](e *entry[T]) {
	if e == nil {
		return
	}
	for p := e.in; p != nil; p = p.next {
		if p.entries[p.at] == e {
			p.remove(p.at)
		}
	}
	e.in = nil
}

// valuesIn returns under which values e stands in tables.
func (e *entry[T]) valuesIn(tables []indexTable[T]) [][]string {
	values := make([][]string, len(tables))
	for i := range tables {
		for p := e.in; p != nil; p = p.next {
			if p.table == &tables[i] {
				values[i] = append(values[i], p.value)
			}
		}
	}
	return values
}

// open returns the bucket of a value.
func (t *indexTable[T]) open(value string) *bucket[T] {
	b, ok := t.get(value)
	if !ok {
		b = &bucket[T]{table: t, value: strings.Clone(value)}
		t.set(b.value, b)
	}
	return b
}

// of returns the place of e in b, or nil.
func (b *bucket[T]) of(e *entry[T]) *place[T] {
	if e != nil {
		for p := e.in; p != nil; p = p.next {
			if p.bucket == b {
				return p
			}
		}
	}
	return nil
}

// put adds e at p, which is the place of old where old is in b.
func (b *bucket[T]) put(old, e *entry[T], p *place[T]) {
	*p = place[T]{bucket: b, at: len(b.entries), next: e.in}
	if before := b.of(old); before != nil {
		p.at = before.at
		b.entries[p.at] = e
	} else {
		b.entries = append(b.entries, e)
	}
	e.in = p
}

// remove takes out what stands at at. The last one moves there. Memory is given back when
// less than a quarter is in use.
func (b *bucket[T]) remove(at int) {
	last := len(b.entries) - 1
	if moved := b.entries[last]; at != last {
		b.entries[at] = moved
		b.of(moved).at = at
	}
	b.entries[last] = nil
	b.entries = b.entries[:last]
	switch {
	case last == 0:
		b.table.delete(b.value)
	case cap(b.entries) > shrinkFrom && last < cap(b.entries)/4:
		b.entries = append(make([]*entry[T], 0, 2*last), b.entries...)
	}
}
