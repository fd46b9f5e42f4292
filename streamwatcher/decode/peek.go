package decode

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// Peek reads the metadata of an object and as little else as it can: JSON up to
// where apiVersion, kind and metadata are known, of protobuf the message's first
// field. Kind and APIVersion stand in JSON only.
//
// On error Meta holds what was read before it. So the head of an object that was
// cut off can be peeked: the error is then io.ErrUnexpectedEOF.
//
// The strings of Meta are parts of raw, see [Meta].
func Peek(enc Encoding, raw []byte) (Meta, error) { return new(Peeker).Peek(enc, raw) }

// Peeker peeks many objects, one after another, without an allocation. The zero value is ready.
type Peeker struct {
	json jsonPeek
}

// Peek is as the function Peek.
func (p *Peeker) Peek(enc Encoding, raw []byte) (Meta, error) {
	return p.peek(enc, raw, toMetadata, Meta{})
}

// Identify is Peek without InitialEventsEnd, for all that is not a bookmark: it stops
// as soon as kind, apiVersion, namespace, name, UID and resourceVersion are known. In JSON as API servers
// write it, and in protobuf, that is before labels, annotations and managedFields. So of a key that
// comes twice the first counts, where the second stands behind all of these.
func (p *Peeker) Identify(enc Encoding, raw []byte) (Meta, error) {
	return p.peek(enc, raw, toIdentity, Meta{})
}

// PeekJSON is Peek of the JSON object that b begins with, to its end, which is the index behind
// it. It checks what framing checks: strings and brackets. Where b ends within the object the error
// is io.ErrUnexpectedEOF itself, as that is nothing unusual.
func (p *Peeker) PeekJSON(b []byte) (m Meta, end int, err error) {
	p.json.begin(b, toEnd, Meta{})
	err = p.json.object()
	m, end = p.json.end()
	return m, end, err
}

// PeekEnvelope peeks the object in an envelope. Kind and APIVersion are the
// envelope's, where the object says none.
func (p *Peeker) PeekEnvelope(e Envelope) (Meta, error) {
	return p.peek(e.Encoding, e.Raw, toMetadata, Meta{APIVersion: layout.View(e.APIVersion), Kind: layout.View(e.Kind)})
}

// IdentifyEnvelope is Identify for the object in an envelope.
func (p *Peeker) IdentifyEnvelope(e Envelope) (Meta, error) {
	return p.peek(e.Encoding, e.Raw, toIdentity, Meta{APIVersion: layout.View(e.APIVersion), Kind: layout.View(e.Kind)})
}

// peek looks into raw. known is what is known of the object beside it.
func (p *Peeker) peek(enc Encoding, raw []byte, far extent, known Meta) (m Meta, err error) {
	switch enc {
	case JSON:
		p.json.begin(raw, far, known)
		err = p.json.object()
		m, _ = p.json.end()
	case Protobuf:
		m = known
		err = peekProtobuf(raw, far, &m)
	default:
		err = fmt.Errorf("unknown encoding %d", enc)
	}
	if err != nil {
		err = fmt.Errorf("decode: metadata from %v: %w", enc, err)
	}
	return m, err
}

// peekProtobuf reads field 1 of the message, which is ObjectMeta in every kind that
// has one. The other fields are passed over whole: they are few.
func peekProtobuf(raw []byte, far extent, m *Meta) error {
	f := frame.Fields{Rest: raw}
	for f.Next() {
		if f.Num != 1 {
			continue
		}
		if f.Type != protowire.BytesType {
			return errField
		}
		if err := objectMetaProtobuf(f.Bytes, far, m); err != nil {
			return err
		}
	}
	return f.Err
}

func objectMetaProtobuf(b []byte, far extent, m *Meta) error {
	// Each is there, be it empty, as generated code writes them.
	const identity = 1<<1 | 1<<3 | 1<<5 | 1<<6
	seen := 0
	f := frame.Fields{Rest: b}
	for (far != toIdentity || seen != identity) && f.Next() {
		if f.Cut {
			return f.Err
		}
		// The numbers of ObjectMeta in apimachinery's pkg/apis/meta/v1/generated.proto.
		switch f.Num {
		case 1, 3, 5, 6, 12:
			if f.Type != protowire.BytesType {
				return errField
			}
			seen |= 1 << f.Num & identity
		}
		switch f.Num {
		case 1:
			m.Name = layout.View(f.Bytes)
		case 3:
			m.Namespace = layout.View(f.Bytes)
		case 5:
			m.UID = types.UID(layout.View(f.Bytes))
		case 6:
			m.ResourceVersion = layout.View(f.Bytes)
		case 12:
			key, value, err := mapEntry(f.Bytes)
			if err != nil {
				return err
			}
			if string(key) == metav1.InitialEventsAnnotationKey {
				m.InitialEventsEnd = string(value) == "true"
			}
		}
	}
	return f.Err
}

// mapEntry reads one entry of a map of strings.
func mapEntry(b []byte) (key, value []byte, err error) {
	f := frame.Fields{Rest: b}
	for f.Next() {
		if f.Num > 2 {
			continue
		}
		if f.Type != protowire.BytesType {
			return nil, nil, errField
		}
		if f.Num == 1 {
			key = f.Bytes
		} else {
			value = f.Bytes
		}
	}
	return key, value, f.Err
}

var errField = errors.New("protobuf field of another type than metadata has")
