package decode

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
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

// Kind is what an object says of its type, as strings that can be kept. The zero value is none.
type Kind struct{ apiVersion, kind string }

// moved returns m, of an object whose bytes are at from, for a copy of them at to.
func (m Meta) moved(from, to []byte, kind *Kind) Meta {
	if m.APIVersion != kind.apiVersion || m.Kind != kind.kind {
		*kind = Kind{strings.Clone(m.APIVersion), strings.Clone(m.Kind)}
	}
	m.APIVersion, m.Kind = kind.apiVersion, kind.kind
	m.Namespace, m.Name = layout.Moved(m.Namespace, from, to), layout.Moved(m.Name, from, to)
	m.UID, m.ResourceVersion = types.UID(layout.Moved(string(m.UID), from, to)), layout.Moved(m.ResourceVersion, from, to)
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
