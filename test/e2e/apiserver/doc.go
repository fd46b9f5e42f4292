// Package apiserver runs a real kube-apiserver and its etcd for tests: on
// loopback, on free ports, with a handful of users, without any controller.
//
// Both servers are built from their published modules by the go command, as
// tools of this module; the executables live in the Go build cache and nowhere
// else. Their data, keys and logs are in a directory of the caller's, usually
// a test's temporary one.
//
// Vocabulary: a [Server] is one API server with its etcd. Kill is what a
// crash does (SIGKILL), Stop is polite (SIGTERM), Restart brings the API
// server back on the same port with the same etcd, keys and tokens. Compact
// drops the history of etcd, and with it what the API server can still answer
// of the past.
//
// Guarantees: Start returns when /readyz says ok or with an error that holds
// the end of the servers' logs. No process outlives the test binary, not even
// one that was killed: each child is in a process group of its own and (on
// Linux) gets SIGKILL with its parent.
package apiserver
