// Package bench measures nodewatch against client-go on the same bytes, in the same run.
//
//   - BenchmarkDecode reads a watch body from memory: framing and decoding, no network, no store.
//   - BenchmarkWatch reads a watch over loopback into a store: plain HTTP/1.1 with 10,000
//     pods; compressed, TLS with HTTP/1.1 and with HTTP/2 with 1,000.
//   - BenchmarkList fills a store from a list, in a process of its own (of 10,000 pods with fields dropped in five): time, peak heap, heap at
//     rest, a full collection; then relists of the unchanged pods. With -long also of 100,000 pods,
//     by list and by watch-list.
//   - BenchmarkLatency is the time from the server's write to the handler.
//
// In Decode and Watch one operation is one event, so that ns/op, B/op and allocs/op are per event; in
// List it is one list.
//
// What is the same for both sides: the pods and events of package specimen, which change
// what real events change (see there for the mix); a server of package replay in a process of its own,
// so that its cost counts for nobody; GOMAXPROCS, of clients and servers; a store that
// keeps what came, since with a small heap the collector runs so often that it hides what
// is measured; and managedFields dropped, by nodewatch in the decoder and by client-go as a transform
// does it, where a row says fields=dropped. client-go has its Reflector with its plain
// store and no queue, which is the least that it can do. impl=discard reads the same bytes and throws
// them away: no client can be faster.
//
// cpu-ns is the processor time of the client's process. On a machine with other work its
// ratios can be trusted more than those of the time that passes. server-cpu-ns is that of the
// server's process, which no client can be faster than; it writes to all clients in the same large pieces.
//
// make bench runs everything several times, one process after the other, so that rows of both sides alternate, and
// bench/report turns the output into RESULTS.md. make bench-guard runs a part of it and fails where a
// figure fell behind bench/report/guards.go.
package bench
