// Package decode makes Go objects of the bytes of one Kubernetes object, and
// tells what an object is before that is done.
//
// # Vocabulary
//
// The encoding is JSON or protobuf. An object's bytes are its JSON text, or its
// protobuf message without the "k8s\x00" envelope in which API servers send it
// ([Unwrap] takes it off). [Meta] is the handful of fields that a reflector needs
// of each object; [Peek] reads it without looking at the rest. An [Object] is
// both: the metadata known, the content decoded when asked for. A [Decoder] is
// made once for a Go type by [New].
//
// # Guarantees
//
//   - Peek says what a full decode would say, wherever both accept the bytes and
//     no key is written twice.
//   - Whatever the bytes, there is an error and no panic, and what is allocated is
//     in proportion to them.
//   - A decoded object shares no memory with its bytes. One of Decode shares none with another
//     object, but for the strings that [Config] asks for; one of DecodeShared is
//     for reading only, as it shares parts with others and with the version before.
//   - Objects are what apimachinery decodes, with a Go type or unstructured, wherever
//     both accept the bytes; docs/decoding.md says where one of the two refuses.
//   - The metadata of an object that does not decode is known all the same, so
//     that one bad object can be set aside by its key: the reflector's promise
//     "An object that does not decode is quarantined by key" begins here.
//
// The package knows nothing of events, frames on the wire or lists.
package decode
