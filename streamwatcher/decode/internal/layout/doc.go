// Package layout is all the unsafe code of the decoders: it reads and writes
// fields of Go values by their offset, makes values of types known only at run
// time, and lays the strings of one object into one buffer.
//
// # Vocabulary
//
// A [Ptr] is the address of a variable of some Go type. A [Type] makes variables
// of one Go type, a [Slices] slices of it, a [Chunk] those of one object side by side. A [Text] is the strings of the
// object being decoded: where each will stand, and which bytes it has. [Boxes] are the
// strings and numbers of an object that has no Go type, as interfaces.
//
// # Invariants
//
// What the callers promise, and package codec keeps by compiling its tables from
// reflect.Type alone:
//
//  1. A Ptr comes from Type.New, Chunk.Take, Slices.Make or Slices.Push, is an object that
//     was made of these ([From]), or comes from Ptr.Add with the offset of a field of the type that
//     stands there, or an index within a slice.
//  2. A Ptr is read and written as the type that stands there ([As]), or as
//     one of the same underlying type: a named string as string, a map of named
//     strings as a map of strings.
//  3. The bytes given to Text.Finish are those that the offsets were counted in.
//     The element type of FinishBehind has no pointers, and a size that is a multiple of 8. What
//     Moved is told is a copy has the same bytes.
//  4. A variable whose strings are still in a Text moves by Slices alone, which
//     tells the Text of it.
//
// What the package promises in turn:
//
//   - Every variable is allocated by the runtime with its own type, alone, in an array or in a struct of two
//     arrays, so the garbage collector sees each pointer; only numbers, which have none, can stand in room
//     that is of a larger type, or before the strings of their object ([FinishBehind]), or behind a string
//     that is its bytes ([Beside]). No address is kept as a number.
//   - No string or []byte that is handed out points into the bytes it was read
//     from, but for a [View], which says so, and what was [Moved] with it. The []byte have no spare capacity, so that appending to one cannot
//     reach its neighbour.
//   - No function is borrowed from the runtime (go:linkname).
//
// Two properties of the runtime that the language does not state are leant on:
//
//   - map[K]V and map[string]V have one representation if K's underlying type is
//     string (the second invariant). TestMapsOfNamedStrings guards it.
//   - An interface is two words, of which the second points to the value if that is a
//     string or a number ([Boxes]). TestBoxes guards it.
package layout
