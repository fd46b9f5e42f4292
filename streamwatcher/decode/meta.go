package decode

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Meta is what is known of an object before it is decoded. Its strings may be parts of
// something larger, and of the reader's memory: they are valid as long as [Object].Raw is,
// and who keeps one keeps a strings.Clone of it.
type Meta struct {
	APIVersion, Kind string
	Namespace, Name  string
	UID              types.UID
	ResourceVersion  string
	// InitialEventsEnd is looked for in bookmarks. It is set when the annotation k8s.io/initial-events-end is
	// "true": on a bookmark it ends the initial events of a watch-list (KEP-3157).
	InitialEventsEnd bool
}

// Clone returns m with strings of its own, to be kept.
func (m Meta) Clone() Meta {
	m.APIVersion, m.Kind = strings.Clone(m.APIVersion), strings.Clone(m.Kind)
	m.Namespace, m.Name = strings.Clone(m.Namespace), strings.Clone(m.Name)
	m.UID, m.ResourceVersion = types.UID(strings.Clone(string(m.UID))), strings.Clone(m.ResourceVersion)
	return m
}

// Key names one object of a collection.
type Key struct{ Namespace, Name string }

// String returns namespace/name, or name alone where there is no namespace.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Key returns the object's key.
func (m Meta) Key() Key { return Key{m.Namespace, m.Name} }
