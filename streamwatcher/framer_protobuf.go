package streamwatcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// protobuf reads four bytes of length, big-endian, and a metav1.WatchEvent of that length.
func (f *framer) protobuf(ev *frameEvent) error {
	prefix, err := f.r.Peek(4) // this is where a watch waits, on a stack with little of this package
	if err != nil {
		return err
	}
	return f.protobufEvent(prefix, ev)
}

// whole tells whether an event has come with all its bytes.
func (f *framer) whole() bool {
	b := f.r.Window()
	return len(b) >= 4 && uint64(binary.BigEndian.Uint32(b)) <= uint64(len(b)-4)
}

// protobufEvent reads the event whose length is prefix.
func (f *framer) protobufEvent(prefix []byte, ev *frameEvent) error {
	length := binary.BigEndian.Uint32(prefix)
	switch {
	case isText(prefix):
		return f.notAnEvent("text where a protobuf watch event should begin")
	case bytes.HasPrefix(prefix, []byte{0x1f, 0x8b, 8}):
		return f.notAnEvent("gzip that the response headers do not name")
	case length > frame.MaxValueBytes:
		return f.notAnEvent("no length of a protobuf watch event")
	}
	at := f.r.Offset()
	f.r.Discard(4)

	f.head = frameEvent{}
	message, err := f.r.Bytes(int64(length), f.max, f.spillPB)
	tooLarge, isLarge := errors.AsType[*frame.TooLargeError](err)
	switch {
	case isLarge:
		*ev = f.head
		ev.fault = tooLarge
		if ev.typ == watch.Error {
			f.setStatus(ev, decode.Protobuf, nil)
		}
	case err != nil:
		return err
	default:
		f.watchEvent(message, ev)
	}
	if ev.typ == "" {
		return &frame.SyntaxError{Offset: at, Msg: "protobuf message that is no watch event, it has no type,"}
	}
	return nil
}

// watchEvent takes a metav1.WatchEvent {1: type, 2: object {1: raw}} apart. When
// the message was cut off, ev gets what there is.
func (f *framer) watchEvent(message []byte, ev *frameEvent) {
	*ev = frameEvent{enc: decode.Protobuf}
	var object []byte
	fields := frame.Fields{Rest: message}
	for fields.Next() {
		switch {
		case fields.Type != protowire.BytesType:
		case fields.Num == 1 && !fields.Cut:
			ev.typ = eventType(fields.Bytes)
		case fields.Num == 2:
			object = fields.Bytes
		}
	}
	ev.fault = fields.Err
	var wire []byte
	extension := frame.Fields{Rest: object}
	for extension.Next() {
		if extension.Num == 1 && extension.Type == protowire.BytesType {
			wire = extension.Bytes
		}
	}
	if ev.fault == nil {
		ev.fault = extension.Err
	}
	if ev.fault == nil && wire == nil {
		ev.fault = errNoObject
	}

	if ev.typ == watch.Error {
		f.setStatus(ev, decode.Protobuf, wire)
		return
	}
	envelope, err := decode.Unwrap(wire)
	if err == nil || err == io.ErrUnexpectedEOF {
		ev.enc, ev.raw = envelope.Encoding, envelope.Raw
		peek := f.peeker.IdentifyEnvelope
		if ev.typ == watch.Bookmark {
			peek = f.peeker.PeekEnvelope
		}
		var bad error
		if ev.meta, bad = peek(envelope); err == nil {
			err = bad
		}
	}
	if ev.fault == nil {
		ev.fault = err
	}
}

// peekHeadProtobuf gets what the head of a frame over the limit says.
func (f *framer) peekHeadProtobuf(head []byte) {
	f.watchEvent(head, &f.head)
	f.head.meta = f.head.meta.Clone() // the head is given up
	f.head.raw, f.head.status = nil, nil
}

// isText tells whether all bytes are printable ASCII or line breaks, as the
// beginning of JSON or HTML. As a length that would be 150 MB or more.
func isText(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}
