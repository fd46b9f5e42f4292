package podtable

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// none stands in a wide cell that has no value, unknown in an age that has none.
const (
	none    = "<none>"
	unknown = "<unknown>"
)

// Columns returns the column definitions of a pod Table, as the API server
// sends them. Those with Priority 1 are shown by wide output only. The slice is
// the caller's.
func Columns() []metav1.TableColumnDefinition {
	objectMeta, spec, status := metav1.ObjectMeta{}.SwaggerDoc(), corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: objectMeta["name"]},
		{Name: "Ready", Type: "string", Description: "The aggregate readiness state of this pod for accepting traffic."},
		{Name: "Status", Type: "string", Description: "The aggregate status of the containers in this pod."},
		{Name: "Restarts", Type: "string", Description: "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."},
		{Name: "Age", Type: "string", Description: objectMeta["creationTimestamp"]},
		{Name: "IP", Type: "string", Priority: 1, Description: status["podIP"]},
		{Name: "Node", Type: "string", Priority: 1, Description: spec["nodeName"]},
		{Name: "Nominated Node", Type: "string", Priority: 1, Description: status["nominatedNodeName"]},
		{Name: "Readiness Gates", Type: "string", Priority: 1, Description: spec["readinessGates"]},
	}
}

// Cells returns the text of one pod's row, a cell for each of Columns. Ages
// count up to now.
func Cells(pod *corev1.Pod, now time.Time) []string {
	s := summarize(pod)
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []string{
		pod.Name,
		fmt.Sprintf("%d/%d", s.ready, s.containers),
		s.status,
		s.restartsCell(now),
		Age(pod.CreationTimestamp, now),
		orNone(ip),
		orNone(pod.Spec.NodeName),
		orNone(pod.Status.NominatedNodeName),
		gates(pod),
	}
}

// Conditions returns what a Table row says beside its cells: a pod that ran to
// its end is marked Completed. It is nil for any other pod.
func Conditions(pod *corev1.Pod) []metav1.TableRowCondition {
	message := ""
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		message = "The pod has completed successfully."
	case corev1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase), Message: message,
	}}
}

// Age returns how long ago t was in kubectl's short form ("5m", "3d4h"), or
// <unknown> when t is zero.
func Age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// gates returns how many readiness gates are satisfied, "1/2".
func gates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return none
	}
	satisfied := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionTrue(pod, gate.ConditionType) {
			satisfied++
		}
	}
	return strconv.Itoa(satisfied) + "/" + strconv.Itoa(len(pod.Spec.ReadinessGates))
}

// conditionTrue reports whether the first condition of that type is True.
func conditionTrue(pod *corev1.Pod, t corev1.PodConditionType) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
