// Package podsources compares nodefilter/podconfig with what it replaces, the
// kubelet's own package k8s.io/kubernetes/pkg/kubelet/config.
//
// TestHistories gives the same random history to both: writes to an API server,
// operations on one directory of manifests that both read, and answers of one manifest
// URL. After each step the updates of both are compared, and the state that a
// reader of them has. podconfig runs as KubeletCompatible; what is different
// nevertheless is a rule in compare_test.go, which says where it may occur,
// and has to occur. TestImproved does the same with what podconfig does by default, beside a model
// of the improvements: which contents count, and which pod keeps its UID.
//
//	go test ./podsources                                         # 160 histories
//	go test -run TestHistories ./podsources -args -history 17    # one of them
//	go test -run TestHistories ./podsources -args -histories 2000
//
// A failure prints the number of the history and the fewest of its steps that still fail.
//
// The benchmarks measure the way of an event through the merge to its reader:
//
//	go test -run '^$' -bench . ./podsources
//	make bench-podsources    # from the top; writes RESULTS.md
//
// The kubelet's sources cannot be stopped. A few of them are started, and each
// serves one history after the other, on a directory and a URL of its own.
package podsources
