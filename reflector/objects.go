package reflector

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Objects says what a store keeps of each object, and so what memory it takes and
// what an event costs. Whichever it is, nobody may write to what a store or an
// event hands out.
type Objects uint8

const (
	// ObjectsShared: objects share what is equal in them (label maps, environments, probes,
	// conditions), and an update is made of the version before it and the bytes that changed. With
	// Transform, which may write to its argument, objects are private instead.
	ObjectsShared Objects = iota
	// ObjectsPrivate: no object has anything in common with another one, nor with
	// its earlier versions.
	ObjectsPrivate
	// ObjectsCompact: the store keeps the encoded bytes, without the fields that the decoder
	// drops, and makes an object each time that one is read: by Get, All and By, and for the events
	// when they are delivered. Each read gives an object of its own. It is for agents
	// that hold much and read little. It has no Transform, whose result could not be kept.
	//
	// A ListerWatcher whose decoder cannot pack (decode.Packer) is served as by ObjectsPrivate.
	ObjectsCompact
)

// String returns shared, private or compact.
func (o Objects) String() string {
	switch o {
	case ObjectsShared:
		return "shared"
	case ObjectsPrivate:
		return "private"
	case ObjectsCompact:
		return "compact"
	}
	return fmt.Sprintf("Objects(%d)", uint8(o))
}

// content is one version of an object, as it is kept.
type content[T any] struct {
	obj    T                 // the zero T where packed is set
	parts  decode.Parts      // of obj's bytes; zero where obj is not what was decoded
	packed *decode.Packed[T] // of a compact store
}

// object returns the object. Of packed bytes each call makes a new one.
//
// That they decode is known, since the object was made of them before it was stored, and they
// are immutable. If they do not it is by a decoder that says now this, now that; a store that hid
// an object for it would have its readers believe that it is gone. So it panics.
func (c *content[T]) object(k decode.Key) T {
	if c.packed == nil {
		return c.obj
	}
	obj, err := c.packed.Decode()
	if err != nil {
		panic(fmt.Sprintf("reflector: %s decoded when it came and does not any more: %v", k, err))
	}
	return obj
}

// names returns the names in m as parts of the bytes, where they are there as they are read.
func names[T any](p *decode.Packed[T], m *decode.Meta) (decode.Key, types.UID, string) {
	text := p.Text()
	part := func(s string) string {
		if i := strings.Index(text, s); i >= 0 {
			return text[i : i+len(s)]
		}
		return strings.Clone(s)
	}
	return decode.Key{Namespace: part(m.Namespace), Name: part(m.Name)}, types.UID(part(string(m.UID))), part(m.ResourceVersion)
}

// make makes what is to be kept of o; old is what is stored under its key, or
// nil. It touches nothing but o, and may be called from any goroutine. A decoder of the
// caller's that panics costs the object.
func (r *Reflector[T]) make(o *decode.Object[T], old *entry[T]) (c content[T], err error) {
	defer r.recovered(&err)
	switch {
	case r.cfg.Objects == ObjectsCompact:
		return r.pack(o)
	case r.cfg.Objects == ObjectsPrivate || r.cfg.Transform != nil:
		c.obj, err = o.Decode()
	case old != nil && old.uid == o.Meta.UID:
		c.obj, c.parts, err = o.DecodeShared(old.obj, old.parts)
	default:
		c.obj, c.parts, err = o.DecodeShared(c.obj, c.parts)
	}
	return c, err
}

// pack makes both forms of o. The object is made of the packed bytes, which are thereby known to decode.
func (r *Reflector[T]) pack(o *decode.Object[T]) (c content[T], err error) {
	bytes, ok, err := o.Pack()
	switch {
	case err != nil:
		return c, err
	case !ok:
		c.obj, err = o.Decode()
		return c, err
	}
	if c.obj, err = bytes.Decode(); err != nil {
		// What is kept knows nothing of the answer that it came in. The decoder of o may, and
		// leaves out of its error what must not be shown: credentials that the server sent back.
		if _, err = o.Decode(); err == nil {
			err = errPacked
		}
		return c, err
	}
	c.packed = &bytes
	return c, nil
}

var errPacked = errors.New("the object decodes, what is to be kept of it does not")
