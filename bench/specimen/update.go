package specimen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// change is what one write to a pod is about.
type change uint8

const (
	readiness  change = iota // the kubelet: the pod is ready or not
	restart                  // the kubelet: a container ended and was started again
	sandbox                  // the kubelet: a new sandbox, so new IPs and new containers
	annotation               // a controller writes an annotation
	label                    // a controller writes a label
)

// mix is how often each change comes, of 20. The kubelet writes most of what a
// watch of pods brings; spec does not change.
var mix = func() (of [20]change) {
	next := 0
	for _, m := range []struct {
		change
		n int
	}{{readiness, 12}, {restart, 4}, {sandbox, 1}, {annotation, 2}, {label, 1}} {
		for range m.n {
			of[next] = m.change
			next++
		}
	}
	return of
}()

// versions is how many versions of a pod a Stream has beside the listed one.
const versions = 2

// What an update writes where each event has a value of its own: Frame puts that in.
const (
	mockVersion = "7000001"          // the resourceVersion
	mockID      = "f05e1ec0ffee9d03" // the first digits of a container's ID
	mockSent    = "7700000000000000077"
)

var mockTime = time.Date(2031, time.July, 9, 11, 31, 17, 0, time.UTC)

// SentAnnotation has the time at which the server wrote the event, in nanoseconds
// since 1970; on the pods of a Stream that is Stamped only.
const SentAnnotation = "bench.nodewatch.io/sent"

// update returns version v, 1 to versions, of specimen i.
func update(i, v int, stamped bool) *corev1.Pod {
	pod := Pod(i)
	pod.ResourceVersion = mockVersion
	now := metav1.NewTime(mockTime)
	// 7 and 20 have no common divisor, so that neighbours differ.
	kind := mix[i*7%len(mix)]
	odd := v%2 == 1
	writer := "kubelet"
	switch kind {
	case readiness:
		ready(pod, !odd, now, corev1.PodReady, corev1.ContainersReady)
		pod.Status.ContainerStatuses[0].Ready = !odd
	case restart:
		restarted(pod, i%len(pod.Status.ContainerStatuses), v, now)
		ready(pod, true, now, corev1.PodReady, corev1.ContainersReady)
	case sandbox:
		pod.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", 128+v, i/250%250, i%250+1)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		for c := range pod.Status.ContainerStatuses {
			restarted(pod, c, v, now)
		}
		ready(pod, true, now, corev1.PodReadyToStartContainers, corev1.PodReady, corev1.ContainersReady)
	case annotation:
		writer = "kube-controller-manager"
		pod.Annotations["kubectl.kubernetes.io/restartedAt"] = fmt.Sprintf("2026-03-0%dT07:55:00Z", 1+v)
	case label:
		writer = "kube-controller-manager"
		pod.Labels["team"] = "team-" + []string{"yellow", "purple"}[v-1]
	}
	for m := range pod.ManagedFields {
		if pod.ManagedFields[m].Manager == writer {
			pod.ManagedFields[m].Time = &now
		}
	}
	if stamped {
		pod.Annotations[SentAnnotation] = mockSent
	}
	return pod
}

// ready sets the status of conditions and the time at which it changed.
func ready(pod *corev1.Pod, yes bool, at metav1.Time, which ...corev1.PodConditionType) {
	for c := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[c]
		if !slices.Contains(which, cond.Type) {
			continue
		}
		cond.LastTransitionTime = at
		if !yes {
			cond.Status = corev1.ConditionFalse
			cond.Reason = "ContainersNotReady"
			cond.Message = "containers with unready status: [server]"
		}
	}
}

// restarted gives container c a new ID and says how the one before ended.
func restarted(pod *corev1.Pod, c, times int, at metav1.Time) {
	s := &pod.Status.ContainerStatuses[c]
	before := s.State.Running.StartedAt
	s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "OOMKilled", StartedAt: before, FinishedAt: at, ContainerID: s.ContainerID,
	}}
	s.RestartCount = int32(times)
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
	id := strings.TrimPrefix(s.ContainerID, "containerd://")
	s.ContainerID = "containerd://" + mockID + id[len(mockID):]
}
