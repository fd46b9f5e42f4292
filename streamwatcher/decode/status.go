package decode

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status reads a metav1.Status: the body of an error response, or the object of an
// ERROR event. body is as it stands on the wire, for Protobuf with its
// envelope. Its kind is not asked for. What says nothing that a Status would say (no
// status, reason, message or code) is an error.
func Status(enc Encoding, body []byte) (*metav1.Status, error) {
	if enc == Protobuf {
		e, err := Unwrap(body)
		if err != nil {
			return nil, fmt.Errorf("decode: Status from %v: %w", enc, err)
		}
		enc, body = e.Encoding, e.Raw
	}
	if enc == JSON && !json.Valid(body) {
		// The decoder does not look into fields that it passes over. Here a body
		// that only looks like a Status is to be told from one.
		return nil, errors.New("decode: Status from json: not JSON")
	}
	s, err := statusDecoder.Decode(enc, body)
	if err != nil {
		return nil, err
	}
	if s.Status == "" && s.Reason == "" && s.Message == "" && s.Code == 0 {
		return nil, errors.New("decode: an object that is not a Status")
	}
	return s, nil
}

// statusDecoder is ready when the package is. A Status is a struct with tags, which
// always compiles; a test says so.
var statusDecoder, _ = New[*metav1.Status]()
