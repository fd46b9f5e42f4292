// Package output turns changes of pods into the bytes of standard output.
//
// A Printer renders a batch of events into a buffer; it does no I/O and keeps
// no event. Batches exist for one reason: what is known at the same moment can
// be aligned together, so a table of a first snapshot looks as kubectl's does.
// A caller that hands over events one by one gets the same lines, only with
// columns that grow more often.
//
// # Guarantees
//
//   - Each event is rendered in order and completely; an event that cannot be
//     rendered (a template that fails) leaves nothing of itself in the buffer.
//   - Columns of a table only grow: a row is aligned with every row after
//     the last one that was wider. A cell of more than a hundred characters
//     widens nothing. The header is written once.
//   - No control character of an object reaches a table: a name or a message
//     cannot move the cursor, forge a row or break one.
package output
