package decode

import (
	"bytes"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// Magic is what every protobuf message of an API server begins with. A
// runtime.Unknown message follows (API concepts page, "Kubernetes Protobuf encoding").
const Magic = "k8s\x00"

// The field numbers of runtime.Unknown, for who reads a long one from a stream.
const (
	EnvelopeTypeMeta        protowire.Number = 1
	EnvelopeRaw             protowire.Number = 2
	EnvelopeContentEncoding protowire.Number = 3
	EnvelopeContentType     protowire.Number = 4
)

// Envelope is runtime.Unknown: an object with its type beside it. The slices
// are parts of what was unwrapped.
type Envelope struct {
	APIVersion, Kind []byte
	Encoding         Encoding // of Raw: Protobuf, or JSON where the content type says so
	Raw              []byte
}

// Unwrap takes the envelope, Magic included, off. When b was cut off at its end,
// the error is io.ErrUnexpectedEOF and the Envelope holds what there is.
func Unwrap(b []byte) (Envelope, error) {
	e := Envelope{Encoding: Protobuf}
	b, ok := bytes.CutPrefix(b, []byte(Magic))
	if !ok {
		return e, errors.New(`protobuf object without the prefix "k8s\x00"`)
	}
	f := frame.Fields{Rest: b}
	for f.Next() {
		if f.Num <= EnvelopeContentType && f.Type != protowire.BytesType {
			return e, errEnvelope
		}
		switch f.Num {
		case EnvelopeTypeMeta:
			var err error
			if e.APIVersion, e.Kind, err = TypeMeta(f.Bytes); err != nil {
				return e, err
			}
		case EnvelopeRaw:
			e.Raw = f.Bytes
		case EnvelopeContentEncoding:
			if len(f.Bytes) > 0 {
				return e, errors.New("protobuf object with an unknown content encoding")
			}
		case EnvelopeContentType:
			if len(f.Bytes) == 0 { // as the server has it for protobuf
				e.Encoding = Protobuf
				continue
			}
			var err error
			if e.Encoding, err = EncodingOf(string(f.Bytes)); err != nil {
				return e, errors.New("protobuf object with an unknown content type") // which may be anything
			}
		}
	}
	return e, f.Err
}

// TypeMeta reads the typeMeta message of an envelope.
func TypeMeta(b []byte) (apiVersion, kind []byte, err error) {
	f := frame.Fields{Rest: b}
	for f.Next() {
		switch {
		case f.Cut:
			return apiVersion, kind, io.ErrUnexpectedEOF
		case f.Num == 1 && f.Type == protowire.BytesType:
			apiVersion = f.Bytes
		case f.Num == 2 && f.Type == protowire.BytesType:
			kind = f.Bytes
		case f.Num <= 2:
			return apiVersion, kind, errEnvelope
		}
	}
	return apiVersion, kind, f.Err
}

var errEnvelope = errors.New("protobuf envelope with a field of another type")
