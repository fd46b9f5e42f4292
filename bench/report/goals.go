package main

// The rows that goals and guards are about.
func watchRow(link, encoding, fields string) key {
	return key{"Watch", "link=" + link + "/encoding=" + encoding + "/fields=" + fields, ours}
}

func listRow(pods, encoding, impl string) key {
	return key{"List", "pods=" + pods + "/link=http1/encoding=" + encoding + "/fields=dropped", impl}
}

func decodeRow(encoding, impl string) key { return key{"Decode", "encoding=" + encoding, impl} }

// goals are what must hold of 10,000 pods: against client-go in the same run, by medians.
var goals = []claim{
	{"watch, JSON, HTTP/1.1 on loopback into the store: time an event", watchRow("http1", "json", "dropped"), "ns/op", timesBetter, 20},
	{"the same, protobuf", watchRow("http1", "protobuf", "dropped"), "ns/op", timesBetter, 4},
	{"allocations for a MODIFIED event of a known pod, protobuf, all the way into the store", watchRow("http1", "protobuf", "dropped"), "allocs/op", atMost, 15},
	{"bytes allocated for it", watchRow("http1", "protobuf", "dropped"), "B/op", atMost, 5_000},
	{"list, JSON: time to a full store", listRow("10000", "json", ours), "ns/op", timesBetter, 8},
	{"the same, protobuf", listRow("10000", "protobuf", ours), "ns/op", timesBetter, 3},
	{"list, JSON: peak heap", listRow("10000", "json", ours), "peak-B", shareOf, 1 / 4.5},
	{"the same, protobuf", listRow("10000", "protobuf", ours), "peak-B", shareOf, 1 / 4.5},
	{"relist of unchanged pods, JSON: processor time", listRow("10000", "json", ours), "relist-cpu-ns", shareOf, 1.0 / 10},
	{"the same, protobuf", listRow("10000", "protobuf", ours), "relist-cpu-ns", shareOf, 1.0 / 10},
	{"objects that the relist hands on, JSON", listRow("10000", "json", ours), "relist-handed", atMost, 0},
	{"the same, protobuf", listRow("10000", "protobuf", ours), "relist-handed", atMost, 0},
	{"its allocations a pod, JSON", listRow("10000", "json", ours), "relist-allocs/pod", atMost, 1},
	{"the same, protobuf", listRow("10000", "protobuf", ours), "relist-allocs/pod", atMost, 1},
	{"heap a pod at rest, bytes, JSON", listRow("10000", "json", ours), "rest-B/pod", atMost, 5_200},
	{"the same, protobuf", listRow("10000", "protobuf", ours), "rest-B/pod", atMost, 5_200},
	{"the same in a compact store, protobuf", listRow("10000", "protobuf", "nodewatch-compact"), "rest-B/pod", atMost, 3_600},
	{"struct of ten fields, protobuf: time an event", slimRow("protobuf"), "ns/op", timesBetter, 8},
	{"the same, JSON", slimRow("json"), "ns/op", timesBetter, 35},
	{"relist of 100,000 unchanged pods: peak over rest, protobuf", longRow("protobuf"), "relist-peak/rest", atMost, 1.1},
	{"the same, JSON", longRow("json"), "relist-peak/rest", atMost, 1.1},
}

// agentGoals and idleGoals are what must hold of a small program, and of many watches in one.
var (
	agentGoals = []claim{
		{"size of the stripped binary", agentRow, "size-B", shareOf, 0.60},
		{"time from the start of the process to its first event", agentRow, "ns/op", timesBetter, 1},
	}
	idleGoals = []claim{
		{"goroutines, TLS with HTTP/1.1, with a handler", idleRow("tls-http1"), "goroutines", atMost, 4},
		{"heap and stack, watch-list compressed, as kube-apiserver does by default", idleRow("tls-http1-gzip"), "total-B", shareOf, 0.5},
		{"heap and stack, nothing compressed", idleRow("tls-http1"), "total-B", shareOf, 0.5},
	}
	agentRow = key{"Agent", "", ours}
)

func idleRow(link string) key { return key{"Idle", "link=" + link, ours} }

func slimRow(encoding string) key { return decodeRow(encoding, "nodewatch-slim") }

func longRow(encoding string) key {
	return listRow("100000", encoding, ours)
}
