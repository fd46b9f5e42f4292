// Package bench measures nodewatch against client-go on the same bytes, in the
// same run and the same process.
//
//   - BenchmarkDecode reads a watch body from memory: framing and decoding, no network, no store.
//   - BenchmarkWatch reads a watch over HTTP/1.1 on loopback into a store:
//     transport, framing, decoding, the reflector and its store.
//
// One operation is one event, so that ns/op, B/op and allocs/op are per event. 10,000
// pods are kept alive meanwhile, as in a program that has a store; with a small
// heap the garbage collector runs so often that it hides what is measured. The
// server of BenchmarkWatch is in the process and replays bytes that were encoded
// before; its time is part of every figure, the same for both.
//
// make bench runs both several times, alternating, and bench/report turns the output into RESULTS.md.
package bench
