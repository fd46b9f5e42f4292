// Package simulator drives a real reflector, over the real listwatch and
// streamwatcher, against a model API server that misbehaves, in virtual time,
// and checks after every step that the promises of package reflector hold.
//
// # Vocabulary
//
// A schedule is everything that will happen, computed from a seed: the
// workload (who writes what, when), the faults, the consumers, the client's
// configuration. A world is what the schedule makes of the server's data: each
// version of each object, in one history, or in several when etcd is restored
// to the past. The server is an http.RoundTripper that answers from the world
// as of the current virtual time; there is no goroutine and no socket behind
// it. The shadow is what a client that keeps the promises must know, computed
// from the bytes that the client has read; each request and the store are
// compared with it.
//
// # Guarantees
//
//   - "A seed reproduces a run exactly." All randomness comes from the seed, the
//     client's jitter too; no two things are due at the same nanosecond; whatever
//     order the Go scheduler picks, the transcript is the same.
//   - A failing run is shrunk: workload and faults are left out as long as the
//     same promise still breaks, and the transcript of the smallest run is told.
//   - Run works in a testing/synctest bubble and nowhere else.
//
// docs/simulator.md describes the model, how to reproduce a failure, and which
// planted bugs are found by which check.
package simulator
