package podconfig

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// asKubelet returns the object that the kubelet would deliver for op: old is what
// it delivered before (nil for Add), new what the source has. The kubelet keeps
// one object for each pod and copies into it the fields that it compares, so that
// the rest of the metadata stays that of the first version; and it writes the
// annotations source and seen into it.
//
// Nothing is changed in place: the result is a shallow copy.
func asKubelet(op Op, s Source, old, new *corev1.Pod, now time.Time) *corev1.Pod {
	switch op {
	case Remove:
		return old
	case Add:
		pod := *new
		pod.Annotations = maps.Clone(new.Annotations)
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[sourceAnnotation] = string(s)
		pod.Annotations[firstSeenAnnotation] = now.Format(time.RFC3339Nano)
		return &pod
	case Reconcile:
		pod := *old
		pod.Status = new.Status
		return &pod
	}
	pod := *old
	pod.Spec, pod.Status = new.Spec, new.Status
	pod.Labels = new.Labels
	pod.DeletionTimestamp = new.DeletionTimestamp
	pod.DeletionGracePeriodSeconds = new.DeletionGracePeriodSeconds
	pod.Generation = new.Generation
	pod.Annotations = maps.Clone(new.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for k, v := range old.Annotations {
		if isLocalAnnotation(k) {
			pod.Annotations[k] = v
		}
	}
	return &pod
}
