// Package listwatch makes LIST and WATCH requests to a Kubernetes API server.
//
// A [ListerWatcher] stands for one collection (a resource, perhaps narrowed by
// a namespace, selectors and a shard) on one server. Each call of List or Watch is one
// attempt: it is never retried, and nothing that it learns outlives it, with
// two exceptions (see Encodings and Shards). Retries, resourceVersions and stores are the
// business of package reflector.
//
// # Vocabulary
//
// A list is read item by item: a [Sink] gets the list's metadata and then each
// item as its last byte comes from the socket, as a [decode.Object] that knows
// its metadata and decodes when it is asked to. A watch is a response body
// handed to a [streamwatcher.StreamWatcher]. A fault is an [*Error] with a
// [reason.Reason].
//
// # Guarantees
//
//   - A list is never held: the memory of List is one item and a read buffer,
//     and an item over Config.MaxItemBytes costs itself only. A length that the
//     server names is checked before anything is allocated for it.
//   - What an answer is, is decided by its own Content-Type and
//     Content-Encoding, never by what was asked for.
//   - Every answer other than 200 and every failure on the way is one *Error;
//     of an answer's body no more than [MaxErrorBodyBytes] is read, of its
//     header no more than [MaxHeaderBytes].
//   - List and Watch return within 100 ms of their context's end, from any
//     point: credentials, dial, TLS handshake, header wait, body.
//   - A redirect is followed only to the same scheme and host, at most
//     [MaxRedirects] times, so that credentials go to no other host.
//   - Tokens, passwords and URL user info are in no error and in no log line,
//     also when a server or a proxy sends them back: in an answer, in an ERROR
//     event, in an object that does not decode.
//
// # Encodings
//
// With EncodingAuto protobuf is asked for with JSON as second choice. A server
// that answers 406 or 415 to that gets the same request once more with JSON
// alone, and the ListerWatcher asks for JSON alone from then on.
//
// # Shards
//
// With Config.Shard each request has a shardSelector (KEP-5866), and what comes is filtered
// once more, since a server without the feature ignores it and a watch does not say which it did. A
// server that refuses it (400, 422, 501, or a 500 that names the shard selector) gets the
// same request once more without it, and is not asked with it for half an hour.
//
// # Connections
//
// Each ListerWatcher has a transport of its own, so 40 watches are 40
// connections and never wait for each other. HTTP/1.1 is the default: a watch
// is one TCP connection, whose death TCP keep-alive finds in about 30 s. Close
// gives idle connections back.
package listwatch
