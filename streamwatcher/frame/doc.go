// Package frame reads values out of a byte stream of unknown length without
// holding more of it than one value: the common ground of a WATCH body, which
// is a row of events, and a LIST body, which is a row of items.
//
// # Vocabulary
//
// A [Reader] is a window onto the stream: bytes that came and were not consumed
// yet. Its methods read one token each (a JSON key, a JSON value, a protobuf
// tag) and consume it. To get a value's bytes whole, a caller asks the Reader to
// keep them: [Reader.Value], [Reader.Bytes], or [Reader.Keep] and [Reader.Kept]
// around any number of tokens.
//
// # Guarantees
//
//   - Bytes are looked at once, however the stream is cut: one byte a read
//     costs no more comparisons than all in one read.
//   - The Reader asks its source for bytes only when the token at hand is not
//     complete, so a value is handed on as soon as its last byte is there.
//   - Memory follows what has arrived, never what a length field claims. The
//     window is at most twice the limit of a kept value, and shrinks to 1 MiB or
//     less before the Reader waits for the next one, to 4 KiB where the last few
//     values came in pieces of a quarter of it or less.
//   - A value over its limit costs only itself: its head is shown to the caller
//     once, the rest is read and dropped, and the Reader stands behind it.
//   - A slice returned by a method is valid until the next call of any method of
//     that Reader.
//   - An error of the source is sticky. io.EOF is returned only where a token
//     would begin; inside of one it becomes io.ErrUnexpectedEOF. What is not
//     JSON or protobuf is a [*SyntaxError], what is too large a [*TooLargeError].
//
// JSON is checked as far as framing needs it: brackets match, strings are closed
// and have no control characters, members are separated, no byte stands outside
// a string that JSON does not know. The content of kept values is left to who
// decodes them.
package frame
