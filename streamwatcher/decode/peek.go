package decode

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// Peek reads the metadata of an object and as little else as it can: JSON up to
// where apiVersion, kind and metadata are known, of protobuf the message's first
// field. Kind and APIVersion stand in JSON only.
//
// On error Meta holds what was read before it. So the head of an object that was
// cut off can be peeked: the error is then io.ErrUnexpectedEOF.
func Peek(enc Encoding, raw []byte) (Meta, error) { return new(Peeker).Peek(enc, raw) }

// Peeker peeks many objects of one collection, one after another: it shares the
// strings that are the same in successive objects, and makes one of those that are
// not, the name, the UID and the resourceVersion. The zero value is ready.
type Peeker struct {
	r    frame.Reader
	last Meta

	// own is the text of which the object's own strings are parts.
	own           []byte
	name, uid, rv span
}

// span is a part of Peeker.own.
type span struct{ from, to int }

// Peek is as the function Peek.
func (p *Peeker) Peek(enc Encoding, raw []byte) (Meta, error) {
	return p.peek(enc, raw, Meta{})
}

// PeekEnvelope peeks the object in an envelope. Kind and APIVersion are the
// envelope's, where the object says none.
func (p *Peeker) PeekEnvelope(e Envelope) (Meta, error) {
	var m Meta
	setShared(&m.APIVersion, &p.last.APIVersion, e.APIVersion)
	setShared(&m.Kind, &p.last.Kind, e.Kind)
	return p.peek(e.Encoding, e.Raw, m)
}

func (p *Peeker) peek(enc Encoding, raw []byte, m Meta) (Meta, error) {
	p.own, p.name, p.uid, p.rv = p.own[:0], span{}, span{}, span{}
	var err error
	switch enc {
	case JSON:
		err = p.json(raw, &m)
	case Protobuf:
		err = p.protobuf(raw, &m)
	default:
		err = fmt.Errorf("unknown encoding %d", enc)
	}
	own := string(p.own)
	m.Name, m.UID, m.ResourceVersion = own[p.name.from:p.name.to], types.UID(own[p.uid.from:p.uid.to]), own[p.rv.from:p.rv.to]
	if cap(p.own) > mostOwnBytes {
		p.own = nil
	}
	if err != nil {
		err = fmt.Errorf("decode: metadata from %v: %w", enc, err)
	}
	return m, err
}

// json reads a JSON object up to where the three members that count are known.
// As in encoding/json a null changes nothing, and a repeated key overwrites.
func (p *Peeker) json(raw []byte, m *Meta) error {
	r := &p.r
	r.SetBytes(raw)
	defer r.SetBytes(nil) // keep no reference
	obj, err := r.Object()
	if err != nil {
		return err
	}
	const apiVersion, kind, metadata = 1, 2, 4
	for seen := 0; seen != apiVersion|kind|metadata; {
		key, ok, err := obj.Next()
		if !ok {
			return err
		}
		switch string(key) {
		case "apiVersion":
			seen |= apiVersion
			err = p.setShared(&m.APIVersion, &p.last.APIVersion)
		case "kind":
			seen |= kind
			err = p.setShared(&m.Kind, &p.last.Kind)
		case "metadata":
			seen |= metadata
			err = p.objectMeta(m)
		default:
			err = r.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// objectMeta reads the value of "metadata".
func (p *Peeker) objectMeta(m *Meta) error {
	obj, ok, err := p.object()
	if !ok {
		return err
	}
	for {
		key, ok, err := obj.Next()
		if !ok {
			return err
		}
		switch string(key) {
		case "name":
			err = p.set(&p.name)
		case "namespace":
			err = p.setShared(&m.Namespace, &p.last.Namespace)
		case "uid":
			err = p.set(&p.uid)
		case "resourceVersion":
			err = p.set(&p.rv)
		case "annotations":
			err = p.annotations(m)
		default:
			err = p.r.SkipValue()
		}
		if err != nil {
			return err
		}
	}
}

// annotations reads the value of "annotations". A null clears the map, other
// values add to it.
func (p *Peeker) annotations(m *Meta) error {
	obj, ok, err := p.object()
	if err != nil {
		return err
	}
	if !ok {
		m.InitialEventsEnd = false
		return nil
	}
	for {
		key, ok, err := obj.Next()
		if !ok {
			return err
		}
		if string(key) != metav1.InitialEventsAnnotationKey {
			if err := p.r.SkipValue(); err != nil {
				return err
			}
			continue
		}
		value, _, err := p.text()
		if err != nil {
			return err
		}
		m.InitialEventsEnd = string(value) == "true"
	}
}

// object enters an object; ok is false where there is a null instead, which is consumed.
func (p *Peeker) object() (obj frame.Object, ok bool, err error) {
	if null, err := p.null(); null || err != nil {
		return frame.Object{}, false, err
	}
	obj, err = p.r.Object()
	return obj, err == nil, err
}

// null consumes a null, if one is there.
func (p *Peeker) null() (bool, error) {
	c, err := p.r.SkipSpace()
	if c != 'n' || err != nil {
		return false, frame.Inside(err)
	}
	return true, p.r.SkipValue()
}

const (
	// maxMetaBytes bounds one metadata string. An annotation can be this long, a
	// name or UID is far shorter.
	maxMetaBytes = 1 << 20
	// mostOwnBytes is what a Peeker holds from one object to the next.
	mostOwnBytes = 4 << 10
)

func (p *Peeker) text() (s []byte, ok bool, err error) {
	if null, err := p.null(); null || err != nil {
		return nil, false, err
	}
	s, err = p.r.String(maxMetaBytes)
	return s, err == nil, err
}

func (p *Peeker) set(dst *span) error {
	s, ok, err := p.text()
	if ok {
		*dst = p.add(s)
	}
	return err
}

func (p *Peeker) add(s []byte) span {
	from := len(p.own)
	p.own = append(p.own, s...)
	return span{from, len(p.own)}
}

func (p *Peeker) setShared(dst, last *string) error {
	s, ok, err := p.text()
	if ok {
		setShared(dst, last, s)
	}
	return err
}

// setShared makes dst the string s, without a new one where it was the last too.
func setShared(dst, last *string, s []byte) {
	if string(s) != *last {
		*last = string(s)
	}
	*dst = *last
}

// protobuf reads field 1 of the message, which is ObjectMeta in every kind that
// has one. The other fields are passed over whole: they are few.
func (p *Peeker) protobuf(raw []byte, m *Meta) error {
	f := frame.Fields{Rest: raw}
	for f.Next() {
		if f.Num != 1 {
			continue
		}
		if f.Type != protowire.BytesType {
			return errField
		}
		if err := p.objectMetaProtobuf(f.Bytes, m); err != nil {
			return err
		}
	}
	return f.Err
}

func (p *Peeker) objectMetaProtobuf(b []byte, m *Meta) error {
	f := frame.Fields{Rest: b}
	for f.Next() {
		if f.Cut {
			return f.Err
		}
		// The numbers of ObjectMeta in apimachinery's pkg/apis/meta/v1/generated.proto.
		switch f.Num {
		case 1, 3, 5, 6, 12:
			if f.Type != protowire.BytesType {
				return errField
			}
		}
		switch f.Num {
		case 1:
			p.name = p.add(f.Bytes)
		case 3:
			setShared(&m.Namespace, &p.last.Namespace, f.Bytes)
		case 5:
			p.uid = p.add(f.Bytes)
		case 6:
			p.rv = p.add(f.Bytes)
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
