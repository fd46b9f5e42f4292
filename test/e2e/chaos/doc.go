// Package chaos sets nodewatch's reflectors and client-go's informers side by
// side on a real kube-apiserver, and breaks what is between and behind them. It
// has tests only.
//
// # Vocabulary
//
// A fleet is a number of clients of one library, one for each node. A marker is
// a pod that is created on a node after a fault; how long a client is stale is
// the time from the fault's end until its subscriber was told of the marker. For
// a connection that is dead without an end (half-open) it counts from the
// fault's start. An object is lost when a client's store, or what its events add
// up to, differs from the server after everything is quiet again.
//
// # Tests
//
//   - TestChaos: a workload on 20 nodes, each with both clients behind relays of
//     their own; relays fail in every way, the API server is stopped, killed and
//     started again, etcd is compacted and restored from an older snapshot.
//   - TestHalfOpen: connections that die without an end, with and without
//     somebody who acknowledges the keep-alive probes.
//   - TestHerd: 300 clients over HTTP/1.1, the API server killed with -9 and
//     ready again about 10 s later.
//
// By default each fault happens once (-chaos.rounds). With -chaos.long the slow
// ones are waited for, and client-go is; with -chaos.results the tables of
// RESULTS.md are written from what this run measured.
package chaos
