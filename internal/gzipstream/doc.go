// Package gzipstream reads a body of gzip members (RFC 1952), one after another,
// without being late.
//
// compress/gzip reads a member's trailer before it returns the last of
// the member's bytes, and the next member's header before it says that one
// ended. On a watch, where the next member is the next event, that is one event too
// late. Here Read returns what there is first, and looks at the trailer and the
// next header only when it is called again. Nothing is read before the first Read.
//
// Damage (an [Error]) and an end in the middle (io.ErrUnexpectedEOF) are told apart, for
// the one is the server's doing and the other the connection's.
package gzipstream
