package podtable

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeLost is the status.reason that the node controller gives to the pods of a
// node that it cannot reach.
const nodeLost = "NodeLost"

// summary is a pod's containers put together.
type summary struct {
	ready, containers int
	status            string
	restarts          restarts
}

// restarts counts restarts and remembers the end of the newest run before one.
type restarts struct {
	count int
	last  metav1.Time
}

func (r *restarts) add(cs *corev1.ContainerStatus) {
	r.count += int(cs.RestartCount)
	if t := cs.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

// restartsCell is "3", or "3 (5m ago)" when it is known when the last run ended.
func (s *summary) restartsCell(now time.Time) string {
	n := strconv.Itoa(s.restarts.count)
	if s.restarts.count == 0 || s.restarts.last.IsZero() {
		return n
	}
	return n + " (" + Age(s.restarts.last, now) + " ago)"
}

// summarize walks the states in the order in which a pod lives: phase, init
// containers, containers, deletion. What comes later overrides.
func summarize(pod *corev1.Pod) summary {
	s := summary{containers: len(pod.Spec.Containers), status: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		s.status = pod.Status.Reason
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.status = corev1.PodReasonSchedulingGated
		}
	}

	// While the pod initializes, the restarts shown are those of its init
	// containers; afterwards only those of sidecars still count.
	sidecarRestarts, initializing := s.initContainers(pod)
	if !initializing || conditionTrue(pod, corev1.PodInitialized) {
		s.restarts = sidecarRestarts
		s.appContainers(pod)
	}

	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == nodeLost:
			s.status = "Unknown"
		case pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			s.status = "Terminating"
		}
	}
	return s
}

// initContainers takes in the init containers up to the first that holds the
// pod back, and reports whether there is one. The restarts of sidecars (init
// containers that run on beside the others) are returned apart.
func (s *summary) initContainers(pod *corev1.Pod) (sidecarRestarts restarts, initializing bool) {
	sidecars := make(map[string]bool)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.containers++
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		cs := &pod.Status.InitContainerStatuses[i]
		s.restarts.add(cs)
		sidecar := sidecars[cs.Name]
		if sidecar {
			sidecarRestarts.add(cs)
		}
		terminated, waiting := cs.State.Terminated, cs.State.Waiting
		switch {
		case terminated != nil && terminated.ExitCode == 0:
			continue
		case sidecar && cs.Started != nil && *cs.Started:
			if cs.Ready {
				s.ready++
			}
			continue
		case terminated != nil:
			s.status = "Init:" + exitWord(terminated)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.status = "Init:" + waiting.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return sidecarRestarts, true
	}
	return sidecarRestarts, false
}

// appContainers takes in the containers proper. They are read backwards, so the
// first container that has something to say has the last word.
func (s *summary) appContainers(pod *corev1.Pod) {
	running, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		cs := &pod.Status.ContainerStatuses[i]
		s.restarts.add(cs)
		terminated, waiting := cs.State.Terminated, cs.State.Waiting
		switch {
		case waiting != nil && waiting.Reason != "":
			s.status = waiting.Reason
		case terminated != nil:
			s.status = exitWord(terminated)
			if terminated.ExitCode != 0 {
				failure = s.status
			}
		case cs.Ready && cs.State.Running != nil:
			running = true
			s.ready++
		}
	}
	// One container that completed does not make a pod complete.
	if s.status == "Completed" {
		switch {
		case running && conditionTrue(pod, corev1.PodReady):
			s.status = "Running"
		case failure != "":
			s.status = failure
		case running:
			s.status = "NotReady"
		}
	}
}

// exitWord names how a container ended: its reason, else its signal, else its exit code.
func exitWord(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}
