package main

// guards are checked in CI, with a margin to what is reached: the numbers of allocations do
// not depend on the machine, and ratios of processor times to client-go little. No guard is a time. Raise
// them when something gets better.
var guards = []claim{
	{"decoding, JSON: processor time", decodeRow("json", ours), "cpu-ns/op", timesBetter, 14},
	{"decoding, JSON: allocations an event", decodeRow("json", ours), "allocs/op", atMost, 16},
	{"decoding, JSON: bytes an event", decodeRow("json", ours), "B/op", atMost, 3_800},
	{"decoding, protobuf: processor time", decodeRow("protobuf", ours), "cpu-ns/op", timesBetter, 3},
	{"decoding, protobuf: allocations an event", decodeRow("protobuf", ours), "allocs/op", atMost, 14},
	{"decoding, protobuf: bytes an event", decodeRow("protobuf", ours), "B/op", atMost, 3_600},
	{"decoding private objects, JSON: processor time", decodeRow("json", "nodewatch-private"), "cpu-ns/op", timesBetter, 6},
	{"decoding private objects, protobuf: processor time", decodeRow("protobuf", "nodewatch-private"), "cpu-ns/op", timesBetter, 1.2},
	{"decoding private objects, protobuf: allocations an event", decodeRow("protobuf", "nodewatch-private"), "allocs/op", atMost, 60},
	{"struct of ten fields, JSON: processor time", slimRow("json"), "cpu-ns/op", timesBetter, 20},
	{"struct of ten fields, protobuf: processor time", slimRow("protobuf"), "cpu-ns/op", timesBetter, 6},
	{"struct of ten fields, protobuf: allocations an event", slimRow("protobuf"), "allocs/op", atMost, 6},
	{"watch, JSON: processor time", watchRow("http1", "json", "dropped"), "cpu-ns/op", timesBetter, 10},
	{"watch, JSON: allocations an event", watchRow("http1", "json", "dropped"), "allocs/op", atMost, 20},
	{"watch, protobuf: processor time", watchRow("http1", "protobuf", "dropped"), "cpu-ns/op", timesBetter, 2.4},
	{"watch, protobuf: allocations an event", watchRow("http1", "protobuf", "dropped"), "allocs/op", atMost, 18},
	{"watch, protobuf: bytes an event", watchRow("http1", "protobuf", "dropped"), "B/op", atMost, 5_000},
	{"list of 1,000, JSON: processor time", listRow("1000", "json", ours), "cpu-ns/op", timesBetter, 2.5},
	{"list of 1,000, protobuf: peak heap", listRow("1000", "protobuf", ours), "peak-B", shareOf, 1.0 / 2.5},
	{"list of 1,000, protobuf: heap a pod at rest, bytes", listRow("1000", "protobuf", ours), "rest-B/pod", atMost, 7_000},
	{"list of 1,000, protobuf: heap a pod at rest in a compact store, bytes", listRow("1000", "protobuf", "nodewatch-compact"), "rest-B/pod", atMost, 4_500},
	{"relist of 1,000 unchanged pods, JSON: processor time", listRow("1000", "json", ours), "relist-cpu-ns", shareOf, 1.0 / 8},
	{"relist of 1,000 unchanged pods, protobuf: objects handed on", listRow("1000", "protobuf", ours), "relist-handed", atMost, 0},
	{"minimal agent: size of the stripped binary", agentRow, "size-B", shareOf, 0.55},
	{"minimal agent: processor time to the first event", agentRow, "cpu-ns/op", timesBetter, 1},
	{"idle watch: goroutines", idleRow("tls-http1"), "goroutines", atMost, 4},
	{"idle watch: heap and stack, compressed", idleRow("tls-http1-gzip"), "total-B", shareOf, 0.45},
	{"idle watch: heap and stack", idleRow("tls-http1"), "total-B", shareOf, 0.61},
	{"relist of 1,000 unchanged pods, protobuf: allocations a pod", listRow("1000", "protobuf", ours), "relist-allocs/pod", atMost, 1},
}
