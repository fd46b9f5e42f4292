package podconfig

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of a pod's way through a node. The kubelet writes them itself and
// keeps them out of every comparison.
const (
	sourceAnnotation    = "kubernetes.io/config.source"
	firstSeenAnnotation = "kubernetes.io/config.seen"
)

func isLocalAnnotation(key string) bool {
	return key == sourceAnnotation || key == firstSeenAnnotation || key == corev1.MirrorPodAnnotationKey
}

// compare tells what a consumer that has the pod old has to be told to have new:
// Update, Delete, Reconcile, or 0 for nothing. The rule is the kubelet's: a pod
// is updated when its spec, labels, annotations (without the local ones), or the
// time or grace of its deletion differ; when only the status does, it is
// reconciled. Other metadata (resourceVersion, owners, finalizers,
// managedFields) is not a change.
func (b Behaviour) compare(old, new *corev1.Pod) Op {
	if old == new {
		return 0
	}
	if b.differ(old, new) {
		if new.DeletionTimestamp != nil {
			return Delete
		}
		return Update
	}
	if !b.equal(&old.Status, &new.Status) {
		return Reconcile
	}
	return 0
}

// differ: cheap fields first, the spec last.
func (b Behaviour) differ(old, new *corev1.Pod) bool {
	return !b.equal(old.DeletionGracePeriodSeconds, new.DeletionGracePeriodSeconds) ||
		!b.equal(old.DeletionTimestamp, new.DeletionTimestamp) ||
		!b.equalLabels(old.Labels, new.Labels) ||
		!equalAnnotations(old.Annotations, new.Annotations) ||
		!b.equal(&old.Spec, &new.Spec)
}

// equal compares two pointers of one type by what they point to. The kubelet
// lets another form of the same value count as a change: 1000m for 1, an empty
// list for none, one instant in another time zone.
func (b Behaviour) equal(old, new any) bool {
	if b == KubeletCompatible {
		return reflect.DeepEqual(old, new)
	}
	return semanticEqual(old, new)
}

func (b Behaviour) equalLabels(old, new map[string]string) bool {
	if b == KubeletCompatible && (old == nil) != (new == nil) {
		return false
	}
	return sameMap(old, new) || maps.Equal(old, new)
}

// sameMap reports whether two maps are one in memory, as those of two versions of
// a pod are whose decoder shares what did not change. Then neither is read. It is
// most of what an event on a node with many pods would wait for: nobody else has
// looked at the labels and annotations of a pod for long.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// equalAnnotations compares without the local annotations.
func equalAnnotations(old, new map[string]string) bool {
	if sameMap(old, new) {
		return true
	}
	n := 0
	for k, v := range old {
		if isLocalAnnotation(k) {
			continue
		}
		if w, ok := new[k]; !ok || v != w {
			return false
		}
		n++
	}
	for k := range new {
		if !isLocalAnnotation(k) {
			n--
		}
	}
	return n == 0
}
