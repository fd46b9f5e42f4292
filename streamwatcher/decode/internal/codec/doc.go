// Package codec compiles decoders: for a Go struct it makes a table of what each
// field is, once, and reads objects by that table.
//
// # Vocabulary
//
// A node is how one Go type is read in one encoding. A message is the table of
// a struct in protobuf, by field number; an object is its table in JSON, by name.
// A [Program] is both tables of one type. A path names a field to be dropped, as
// "spec.containers.env". A share is a value that several objects have; a [Part] remembers the
// bytes of a field from one version of an object to the next; a pair is two arrays of one object in
// one variable; an object is packed when what is passed over is cut out of its bytes. An [Any] reads JSON that has no Go type, by way of a tape: the
// values of one object in their order, from which it is made when all is known.
//
// # How it is fast
//
//   - Fields are found by their number, or by a hash of their name that has no
//     collisions within the struct, after a guess that they come in struct order.
//   - A repeated protobuf field is counted before it is made, a JSON array is
//     collected in a buffer that is used again. Each slice is allocated once.
//   - The strings of an object are copied once, into one buffer (layout.Text).
//   - Objects that nobody writes to share what is equal, and an update decodes what
//     changed. Objects of one owner have their variables of one type in one array.
//   - Times, quantities and numbers in the form that servers write have a short way.
//
// # Rules
//
// What is accepted and what it means is as apimachinery has it; docs/decoding.md
// lists where not. Whatever the input, decoding ends, does not panic (but in an Unmarshal
// method of the caller's own) and allocates in proportion to its input.
package codec
