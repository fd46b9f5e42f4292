package podconfig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Source names where a pod comes from. The words are the kubelet's (Kubernetes
// 1.37, pkg/kubelet/types): they stand in the annotation
// kubernetes.io/config.source of static pods.
type Source string

// The sources that a kubelet has.
const (
	FileSource      Source = "file" // manifest files
	HTTPSource      Source = "http" // a manifest URL
	APIServerSource Source = "api"  // the pods that the API server has for the node
)

// Behaviour says whether the kubelet is copied or improved upon. The differences
// are listed in docs/podsources.md.
type Behaviour string

// The behaviours of the sources and of the merge.
const (
	Improved          Behaviour = "improved" // the default
	KubeletCompatible Behaviour = "kubelet"  // as the kubelet of Kubernetes 1.37 does it
)

func (b Behaviour) validate() error {
	if b != Improved && b != KubeletCompatible {
		return fmt.Errorf("is %q: use %q or %q", string(b), Improved, KubeletCompatible)
	}
	return nil
}

// Change is what a source tells the merge. A source's first Change may be empty:
// it says that the source was seen.
type Change struct {
	// Full says that Pods is all that the source has: a pod that is missing from
	// it is gone.
	Full bool
	// Pods are the new or changed pods, those of another source never among
	// them. They are shared and immutable from now on, for the source as well.
	Pods []*corev1.Pod
	// Gone are the pods that were deleted. Only where Full is false.
	Gone []Gone
	// Initial marks the first full state of the source.
	Initial bool
}

// Gone names a pod that a source has no longer.
type Gone struct {
	UID             types.UID
	Namespace, Name string
}

// Producer is one source of pods. The package has three, and any other may be
// given to Config.Sources.
type Producer interface {
	// Source is the name of the source; no two producers of a Config share one.
	Source() Source
	// Run tells the changes of the source, in their order and from one goroutine
	// at a time, until ctx ends; it returns nil then. Errors of the source are
	// its own to retry and are shown by Status: an error that Run returns ends
	// the whole configuration. tell never blocks for long, and does nothing once
	// ctx has ended.
	Run(ctx context.Context, tell func(Change)) error
	// Status can be called at any time, from any goroutine.
	Status() SourceStatus
}

// SourceStatus is what a source knows of itself.
type SourceStatus struct {
	// Seen says that the source has told its first full state, empty or not.
	Seen bool `json:"seen"`
	// Pods is the number of pods that the source has.
	Pods int `json:"pods"`
	// LastChange is when the source told its last Change; zero before the first.
	LastChange time.Time `json:"lastChange,omitzero"`
	// Errors are what is wrong now, in a stable order. What was fixed is not
	// among them.
	Errors []SourceError `json:"errors,omitempty"`
}

// SourceError is one thing that is wrong with a source now.
type SourceError struct {
	// Where is the file, the URL (without user info) or the request concerned.
	Where string `json:"where"`
	// Message says what is wrong, and what to do about it where that is known.
	Message string `json:"message"`
	// Since is when it was first seen.
	Since time.Time `json:"since"`
	// Count is how often it has been seen since then, at least 1.
	Count int `json:"count"`
}
