// Package layout is all the unsafe code of the decoders: it reads and writes
// fields of Go values by their offset, makes values of types known only at run
// time, and lays the strings of one object into one buffer.
//
// # Vocabulary
//
// A [Ptr] is the address of a variable of some Go type. A [Type] makes variables
// of one Go type, a [Slices] slices of it. A [Text] is the strings of the
// object being decoded: where each will stand, and which bytes it has.
//
// # Invariants
//
// What the callers promise, and package codec keeps by compiling its tables from
// reflect.Type alone:
//
//  1. A Ptr comes from Type.New, Slices.Make or Slices.Push, or from Ptr.Add with
//     the offset of a field of the type that stands there, or an index within a slice.
//  2. A Ptr is read and written as the type that stands there ([As]), or as
//     one of the same underlying type: a named string as string, a map of named
//     strings as a map of strings.
//  3. The bytes given to Text.Finish are those that the offsets were counted in.
//  4. A variable whose strings are still in a Text moves by Slices alone, which
//     tells the Text of it.
//
// What the package promises in turn:
//
//   - Every variable is allocated by the runtime with its own type, so the
//     garbage collector sees each pointer. No address is kept as a number.
//   - No string or []byte that is handed out points into the bytes it was read
//     from. The []byte have no spare capacity, so that appending to one cannot
//     reach its neighbour.
//   - No function is borrowed from the runtime (go:linkname).
//
// The second invariant leans on one property of the runtime that the language
// does not state: map[K]V and map[string]V have one representation if K's
// underlying type is string. TestMapsOfNamedStrings guards it.
package layout
