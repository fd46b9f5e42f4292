package podconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hashAnnotation is where a static pod carries the hash of its manifest. The
// mirror pod that a kubelet makes of it is compared by this annotation. It is of what the
// manifest says now, also where the UID is older or was named (for the kubelet it is the UID).
const hashAnnotation = "kubernetes.io/config.hash"

// staticPods makes pods of manifests as a kubelet does (Kubernetes 1.37,
// pkg/kubelet/config/common.go): the defaults of the v1 API, a UID, a name with
// the node's in it, and so on. One of them serves one source.
type staticPods struct {
	source    Source
	node      string
	behaviour Behaviour
}

// make turns a manifest that was found at a place (a path as it was configured,
// or a URL) into the pod that a node runs. before is what the place gave last, or nil: see
// continues. The manifest's pod is changed, and is the result. An error says what makes the
// pod unusable, with the line and the field.
func (s staticPods) make(where string, m *manifest, before *corev1.Pod, now time.Time) (*corev1.Pod, error) {
	pod := m.pod
	if pod.Name == "" {
		return nil, m.lines.explain(field.Required(field.NewPath("metadata", "name"), "every static pod needs a name"))
	}
	if pod.Spec.PriorityClassName != "" && pod.Spec.Priority == nil {
		m.doubts = append(m.doubts, "spec.priorityClassName without spec.priority: a node does not know the priority of a class")
	}
	setPodDefaults(pod)
	named := pod.UID != ""
	hash := manifestUID(m.tree, s.source, s.node, where)
	if s.behaviour == KubeletCompatible {
		if !named {
			pod.UID = kubeletUID(pod, s.source, s.node, where)
		}
		hash = pod.UID
	} else if !named {
		pod.UID = hash
	}
	pod.TypeMeta = metav1.TypeMeta{}
	s.place(pod, hash, now)
	s.continues(pod, before, named)
	errs := validatePod(pod)
	if len(errs) == 0 {
		errs = validateReferences(pod)
	}
	if len(errs) > 0 {
		// Maps are walked in any order, and the same fault has to have the same text.
		slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
		err := m.lines.explain(errs[0])
		if n := len(errs) - 1; n > 0 {
			err = fmt.Errorf("%w (and %d more)", err, n)
		}
		return nil, err
	}
	return pod, nil
}

// continues makes a pod the next version of the one before it at its place, where it is the
// same pod: it has its UID, whatever the manifest says now, unless the manifest names
// another one, and was first seen when that was. Another full name at the place is another
// pod. The kubelet's pods are the same only where their manifest names their UID.
func (s staticPods) continues(pod, before *corev1.Pod, named bool) {
	if before == nil || nameOf(pod) != nameOf(before) {
		return
	}
	if !named && s.behaviour != KubeletCompatible {
		pod.UID = before.UID
	}
	if pod.UID == before.UID {
		pod.Annotations[firstSeenAnnotation] = before.Annotations[firstSeenAnnotation]
	}
}

// place puts a pod on the node.
func (s staticPods) place(pod *corev1.Pod, hash types.UID, now time.Time) {
	pod.Name = s.podName(pod.Name)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = s.node
	// A map of its own: the manifest may have shared one between pods by a YAML alias.
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = make(map[string]string, 3)
	}
	annotations[hashAnnotation] = string(hash)
	annotations[sourceAnnotation] = string(s.source)
	annotations[firstSeenAnnotation] = now.Format(time.RFC3339Nano)
	pod.Annotations = annotations
	if s.source == FileSource {
		// So that what runs a node is not evicted when the node is in trouble. The
		// kubelet gives it to the pods of files and not to those of a URL.
		tolerate(&pod.Spec, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	pod.Status.Phase = corev1.PodPending
}

// podName is unique among the nodes that have the same manifest.
func (s staticPods) podName(name string) string { return name + "-" + strings.ToLower(s.node) }

// tolerate adds a toleration. One for the same taints gives way to it.
func tolerate(spec *corev1.PodSpec, t corev1.Toleration) {
	var all []corev1.Toleration
	there := false
	for _, old := range spec.Tolerations {
		switch {
		case !t.MatchToleration(&old):
			all = append(all, old)
		case equality.Semantic.DeepEqual(old, t):
			return
		default:
			all = append(all, t)
			there = true
		}
	}
	if !there {
		all = append(all, t)
	}
	spec.Tolerations = all
}
