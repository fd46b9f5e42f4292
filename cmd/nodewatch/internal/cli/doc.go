// Package cli is the command line: it reads flags and the environment, builds
// the parts from the library packages and prints what they say.
//
// # Streams
//
// Standard output carries events and nothing else, written as they come, the
// same for a terminal, a file and a pipe. Standard error carries the log and,
// on a terminal, the progress of a long first sync.
//
// # Exit status
//
// 0 is done or interrupted (SIGINT, SIGTERM, or a reader of standard output that
// went away), 1 failed, 2 a wrong use of the command line. The last line of
// standard error says why it is not 0.
package cli
