// Package idle measures what a watch costs on which nothing happens: the pods of one node, over
// TLS, a thousand such watches in one process.
//
// Three clients are measured in the same way: nodewatch's reflector with a handler, client-go's informer with
// a handler, and a bare net/http request whose body is read. Each is as its users have it: a nodewatch reflector has a transport
// of its own, the informers share one clientset, the bare requests one http.Transport.
//
// A client has a process of its own; the server is in that of the test. It opens a few watches,
// each with a node of its own, then a thousand more. Before both readings every node has had a pod come and go, so that
// the watch, its buffers and the handler have been used and the stores are empty, and the
// collector has run until nothing changes. What a watch costs is the difference: whatever
// there is once in a process (the decoder, the certificates, the clientset) is in both readings.
//
// go test runs a small number of watches and guards the counts. make bench-guard holds the ratio to client-go's, make bench-idle
// measures all links and writes RESULTS.md.
package idle
