// Package replay is the server that benchmarks read from: it answers LIST and WATCH
// of pods with bytes that were encoded before, and sends as many events as it is told.
//
// It is no API server and knows no objects. Its cost is small and the same for
// every client, so that what is measured is the client. For a server that
// behaves like one, see listwatch/listwatchtest.
//
// A [Server] is told by its methods what to send, or from another process by a
// [Remote], which speaks to [Server.Control] over HTTP.
package replay
