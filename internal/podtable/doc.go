// Package podtable computes the columns that `kubectl get pods` shows: ready
// containers, the one-word status, restarts and age, and the wide ones.
//
// The API server's Table answers, the command line's table and the in-process
// API server for tests all show a pod through this package, so that they agree.
// A status here is the word of the STATUS column (Running, CrashLoopBackOff,
// Init:0/1, Terminating): a summary for people, not status.phase.
//
// The rules are those of kube-apiserver 1.37. Every function is pure: time
// comes in as an argument.
package podtable
