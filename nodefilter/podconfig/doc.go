// Package podconfig is the pod configuration of a kubelet as a library: it takes
// the pods of a node from several sources (manifest files, a manifest URL, the
// API server), and merges them into one ordered stream of updates that says for
// each pod what a node has to do.
//
// # Vocabulary
//
// A source is a place where pods come from, and has a name. A producer runs one
// source and tells its changes: full states (the kubelet's SET) or deltas. The
// merge compares them with what was told before and makes them operations: ADD,
// UPDATE, REMOVE, DELETE (the pod is to end gracefully) and RECONCILE (only its
// status is another). A static pod is one that does not come from the API server;
// the pod that stands for it there is its mirror pod. The full name of a pod is
// its name and namespace.
//
// The semantics are those of pkg/kubelet/config in Kubernetes 1.37. What is done
// better is listed in docs/podsources.md, and Behaviour has the switch back.
//
// # Guarantees of the updates
//
// Each is about one pod of one source, identified by source and UID.
//
//   - ADD comes first and once; UPDATE, DELETE and RECONCILE only between ADD and
//     REMOVE; after REMOVE only ADD. Who applies the updates in order has what the
//     sources have as soon as nothing is pending.
//   - Changes of one source come in the kubelet's order: REMOVE, ADD, UPDATE, DELETE,
//     RECONCILE, so that a name is free before another pod takes it. There is no
//     order between sources.
//   - The first update of a source is marked Initial and has every pod that it had,
//     in whatever state they are; it is an ADD without pods for a source that has none.
//   - A reader that is behind holds up no source. What it has not received is
//     merged for each pod into what it has to know: pods that came and went are not
//     told, and of ten versions the newest is. That takes memory in proportion to
//     the pods, never to the changes.
//   - A pod is told with its newest version at the time of the update; REMOVE
//     has the last one known. Objects are shared and immutable; nothing is copied.
//
// # Names
//
// Of two pods with one full name in one full state of a source the first counts;
// the other is refused, said once, and shown by Status. In a delta a new UID
// takes a name over: REMOVE of the old pod comes before ADD of the new one. Two
// sources may have pods of one full name: both are told, since they are two pods
// with two UIDs, and Status and the log report it, unless one is the mirror pod
// of the other.
//
// A static pod keeps its UID while its manifest is edited, so that an edit is one UPDATE;
// see Files. Under KubeletCompatible it is REMOVE and ADD.
//
// # Cost
//
// A change of one pod costs the same however many pods the source has: one look
// at a map and one comparison with the version that the consumer has. Parts that
// the two versions share in memory are equal without being looked at.
package podconfig
