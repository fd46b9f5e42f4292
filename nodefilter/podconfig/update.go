package podconfig

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Op is what happened to the pods of a PodUpdate. The words, and their order
// within one change of a source, are the kubelet's (Kubernetes 1.37,
// pkg/kubelet/config).
type Op uint8

// The operations, in the order in which those of one change are told.
const (
	Remove    Op = iota + 1 // the source has the pod no longer; its last known version
	Add                     // new to the consumer, whatever state the pod is in
	Update                  // the spec, labels or annotations changed
	Delete                  // as Update, of a pod that is to end: its deletionTimestamp is set
	Reconcile               // only the status changed
)

// ops are all operations, in their order.
var ops = [...]Op{Remove, Add, Update, Delete, Reconcile}

// String returns the kubelet's word, such as ADD.
func (o Op) String() string {
	switch o {
	case Remove:
		return "REMOVE"
	case Add:
		return "ADD"
	case Update:
		return "UPDATE"
	case Delete:
		return "DELETE"
	case Reconcile:
		return "RECONCILE"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// MarshalText is String, for JSON.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// PodUpdate is one operation on some pods of one source.
type PodUpdate struct {
	// Pods are shared with the source and with every later update: nobody may
	// change them. The slice itself is the receiver's. It is empty only in the
	// Add that says that a source without pods was seen.
	Pods   []*corev1.Pod
	Op     Op
	Source Source
	// Initial marks the first Add of a source that has told its first full state,
	// empty or not: with it the receiver knows every pod that the source had.
	Initial bool
}

// IsMirrorPod reports whether the pod stands in the API server for a static pod
// of the node: it has the annotation kubernetes.io/config.mirror. It has the
// name and the namespace of the static pod, and another UID. What the node has
// to run is the static pod.
//
// Whether a pod is a static one is told by PodUpdate.Source, which is not
// APIServerSource then, and not by an annotation: anybody who may create pods
// can give them any annotation.
func IsMirrorPod(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
