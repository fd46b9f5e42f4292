package democluster

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kind is what owns the pods of an app.
type kind uint8

const (
	deployment kind = iota + 1
	daemon
	job
)

// app is a workload.
type app struct {
	name, namespace, image string
	kind                   kind
	replicas               int // on each node
	port                   int32
	crashes                bool
}

var apps = []app{
	{name: "kube-proxy", namespace: "kube-system", image: "registry.k8s.io/kube-proxy:v1.37.2", kind: daemon, replicas: 1, port: 10256},
	{name: "node-exporter", namespace: "monitoring", image: "quay.io/prometheus/node-exporter:v1.9.1", kind: daemon, replicas: 1, port: 9100},
	{name: "web", namespace: "default", image: "docker.io/library/nginx:1.29", kind: deployment, replicas: 2, port: 80},
	{name: "cart", namespace: "shop", image: "registry.example.com/shop/cart:2.14.0", kind: deployment, replicas: 1, port: 8080},
	{name: "checkout", namespace: "shop", image: "registry.example.com/shop/checkout:1.8.3", kind: deployment, replicas: 1, port: 8080, crashes: true},
	{name: "search", namespace: "shop", image: "registry.example.com/shop/search:0.31.0", kind: deployment, replicas: 1, port: 9200},
}

// nightly is a job whose pods come beside the others.
var nightly = app{name: "report", namespace: "shop", image: "registry.example.com/shop/report:5", kind: job}

func newNode(n *simNode, created time.Time) *corev1.Node {
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.NewTime(created)}
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.name, CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{"kubernetes.io/hostname": n.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
		},
		Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.244.%d.0/24", n.index), PodCIDRs: []string{fmt.Sprintf("10.244.%d.0/24", n.index)}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.ip()}, {Type: corev1.NodeHostName, Address: n.name}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OSImage: "Debian GNU/Linux 13 (trixie)", KernelVersion: "6.12.48-amd64",
				ContainerRuntimeVersion: "containerd://2.1.4", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

func (n *simNode) ip() string { return fmt.Sprintf("192.0.2.%d", n.index) }

// newPod returns a pod as its controller creates it.
func newPod(a *app, name, hash string, created time.Time) *corev1.Pod {
	labels := map[string]string{"app": a.name}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name + "-" + hash, UID: uid(a.name + hash), Controller: new(true), BlockOwnerDeletion: new(true)}
	restart := corev1.RestartPolicyAlways
	switch a.kind {
	case deployment:
		labels["pod-template-hash"] = hash
	case daemon:
		owner.Kind, owner.Name = "DaemonSet", a.name
	case job:
		owner.APIVersion, owner.Kind, owner.Name = "batch/v1", "Job", a.name
		restart = corev1.RestartPolicyNever
	}
	container := corev1.Container{
		Name: a.name, Image: a.image, ImagePullPolicy: corev1.PullIfNotPresent,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
	}
	if a.port != 0 {
		container.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: a.port, Protocol: corev1.ProtocolTCP}}
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: a.namespace, Labels: labels,
			CreationTimestamp: metav1.NewTime(created.Truncate(time.Second)), OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{container}, RestartPolicy: restart, TerminationGracePeriodSeconds: new(int64(30)),
			ServiceAccountName: "default", EnableServiceLinks: new(true), PreemptionPolicy: new(corev1.PreemptLowerPriority), Priority: new(int32(0)),
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
			Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}}},
			}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
}

// setStatus gives a pod the status that a kubelet reports in its stage.
func setStatus(p *simPod, n *simNode, at time.Time) {
	now := metav1.NewTime(at.Truncate(time.Second))
	st := &p.pod.Status
	if st.StartTime == nil {
		st.StartTime, st.HostIP, st.HostIPs = &now, n.ip(), []corev1.HostIP{{IP: n.ip()}}
	}
	if st.PodIP == "" && p.stage != starting {
		st.PodIP = fmt.Sprintf("10.244.%d.%d", n.index, 2+n.addrs%250)
		st.PodIPs = []corev1.PodIP{{IP: st.PodIP}}
	}
	isReady := p.stage == ready
	cs := corev1.ContainerStatus{
		Name: p.app.name, Image: p.app.image, ImageID: p.app.image + "@sha256:" + digest(p.app.image), RestartCount: p.restarts,
		Ready: isReady, Started: new(p.stage == ready || p.stage == unready), ContainerID: "containerd://" + digest(fmt.Sprint(p.pod.Name, p.restarts)),
	}
	if len(st.ContainerStatuses) > 0 {
		cs.LastTerminationState = st.ContainerStatuses[0].LastTerminationState
	}
	ended := func(code int32, reason string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: *st.StartTime, FinishedAt: now, ContainerID: cs.ContainerID}
	}
	st.Phase = corev1.PodRunning
	switch p.stage {
	case starting:
		st.Phase = corev1.PodPending
		cs.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		cs.ImageID, cs.ContainerID = "", ""
	case unready, ready:
		cs.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
	case crashed:
		cs.State.Terminated = ended(1, "Error")
		cs.LastTerminationState.Terminated = ended(1, "Error")
	case backOff:
		cs.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container=" + p.app.name + " pod=" + p.pod.Name}
	case completed:
		st.Phase = corev1.PodSucceeded
		cs.State.Terminated = ended(0, "Completed")
	}
	st.ContainerStatuses = []corev1.ContainerStatus{cs}

	setCondition(st, corev1.PodScheduled, true, "", now)
	setCondition(st, corev1.PodInitialized, true, "", now)
	reason := "ContainersNotReady"
	if p.stage == completed {
		reason = "PodCompleted"
	}
	setCondition(st, corev1.ContainersReady, isReady, reason, now)
	setCondition(st, corev1.PodReady, isReady, reason, now)
}

// setCondition keeps the time of a transition where there is none.
func setCondition(st *corev1.PodStatus, t corev1.PodConditionType, holds bool, reason string, now metav1.Time) {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now}
	if !holds {
		c.Status, c.Reason = corev1.ConditionFalse, reason
	}
	for i, have := range st.Conditions {
		if have.Type != t {
			continue
		}
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		st.Conditions[i] = c
		return
	}
	st.Conditions = append(st.Conditions, c)
}

// uid and digest make what looks like one of a text.
func uid(of string) types.UID {
	h := digest(of)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32])
}

func digest(of string) string {
	text := ""
	for i := range 4 {
		h := fnv.New64a()
		fmt.Fprint(h, i, of)
		text += fmt.Sprintf("%016x", h.Sum64())
	}
	return text
}
