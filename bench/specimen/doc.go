// Package specimen makes the pods that benchmarks decode.
//
// The pods are like those of a busy cluster: 50 to a ReplicaSet, two or three
// containers with probes, resources, environment and mounts, a projected token
// volume, a full status and three managedFields entries; about 9 KB of JSON and
// 6 KB of protobuf each. They depend on their number alone, so that two runs on two
// machines decode the same bytes.
package specimen
