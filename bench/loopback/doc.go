// Package loopback has the clients that benchmarks measure over a connection: nodewatch's
// Reflector, and a bare HTTP client that throws away what it reads. They are told what
// to read by a Target and read from a server of package replay.
package loopback
