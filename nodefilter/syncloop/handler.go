package syncloop

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SyncHandler does what the events of a node are for. The methods are the
// kubelet's. All are called from the goroutine of Loop.Run, one at a time; ctx is
// Run's. The pods are shared and immutable, the slices are the handler's.
type SyncHandler interface {
	// HandlePodAdditions: pods that are new, in the order of their creation.
	// After a start these are all pods that there are, in whatever state.
	HandlePodAdditions(ctx context.Context, pods []*corev1.Pod)
	// HandlePodUpdates: pods whose spec, labels or annotations changed (UPDATE),
	// and those that are to end gracefully (DELETE): their deletionTimestamp is set.
	HandlePodUpdates(ctx context.Context, pods []*corev1.Pod)
	// HandlePodRemoves: pods that their source has no longer, in their last
	// known version.
	HandlePodRemoves(ctx context.Context, pods []*corev1.Pod)
	// HandlePodReconcile: pods of which only the status changed.
	HandlePodReconcile(ctx context.Context, pods []*corev1.Pod)
	// HandlePodSyncs: pods that are to be looked at again, because of an event of
	// a container, a probe, or the WorkQueue.
	HandlePodSyncs(ctx context.Context, pods []*corev1.Pod)
	// HandlePodCleanups is housekeeping: whatever belongs to pods that are not in
	// the PodManager can go. An error is logged and counted; the next
	// housekeeping is the retry.
	HandlePodCleanups(ctx context.Context) error
}

// ProbeHandler is what a SyncHandler may also be: it is told each probe result of
// a pod that is known, before HandlePodSyncs. The kubelet sets readiness and
// startup in the pod's status there.
type ProbeHandler interface {
	HandleProbeResult(ctx context.Context, pod *corev1.Pod, r ProbeResult)
}

// Probe is which of a container's probes a result is of.
type Probe uint8

// The probes.
const (
	Liveness Probe = iota + 1
	Readiness
	Startup
)

// String returns liveness, readiness or startup.
func (p Probe) String() string {
	switch p {
	case Liveness:
		return "liveness"
	case Readiness:
		return "readiness"
	case Startup:
		return "startup"
	}
	return "unknown"
}

// ProbeResult is a result that differs from the one before of the same probe.
type ProbeResult struct {
	Probe       Probe
	Pod         types.UID
	ContainerID string
	Success     bool
}
