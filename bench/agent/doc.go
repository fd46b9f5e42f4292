// Package agent compares the smallest useful node agent on nodewatch (package nodewatch below) with the same program on
// client-go's informers (package clientgo): a program that watches the pods of its node and prints what comes,
// changes and goes. Both take what they are given or what a pod in a cluster has.
//
// Measured are the size of the stripped binary, and from the start of the process to its first line the
// time, the processor time and the memory, against a server over TLS that has thirty pods on the node. Both ask
// for protobuf and have else what is their default: the one HTTP/1.1, the other HTTP/2, both a
// watch-list. make bench-agent writes RESULTS.md.
//
// # What the size is made of
//
// Of the 14 MB on linux/amd64, 10.5 are a program that calls client-go's rest.InClusterConfig and
// rest.HTTPClientFor and makes one request: net/http, TLS, and the serializers that its exec credential plugin needs.
// k8s.io/api/core/v1 adds 3.1, since it registers all its types, and so their methods are reachable. nodewatch
// itself, with reflector, decoders and node filter, adds 0.5. client-go's informers add 16: kubernetes/scheme has every type
// of k8s.io/api with all methods, and the clientset a client for each.
//
// No function that is linked looks methods up by a name that is not constant, which would keep every exported
// method of every type (go build -ldflags=-dumpdep would show ReflectMethod); TestLinked guards
// that no package comes in that brings the size back.
package agent
