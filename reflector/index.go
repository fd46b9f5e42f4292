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

// By ranges over the objects of which the named index has value, in no
// particular order, as All does: a snapshot of pointers, no lock in the body. A
// value that no object has is an empty range.
//
// It panics when the store has no index of that name. That is a mistake in the
// program, like a wrong map type, and an empty range would hide it.
func (s *Store[T]) By(index, value string) iter.Seq2[decode.Key, T] {
	at := slices.IndexFunc(s.indexes, func(ix Index[T]) bool { return ix.Name == index })
	if at < 0 {
		panic(fmt.Sprintf("reflector: the store has no index %q; it was made with %q", index, s.indexNames()))
	}
	return func(yield func(decode.Key, T) bool) {
		s.mu.RLock()
		bucket, _ := s.byIndex[at].get(value)
		var snapshot []*entry[T]
		if bucket != nil {
			snapshot = make([]*entry[T], 0, bucket.len())
			for _, e := range bucket.m {
				snapshot = append(snapshot, e)
			}
		}
		s.mu.RUnlock()
		yieldEntries(snapshot, yield)
	}
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
	shrinkingMap[string, *shrinkingMap[decode.Key, *entry[T]]]
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

// indexValues asks every index for the values of obj. They are kept with the
// entry, so that an object that somebody changed against the rules is still
// found when it leaves the index.
func indexValues[T any](indexes []Index[T], obj T) [][]string {
	values := make([][]string, len(indexes))
	for i, ix := range indexes {
		values[i] = ix.Values(obj)
	}
	return values
}

// reindexLocked takes old out of all indexes and puts e in; either may be nil.
func (s *Store[T]) reindexLocked(old, e *entry[T]) {
	for i := range s.byIndex {
		if old != nil {
			for _, v := range old.values[i] {
				// A value that stays is overwritten below.
				if e == nil || !slices.Contains(e.values[i], v) {
					s.byIndex[i].drop(v, old.key)
				}
			}
		}
		if e != nil {
			for _, v := range e.values[i] {
				s.byIndex[i].put(v, e)
			}
		}
	}
}

func (t *indexTable[T]) put(value string, e *entry[T]) {
	bucket, ok := t.get(value)
	if !ok {
		bucket = new(shrinkingMap[decode.Key, *entry[T]])
		// The bucket outlives the object that opened it.
		t.set(strings.Clone(value), bucket)
	}
	bucket.set(e.key, e)
}

func (t *indexTable[T]) drop(value string, k decode.Key) {
	bucket, ok := t.get(value)
	if !ok {
		return
	}
	bucket.delete(k)
	if bucket.len() == 0 {
		t.delete(value)
	}
}
