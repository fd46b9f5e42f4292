// Package relay is a TCP relay that can misbehave: what stands between a client
// and its API server in the field (load balancers, proxies, firewalls, cables)
// and fails there in ways that neither of the two can cause.
//
// # Vocabulary
//
// A [Relay] listens on loopback and connects each accepted connection to its
// target. Down is from the server to the client, up the other way. A [Flow] is
// what happens to the bytes of one direction. The connections there are when a
// fault begins are the current ones; later ones are the coming ones.
//
// # Guarantees
//
// Bytes are never lost or reordered while a connection lives: what was held
// back is sent when the flow passes again. A held direction stops reading after
// 64 KiB, so the sender feels it as it would with a stuck proxy; the kernel goes
// on to acknowledge keep-alive probes. A connection in the black hole does not
// acknowledge anything any more: for its peer the host has vanished.
//
// Close ends every connection and returns when no goroutine is left.
package relay
