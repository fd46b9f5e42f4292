// Package herd measures a thundering herd: an API server dies, 2,000
// node-scoped clients notice in the same instant, and all come back.
//
// The clients are real: nodewatch's reflector on its ListerWatcher, and
// client-go's reflector on its REST client. So is what passes between them and
// the server, down to the bytes of a body; only the connections and the clock
// are not. The server is a model, and everything runs in virtual time
// (testing/synctest), so an outage of five minutes takes as long as the
// computing in it.
//
// A schedule says what the server does: how long nobody listens, what it is
// after that (healthy, not yet ready, busy, failing, hanging), and whether it
// comes back with its history or with an empty watch cache, which answers an
// old resourceVersion with 410.
//
// Measured are the arrivals at the server from the kill on, and for each client
// when it is fresh: when its store has the pod that is created on its node in
// the instant that the server is ready.
//
// go test runs a small herd and guards its ratios. make bench-herd runs the full
// one and writes RESULTS.md and arrivals.svg. docs/herd.md explains the figures.
package herd
