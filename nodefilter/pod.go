package nodefilter

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// PodOnNode returns the guard of a node: it reports whether a pod runs on the
// node called name. A nil pod, and a pod that has no node yet, do not.
func PodOnNode(name string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return p != nil && name != "" && p.Spec.NodeName == name
	}
}

// NodeIndex is the name of the index that ByNode makes.
const NodeIndex = "node"

// ByNode indexes pods by the name of their node, for a store that holds the
// pods of several nodes: Store.By(NodeIndex, "node-a") are those of node-a. Pods that have no node yet are under "".
func ByNode() reflector.Index[*corev1.Pod] {
	return reflector.Index[*corev1.Pod]{
		Name:   NodeIndex,
		Values: func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} },
	}
}
