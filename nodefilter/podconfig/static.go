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
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hashAnnotation is where a static pod carries the hash of its manifest. The
// mirror pod that a kubelet makes of it is compared by this annotation.
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
// or a URL) into the pod that a node runs. The manifest's pod is changed, and is
// the result. An error says what makes the pod unusable, with the line and the field.
func (s staticPods) make(where string, m *manifest, now time.Time) (*corev1.Pod, error) {
	pod := m.pod
	if pod.Name == "" {
		return nil, m.lines.explain(field.Required(field.NewPath("metadata", "name"), "every static pod needs a name"))
	}
	if pod.Spec.PriorityClassName != "" && pod.Spec.Priority == nil {
		m.doubts = append(m.doubts, "spec.priorityClassName without spec.priority: a node does not know the priority of a class")
	}
	setPodDefaults(pod)
	if pod.UID == "" {
		if s.behaviour == KubeletCompatible {
			pod.UID = kubeletUID(pod, s.source, s.node, where)
		} else {
			pod.UID = manifestUID(m.tree, s.source, s.node, where)
		}
	}
	pod.TypeMeta = metav1.TypeMeta{}
	s.place(pod, now)
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

// place puts a pod on the node.
func (s staticPods) place(pod *corev1.Pod, now time.Time) {
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
	annotations[hashAnnotation] = string(pod.UID)
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
