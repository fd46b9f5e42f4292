package cacheadapter

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// ErrReadOnly is what the writing methods of an [Indexer] return, wrapped.
var ErrReadOnly = errors.New("the store is filled by a nodewatch reflector and by nobody else")

// Indexer shows a nodewatch store as a cache.Indexer that can be read and not
// written, so that client-go's generated listers, and what else reads an
// informer's indexer, work on it:
//
//	lister := corev1listers.NewPodLister(cacheadapter.NewIndexer(r.Store()))
//
// The indexes are the store's, by their names, and cache.NamespaceIndex, which
// is there always: where the store has no index of that name
// (reflector.ByNamespace) all keys are gone through. Add, Update, Delete, Replace and
// AddIndexers change nothing and return an error that is ErrReadOnly. Bookmark and Resync,
// which a lister does not call, do nothing.
//
// The objects are the store's: shared and immutable, as client-go's are.
// It is safe for use by several goroutines.
type Indexer[T any] struct {
	store   *reflector.Store[T]
	indexes map[string]reflector.Index[T]
}

// NewIndexer returns a view of store. It copies nothing.
func NewIndexer[T any](store *reflector.Store[T]) *Indexer[T] {
	i := &Indexer[T]{store: store, indexes: make(map[string]reflector.Index[T])}
	for _, ix := range store.Indexes() {
		i.indexes[ix.Name] = ix
	}
	return i
}

// List returns all objects, in no particular order.
func (i *Indexer[T]) List() []any { return objects(i.store.All()) }

// ListKeys returns namespace/name, or name alone, of all objects.
func (i *Indexer[T]) ListKeys() []string { return keys(i.store.All()) }

// Get returns the object that has the key of obj, which may be a
// cache.DeletedFinalStateUnknown or any object with metadata.
func (i *Indexer[T]) Get(obj any) (item any, exists bool, err error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, fmt.Errorf("the key of a %T: %w", obj, err)
	}
	return i.GetByKey(key)
}

// GetByKey returns the object of a namespace/name, or name alone.
func (i *Indexer[T]) GetByKey(key string) (item any, exists bool, err error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, err
	}
	obj, ok := i.store.Get(namespace, name)
	if !ok {
		return nil, false, nil
	}
	return obj, true, nil
}

// Index returns the objects that have, in the named index, a value in common
// with obj.
func (i *Indexer[T]) Index(index string, obj any) ([]any, error) {
	values, err := i.valuesOf(index, obj)
	if err != nil {
		return nil, err
	}
	var items []any
	seen := make(map[decode.Key]bool)
	for _, value := range values {
		found, err := i.by(index, value)
		if err != nil {
			return nil, err
		}
		for key, item := range found {
			if !seen[key] {
				seen[key] = true
				items = append(items, item)
			}
		}
	}
	return items, nil
}

// IndexKeys returns the keys of the objects that have the value in the named index.
func (i *Indexer[T]) IndexKeys(index, value string) ([]string, error) {
	found, err := i.by(index, value)
	if err != nil {
		return nil, err
	}
	return keys(found), nil
}

// ByIndex returns the objects that have the value in the named index.
func (i *Indexer[T]) ByIndex(index, value string) ([]any, error) {
	found, err := i.by(index, value)
	if err != nil {
		return nil, err
	}
	return objects(found), nil
}

// ListIndexFuncValues returns all values of the named index, without
// duplicates, and nothing for an index that is not there. It asks each object.
func (i *Indexer[T]) ListIndexFuncValues(index string) []string {
	seen := make(map[string]bool)
	for key, obj := range i.store.All() {
		if ix, ok := i.indexes[index]; ok {
			for _, value := range ix.Values(obj) {
				seen[value] = true
			}
		} else if index == cache.NamespaceIndex {
			seen[key.Namespace] = true
		}
	}
	values := make([]string, 0, len(seen))
	for value := range seen {
		values = append(values, value)
	}
	slices.Sort(values)
	return values
}

// GetIndexers returns the indexes as client-go's functions.
func (i *Indexer[T]) GetIndexers() cache.Indexers {
	all := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for name := range i.indexes {
		all[name] = func(obj any) ([]string, error) { return i.valuesOf(name, obj) }
	}
	return all
}

// LastStoreSyncResourceVersion returns "": it is in the reflector's Status.
func (i *Indexer[T]) LastStoreSyncResourceVersion() string { return "" }

// Add fails: see [Indexer].
func (i *Indexer[T]) Add(any) error { return readOnly("Add") }

// Update fails: see [Indexer].
func (i *Indexer[T]) Update(any) error { return readOnly("Update") }

// Delete fails: see [Indexer].
func (i *Indexer[T]) Delete(any) error { return readOnly("Delete") }

// Replace fails: see [Indexer].
func (i *Indexer[T]) Replace([]any, string) error { return readOnly("Replace") }

// AddIndexers fails: the indexes of a store are given to reflector.NewStore.
func (i *Indexer[T]) AddIndexers(cache.Indexers) error {
	return fmt.Errorf("AddIndexers: give the indexes to reflector.NewStore: %w", ErrReadOnly)
}

// Bookmark does nothing.
func (i *Indexer[T]) Bookmark(string) {}

// Resync does nothing.
func (i *Indexer[T]) Resync() error { return nil }

func readOnly(method string) error { return fmt.Errorf("%s: %w", method, ErrReadOnly) }

// by ranges over the objects that have the value in the named index.
func (i *Indexer[T]) by(index, value string) (iter.Seq2[decode.Key, T], error) {
	if _, ok := i.indexes[index]; ok {
		return i.store.By(index, value), nil
	}
	if index != cache.NamespaceIndex {
		return nil, i.unknown(index)
	}
	return func(yield func(decode.Key, T) bool) {
		for key, obj := range i.store.All() {
			if key.Namespace == value && !yield(key, obj) {
				return
			}
		}
	}, nil
}

// valuesOf returns the values under which the named index has, or would have, obj.
func (i *Indexer[T]) valuesOf(index string, obj any) ([]string, error) {
	if index == cache.NamespaceIndex {
		// Listers ask with an ObjectMeta that has nothing but the namespace.
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("the namespace of a %T: %w", obj, err)
		}
		return []string{m.GetNamespace()}, nil
	}
	ix, ok := i.indexes[index]
	if !ok {
		return nil, i.unknown(index)
	}
	typed, ok := obj.(T)
	if !ok {
		return nil, fmt.Errorf("index %q is of %T and not of %T", index, typed, obj)
	}
	return ix.Values(typed), nil
}

func (i *Indexer[T]) unknown(index string) error {
	names := []string{cache.NamespaceIndex}
	for name := range i.indexes {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Errorf("the store has no index %q; it has %q", index, slices.Compact(names))
}

func objects[T any](of iter.Seq2[decode.Key, T]) []any {
	var all []any
	for _, obj := range of {
		all = append(all, obj)
	}
	return all
}

func keys[T any](of iter.Seq2[decode.Key, T]) []string {
	var all []string
	for key := range of {
		all = append(all, key.String())
	}
	return all
}

var _ cache.Indexer = (*Indexer[any])(nil)
