// Package health tells a prober whether what the reflectors of a process know can
// be relied on.
//
// # Vocabulary
//
// A process is ready when every reflector that it needs runs, has a complete
// snapshot in its store (Status.Synced), and knows it to be current up to a time
// not longer ago than a limit (Status.FreshAsOf). A process is live when it
// answers.
//
// # Readiness
//
// The limit has to be longer than the longest silence of a healthy watch: a
// watch of a quiet collection brings a bookmark a minute, and a connection that
// brings nothing is taken for dead after three (reflector.Config.IdleTimeout).
// Thus the default of four. What is quarantined does not count: those
// objects are known to be unreadable, and the rest is current.
//
// # Liveness
//
// A liveness probe must not turn on the reflectors, nor on anything else that
// the API server has a part in. An outage of it would have the kubelet kill every
// agent of the cluster, over and over: each of them loses what it knew, which
// was still worth something, and all of them list at once when the server comes
// back. There is nothing that a restart would mend: a reflector whose
// connection is dead replaces it, and a panic of a handler is caught. So Live
// says ok whatever the reflectors say; what it proves is that the process schedules
// goroutines and answers.
package health
