// Package streamwatcher turns the body of one WATCH response into events.
//
// # Vocabulary
//
// The body is what net/http hands over after the HTTP/1.1 chunks are taken away. It
// may be gzip, in one member or many; what is in it is the decoded stream. A frame is
// the part of that stream that holds one event: in JSON one value
// {"type":…,"object":…}, wherever the line breaks are, in protobuf a message with
// its length in front. The event's type and the object's metadata are peeked; the object
// is decoded when the caller asks ([decode.Object]).
//
// A StreamWatcher is an attempt: it dies with its body, retries nothing and
// keeps nothing. Who calls decides what the end of one means.
//
// # Guarantees
//
//   - An event is returned as soon as its last byte can be known, not one event later: also when
//     each event is a gzip member of its own without a flush, and when that
//     member's trailer comes late. Of a server that ended its events with line breaks, one
//     event without, with a part of another behind it, is returned when more comes.
//   - An event of which nobody asks for the object is checked as far as framing goes, like any
//     other. That can be after it was returned: docs/design.md says why.
//   - Framing and the peek make no allocations, beside the window that all events share.
//   - However the body is cut into reads, the events are the same, and the end. Only an event
//     in which the stream ends, because its line is not one event, may come out before the error, and one
//     that goes on behind its line twice: Decode of these says decode.ErrLine.
//   - "A frame or item over the limit costs that item, not the stream. A length
//     prefix is checked before anything is allocated." Its event comes out with the type
//     and what metadata its head had; Decode says *frame.TooLargeError. Between two events at most
//     1 MiB is held.
//   - "BOOKMARK is decoded as metadata, ERROR as Status, whatever their kind says."
//     A type that is not known is passed on as it is.
//   - The end has a name. io.EOF comes only between two events; all else is an [*Error]
//     with a reason of the closed set. A part of an event at the end is dropped.
//   - A watch that is silent is cut: the idle limit runs only while a read
//     waits for bytes, so that a slow caller never trips it.
//   - No goroutine belongs to a StreamWatcher; only [AsWatch] starts one, which
//     ends with Stop or with the stream.
//
// # Where the bytes go
//
//	body   counts bytes on the wire, watches for silence
//	gzip   members to one stream, when the response says so
//	frame  a window onto the stream: where an event ends
//	framer type, metadata, the object's bytes
package streamwatcher
