// Package specimen makes the pods that benchmarks decode, and what an API server says of them.
//
// The pods are like those of a busy cluster: 50 to a ReplicaSet, two or three
// containers with probes, resources, environment and mounts, a projected token
// volume, a full status and three managedFields entries; about 9 KB of JSON and
// 6 KB of protobuf each. They depend on their number alone, so that two runs on two
// machines decode the same bytes.
// The ID of an image is the same in all pods that run the image, as its digest is; that of a container is its own.
//
// A Stream has the events of a watch. They change what real ones change, of 20:
//
//   - 12 readiness: status and time of two conditions, ready of a container
//   - 4 a container was started again: its ID, times, count and last state, the time of two conditions
//   - 1 a new sandbox: the same for all containers, the pod's IPs, the time of three conditions
//   - 2 an annotation, 1 a label, written by a controller
//
// and always the resourceVersion and the time of the writer's managedFields entry. The
// spec stays. The time and the IDs of one event come in no other, so that nothing is
// gained by remembering what was seen in an earlier event of any pod.
package specimen
