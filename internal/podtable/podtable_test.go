package podtable

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func running(ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func terminated(reason string, code, signal int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal},
	}}
}

// restarted adds restarts, the last of which followed a run that ended d ago.
func restarted(cs corev1.ContainerStatus, n int32, d time.Duration) corev1.ContainerStatus {
	cs.RestartCount = n
	cs.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: ago(d)}
	return cs
}

// pod makes a running pod with that many containers.
func pod(containers int, statuses ...corev1.ContainerStatus) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: ago(time.Hour)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses},
	}
	for range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
	}
	return p
}

// withInit adds init containers named i0, i1...; sidecars are those in always.
func withInit(p *corev1.Pod, statuses []corev1.ContainerStatus, always ...int) *corev1.Pod {
	for i := range statuses {
		name := "i" + string(rune('0'+i))
		statuses[i].Name = name
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
	}
	for _, i := range always {
		p.Spec.InitContainers[i].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	p.Status.InitContainerStatuses = statuses
	return p
}

func with(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(p)
	return p
}

func condition(t corev1.PodConditionType, s corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: s, Reason: reason})
	}
}

func phase(ph corev1.PodPhase, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = ph, reason }
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = new(ago(time.Second)) }

func TestCells(t *testing.T) {
	t.Parallel()
	started := running(true)
	started.Started = new(true)
	unready := running(false)
	unready.Started = new(true)
	statuses := func(cs ...corev1.ContainerStatus) []corev1.ContainerStatus { return cs }
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string // ready, status, restarts
	}{
		{"running", pod(2, running(true), running(true)), "2/2|Running|0"},
		{"one not ready", pod(2, running(true), running(false)), "1/2|Running|0"},
		{"pending, no status yet", with(pod(1), phase(corev1.PodPending, "")), "0/1|Pending|0"},
		{"a reason beats the phase", with(pod(1), phase(corev1.PodFailed, "Evicted")), "0/1|Evicted|0"},
		{"scheduling gated", with(with(pod(1), phase(corev1.PodPending, "")), condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated)), "0/1|SchedulingGated|0"},
		{"crash loop", pod(2, running(true), restarted(waiting("CrashLoopBackOff"), 3, 5*time.Minute)), "1/2|CrashLoopBackOff|3 (5m ago)"},
		{"restarts without a time", pod(1, corev1.ContainerStatus{RestartCount: 2, Ready: true, State: running(true).State}), "1/1|Running|2"},
		{"restarts are summed, the latest counts", pod(2, restarted(running(true), 1, time.Hour), restarted(running(true), 2, 30*time.Second)), "2/2|Running|3 (30s ago)"},
		{"the first container has the last word", pod(2, waiting("ErrImagePull"), waiting("CrashLoopBackOff")), "0/2|ErrImagePull|0"},
		{"completed", with(pod(1, terminated("Completed", 0, 0)), phase(corev1.PodSucceeded, "")), "0/1|Completed|0"},
		{"one completed of two, ready", with(pod(2, terminated("Completed", 0, 0), running(true)), condition(corev1.PodReady, corev1.ConditionTrue, "")), "1/2|Running|0"},
		{"one completed of two, not ready", pod(2, terminated("Completed", 0, 0), running(true)), "1/2|NotReady|0"},
		{"one completed and one failed", pod(2, terminated("Completed", 0, 0), terminated("OOMKilled", 137, 0)), "0/2|OOMKilled|0"},
		{"exit code without a reason", pod(1, terminated("", 3, 0)), "0/1|ExitCode:3|0"},
		{"signal without a reason", pod(1, terminated("", 137, 9)), "0/1|Signal:9|0"},

		{"first of two init containers", withInit(with(pod(1), phase(corev1.PodPending, "")), statuses(running(false), waiting("PodInitializing"))), "0/1|Init:0/2|0"},
		{"second of two init containers", withInit(pod(1), statuses(terminated("Completed", 0, 0), waiting("PodInitializing"))), "0/1|Init:1/2|0"},
		{"init container in a crash loop", withInit(pod(1), statuses(restarted(waiting("CrashLoopBackOff"), 4, time.Minute))), "0/1|Init:CrashLoopBackOff|4 (60s ago)"},
		{"init container failed", withInit(pod(1), statuses(terminated("Error", 1, 0))), "0/1|Init:Error|0"},
		{"init container failed without a reason", withInit(pod(1), statuses(terminated("", 2, 0))), "0/1|Init:ExitCode:2|0"},
		{"init container killed", withInit(pod(1), statuses(terminated("", 0+137, 9))), "0/1|Init:Signal:9|0"},
		{"restarts of init containers count only while initializing", withInit(pod(1, running(true)), statuses(restarted(terminated("Completed", 0, 0), 5, time.Minute))), "1/1|Running|0"},
		{"sidecar, ready", withInit(pod(1, running(true)), statuses(restarted(started, 1, 10*time.Second)), 0), "2/2|Running|1 (10s ago)"},
		{"sidecar, started and not ready", withInit(pod(1, running(true)), statuses(unready), 0), "1/2|Running|0"},
		{"sidecar, not started", withInit(pod(1), statuses(running(false)), 0), "0/2|Init:0/1|0"},
		{"initialized, then a sidecar waits", with(withInit(pod(1, running(true)), statuses(waiting("CrashLoopBackOff")), 0), condition(corev1.PodInitialized, corev1.ConditionTrue, "")), "1/2|Init:CrashLoopBackOff|0"},

		{"terminating", with(pod(1, running(true)), deleting), "1/1|Terminating|0"},
		{"deleted and done", with(with(pod(1, terminated("Completed", 0, 0)), phase(corev1.PodSucceeded, "")), deleting), "0/1|Completed|0"},
		{"deleted on a lost node", with(with(pod(1, running(true)), phase(corev1.PodRunning, "NodeLost")), deleting), "1/1|Unknown|0"},
		{"on a lost node", with(pod(1, running(true)), phase(corev1.PodRunning, "NodeLost")), "1/1|NodeLost|0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cells := Cells(c.pod, now)
			if got := strings.Join(cells[1:4], "|"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if len(cells) != len(Columns()) {
				t.Errorf("%d cells for %d columns", len(cells), len(Columns()))
			}
		})
	}
}

func TestWideCells(t *testing.T) {
	t.Parallel()
	p := pod(1)
	if got := strings.Join(Cells(p, now), "|"); got != "p|0/1|Running|0|60m|<none>|<none>|<none>|<none>" {
		t.Errorf("a pod without wide values: %s", got)
	}
	p.CreationTimestamp = metav1.Time{}
	p.Spec.NodeName, p.Status.NominatedNodeName = "node-a", "node-b"
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}, {ConditionType: "c"}}
	condition("a", corev1.ConditionTrue, "")(p)
	condition("b", corev1.ConditionFalse, "")(p)
	if got := strings.Join(Cells(p, now), "|"); got != "p|0/1|Running|0|<unknown>|10.0.0.1|node-a|node-b|1/3" {
		t.Errorf("a pod with wide values: %s", got)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for ph, want := range map[corev1.PodPhase]string{
		corev1.PodSucceeded: "The pod has completed successfully.", corev1.PodFailed: "The pod failed.", corev1.PodRunning: "",
	} {
		got := Conditions(with(pod(1), phase(ph, "")))
		switch {
		case want == "" && got != nil:
			t.Errorf("%s: %v, want none", ph, got)
		case want != "" && (len(got) != 1 || got[0].Message != want || got[0].Type != metav1.RowCompleted || got[0].Reason != string(ph)):
			t.Errorf("%s: %v, want Completed: %s", ph, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	var normal, wide []string
	for _, c := range Columns() {
		if c.Description == "" {
			t.Errorf("column %s has no description", c.Name)
		}
		if c.Priority == 0 {
			normal = append(normal, c.Name)
		} else {
			wide = append(wide, c.Name)
		}
	}
	if got := strings.Join(normal, ",") + ";" + strings.Join(wide, ","); got != "Name,Ready,Status,Restarts,Age;IP,Node,Nominated Node,Readiness Gates" {
		t.Errorf("columns %s", got)
	}
}
