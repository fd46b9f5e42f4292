package listwatch

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// The fields that every list message has.
const (
	listMetaField  protowire.Number = 1
	listItemsField protowire.Number = 2
)

// protobuf reads a list in the API's protobuf envelope. The list message inside
// of it is not held: its fields are read one by one within the length that the envelope names.
func (l *listReader[T]) protobuf() error {
	magic, err := l.r.Peek(len(decode.Magic))
	if err != nil {
		return frame.Inside(err)
	}
	if string(magic) != decode.Magic {
		return fmt.Errorf("the body begins with %s, not with the protobuf magic", frame.Snippet(magic))
	}
	l.r.Discard(len(decode.Magic))
	var hasType, hasRaw bool
	for {
		num, typ, err := l.r.Tag()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case typ != protowire.BytesType:
			err = l.r.SkipField(typ)
		case num == decode.EnvelopeTypeMeta:
			if hasType {
				return fmt.Errorf("type: %w", errTwice)
			}
			hasType = true
			err = l.typeMeta()
		case num == decode.EnvelopeRaw:
			if hasRaw {
				return fmt.Errorf("content: %w", errTwice)
			}
			if !hasType {
				// Every server writes it first; behind the items it would be too late to refuse them.
				return errors.New("the content stands before its type")
			}
			hasRaw, l.hasItems = true, true
			err = l.listMessage()
		case num == decode.EnvelopeContentEncoding:
			var size int64
			if size, err = l.r.Length(); err == nil && size != 0 {
				return errors.New("the content has an encoding of its own, which no API server uses")
			}
		default:
			err = l.r.SkipField(typ)
		}
		if err != nil {
			return err
		}
	}
	return l.finish()
}

func (l *listReader[T]) typeMeta() error {
	raw, err := l.bytes(maxKindBytes)
	if err != nil {
		return err
	}
	apiVersion, kind, err := decode.TypeMeta(raw)
	if err != nil {
		return fmt.Errorf("type of the list: %w", err)
	}
	l.kind, l.apiVersion = string(kind), string(apiVersion)
	return l.checkKind()
}

// listMessage reads the message of the list.
func (l *listReader[T]) listMessage() error {
	size, err := l.r.Length()
	if err != nil {
		return err
	}
	end := l.r.Offset() + size
	for l.r.Offset() < end {
		num, typ, err := l.r.Tag()
		if err != nil {
			return frame.Inside(err)
		}
		if typ == protowire.BytesType {
			err = l.listField(num, end)
		} else {
			err = l.r.SkipField(typ)
		}
		if err != nil {
			return err
		}
	}
	if l.r.Offset() > end {
		return errors.New("a field goes beyond the end of the list")
	}
	return nil
}

func (l *listReader[T]) listField(num protowire.Number, end int64) error {
	size, err := l.r.Length()
	if err != nil {
		return err
	}
	if size > end-l.r.Offset() {
		return fmt.Errorf("a field of %d bytes goes beyond the end of the list", size)
	}
	switch num {
	case listMetaField:
		if l.metaHanded {
			return fmt.Errorf("metadata: %w", errTwice)
		}
		raw, err := l.r.Bytes(size, maxMetaBytes, nil)
		if err != nil {
			return err
		}
		if err := l.meta.Unmarshal(raw); err != nil {
			return fmt.Errorf("metadata of the list: %w", err)
		}
		return l.handMeta()
	case listItemsField:
		return l.protobufItem(size)
	}
	return l.r.Skip(size)
}

func (l *listReader[T]) protobufItem(size int64) error {
	l.head = decode.Meta{}
	raw, err := l.r.Bytes(size, l.lw.config.MaxItemBytes, l.headPB)
	return l.item(decode.Protobuf, raw, err)
}

// bytes reads a length and as many bytes.
func (l *listReader[T]) bytes(limit int) ([]byte, error) {
	size, err := l.r.Length()
	if err != nil {
		return nil, err
	}
	return l.r.Bytes(size, limit, nil)
}
