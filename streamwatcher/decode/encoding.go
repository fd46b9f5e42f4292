package decode

import (
	"errors"
	"fmt"
	"mime"
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

// The media types of the encodings.
const (
	MediaJSON     = "application/json"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
)

// EncodingOf returns the encoding that a Content-Type names. Parameters are not
// looked at: stream=watch and charset=utf-8 say nothing new, nor does a broken one.
func EncodingOf(contentType string) (Encoding, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) {
		switch media {
		case MediaJSON:
			return JSON, nil
		case MediaProtobuf:
			return Protobuf, nil
		}
	}
	return 0, fmt.Errorf("content type %q is neither JSON nor protobuf", contentType)
}
