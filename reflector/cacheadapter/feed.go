package cacheadapter

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Feed pours what c, a Reflector or a Union, sees into store until ctx ends, and
// returns its error joined with its cause, or until c has stopped and everything
// is delivered, and returns nil. An error of the store ends it as well and is
// returned.
//
// The first snapshot is one Replace, so the store is never seen half full;
// before it nothing is called. Later each change is one Add, Update or Delete, in
// server order per object; a later relist is the changes that it found, not
// another Replace. A delete that nobody saw comes as
// cache.DeletedFinalStateUnknown; a store whose key function does not know that
// type gets the last known object instead. At the end of each later list the
// store's Bookmark, if it has one, gets the list's resourceVersion. Resync is
// never called. client-go's Store, DeltaFIFO and RealFIFO are such stores.
//
// All calls are made from the caller's goroutine, and a slow store holds up
// nobody else: see Collection.Events. The objects are shared with c's own store
// and with other subscribers, and by default in parts with each other (see
// reflector.ObjectsShared): they must not be changed.
func Feed[T any](ctx context.Context, c reflector.Collection[T], store cache.ReflectorStore) error {
	f := feed[T]{store: store, first: make(map[decode.Key]T)}
	for ev := range c.Events(ctx) {
		if err := f.apply(ev); err != nil {
			return err
		}
	}
	return ctxerr.Of(ctx)
}

// feed is one run of Feed.
type feed[T any] struct {
	store cache.ReflectorStore
	first map[decode.Key]T // the first snapshot on its way; nil after it
}

func (f *feed[T]) apply(ev reflector.Event[T]) error {
	var err error
	switch {
	case ev.Type == reflector.Synced && f.first != nil:
		items := make([]any, 0, len(f.first))
		for _, obj := range f.first {
			items = append(items, obj)
		}
		f.first = nil
		err = f.store.Replace(items, ev.ResourceVersion)
	case ev.Type == reflector.Synced:
		err = bookmark(f.store, ev.ResourceVersion)
	case f.first != nil && ev.Type == reflector.Deleted:
		delete(f.first, ev.Key)
	case f.first != nil:
		f.first[ev.Key] = ev.Object
	case ev.Type == reflector.Added:
		err = f.store.Add(ev.Object)
	case ev.Type == reflector.Modified:
		err = f.store.Update(ev.Object)
	case ev.Type == reflector.Deleted:
		err = f.remove(ev)
	}
	if noKey := new(cache.KeyError); errors.As(err, noKey) {
		err = noKey.Err // KeyError's own text is a dump of the object
	}
	if err != nil {
		return fmt.Errorf("feeding %s %s at resourceVersion %q to a client-go store: %w", ev.Type, ev.Key, ev.ResourceVersion, err)
	}
	return nil
}

func (f *feed[T]) remove(ev reflector.Event[T]) error {
	if !ev.FinalStateUnknown {
		return f.store.Delete(ev.Object)
	}
	// Key is namespace/name or name, as cache.MetaNamespaceKeyFunc makes it.
	err := f.store.Delete(cache.DeletedFinalStateUnknown{Key: ev.Key.String(), Obj: ev.Object})
	if noKey := new(cache.KeyError); errors.As(err, noKey) {
		return f.store.Delete(ev.Object)
	}
	return err
}

// bookmark tells a store that it has everything up to rv. client-go has two
// signatures for that: one of its stores, one of its queues.
func bookmark(store cache.ReflectorStore, rv string) error {
	switch s := store.(type) {
	case cache.ReflectorBookmarkStore:
		return s.Bookmark(rv)
	case interface{ Bookmark(string) }:
		s.Bookmark(rv)
	}
	return nil
}
