package decode

import (
	"k8s.io/apimachinery/pkg/types"
)

// Encoding is how the bytes of an object are to be read.
type Encoding uint8

// The encodings of the Kubernetes API that nodewatch reads.
const (
	JSON Encoding = iota + 1
	Protobuf
)

// String returns "json" or "protobuf".
func (e Encoding) String() string {
	switch e {
	case JSON:
		return "json"
	case Protobuf:
		return "protobuf"
	}
	return "unknown"
}

// Meta is what is known of an object before it is decoded.
type Meta struct {
	APIVersion, Kind string
	Namespace, Name  string
	UID              types.UID
	ResourceVersion  string
	// InitialEventsEnd is set when the annotation k8s.io/initial-events-end is
	// "true": on a bookmark it ends the initial events of a watch-list (KEP-3157).
	InitialEventsEnd bool
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
