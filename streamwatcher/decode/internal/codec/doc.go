// Package codec compiles decoders: for a Go struct it makes a table of what each
// field is, once, and reads objects by that table.
//
// # Vocabulary
//
// A node is how one Go type is read in one encoding. A message is the table of
// a struct in protobuf, by field number; an object is its table in JSON, by name.
// A [Program] is both tables of one type. A path names a field to be dropped, as
// "spec.containers.env".
//
// # How it is fast
//
//   - Fields are found by their number, or by a hash of their name that has no
//     collisions within the struct, after a guess that they come in struct order.
//   - A repeated protobuf field is counted before it is made, a JSON array is
//     collected in a buffer that is used again. Each slice is allocated once.
//   - The strings of an object are copied once, into one buffer (layout.Text).
//   - Times, quantities and numbers in the form that servers write have a short way.
//
// # Rules
//
// What is accepted and what it means is as apimachinery has it; docs/decoding.md
// lists where not. Whatever the input, decoding ends, does not panic (but in an Unmarshal
// method of the caller's own) and allocates in proportion to its input.
package codec
