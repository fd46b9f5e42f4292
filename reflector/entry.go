package reflector

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// entry is one version of an object. It is never changed after it was
// published, so that a snapshot of pointers is a snapshot of the collection;
// only seen and in, which no reader looks at, are.
//
// Its size counts once for each object: 10,000 pods in a store are 10,000 entries.
type entry[T any] struct {
	key decode.Key
	uid types.UID
	rv  string
	content[T]
	in   *place[T] // where it stands in indexes: the first
	hash uint32    // of key; see table
	seen uint32    // the epoch of the last replacement that brought it
}

// draft is an entry that can be published: what the functions of indexes
// said of it is not in the indexes yet.
type draft[T any] struct {
	*entry[T]
	values [][]string // parallel to Store.indexes
}

// newEntry makes a version that may be set; old is what is stored under its key, or nil. The
// functions of indexes are called here, before anything changes, since they may panic.
func (s *Store[T]) newEntry(old *entry[T], m *decode.Meta, c content[T]) draft[T] {
	d := draft[T]{entry: &entry[T]{content: c, seen: s.epoch}}
	if len(s.indexes) > 0 {
		d.values = indexValues(s.indexes, c.obj)
	}
	e := d.entry
	if old != nil {
		e.hash = old.hash
	} else {
		e.hash = hashOf(m.Key())
	}
	if c.packed != nil {
		var none T
		e.obj = none
		e.key, e.uid, e.rv = names(c.packed, m)
		return d
	}
	if named, ok := accessor(c.obj); ok {
		// The object has these strings anyway.
		e.key = decode.Key{Namespace: either(named.GetNamespace(), m.Namespace), Name: either(named.GetName(), m.Name)}
		e.uid = types.UID(either(string(named.GetUID()), string(m.UID)))
		e.rv = either(named.GetResourceVersion(), m.ResourceVersion)
		return d
	}
	if old == nil || old.uid != m.UID {
		e.key, e.uid, e.rv = ownNames(m)
		return d
	}
	e.key, e.uid, e.rv = old.key, old.uid, strings.Clone(m.ResourceVersion)
	return d
}

// ended returns the final state of e, which stands nowhere but in events.
func (e *entry[T]) ended(m *decode.Meta, final content[T]) *entry[T] {
	if final.packed != nil {
		var none T
		final.obj = none
	}
	return &entry[T]{key: e.key, uid: e.uid, rv: strings.Clone(m.ResourceVersion), content: final}
}

// accessor returns obj's accessors, if it has any.
func accessor(obj any) (metav1.Object, bool) {
	o, ok := obj.(metav1.Object)
	if v := reflect.ValueOf(obj); ok && v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false // a Transform may make such ones
	}
	return o, ok
}

// either returns the string of an object where it says what its metadata said, else a copy of that.
func either(objects, metadata string) string {
	if objects == metadata {
		return objects
	}
	return strings.Clone(metadata)
}

// ownNames copies the names in m, which may be parts of something larger, into one string.
func ownNames(m *decode.Meta) (decode.Key, types.UID, string) {
	ns, name, uid := len(m.Namespace), len(m.Name), len(m.UID)
	all := m.Namespace + m.Name + string(m.UID) + m.ResourceVersion
	rest := all[ns:]
	return decode.Key{Namespace: all[:ns], Name: rest[:name]}, types.UID(rest[name : name+uid]), rest[name+uid:]
}
