package specimen

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedFields returns what the controller that made a pod, the scheduler
// and the kubelet leave behind: about half of a pod's bytes.
func managedFields(created, started metav1.Time, containers int) []metav1.ManagedFieldsEntry {
	entry := func(manager, subresource string, t metav1.Time, fields string) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &t,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}, Subresource: subresource,
		}
		e.FieldsV1.SetRawString(fields)
		return e
	}

	var c strings.Builder
	for i := range containers {
		if i > 0 {
			c.WriteByte(',')
		}
		fmt.Fprintf(&c, `"k:{\"name\":\"%s\"}":{".":{},"f:args":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}}},`+
			`"f:image":{},"f:imagePullPolicy":{},`+
			`"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":%d,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},`+
			`"f:readinessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}},`+
			`"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:securityContext":{},`+
			`"f:terminationMessagePath":{},"f:terminationMessagePolicy":{},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/app\"}":{".":{},"f:mountPath":{},"f:name":{}}}}`,
			[]string{"server", "proxy", "log-shipper"}[i], 8080+i)
	}
	template := `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:kubectl.kubernetes.io/restartedAt":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},` +
		`"f:labels":{".":{},"f:app.kubernetes.io/component":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/version":{},"f:pod-template-hash":{},"f:team":{}},` +
		`"f:ownerReferences":{".":{},"k:{\"uid\":\"5a9f\"}":{}}},"f:spec":{"f:containers":{` + c.String() + `},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},` +
		`"f:securityContext":{},"f:serviceAccount":{},"f:serviceAccountName":{},"f:terminationGracePeriodSeconds":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}}}}}`
	condition := func(name string) string {
		return `"k:{\"type\":\"` + name + `\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}}`
	}
	status := `{"f:status":{"f:conditions":{` + condition("ContainersReady") + "," + condition("Initialized") + "," + condition("PodReadyToStartContainers") + "," + condition("Ready") +
		`},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:observedGeneration":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.64.0.1\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`
	scheduled := `{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"PodScheduled\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}}}}}`

	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "", created, template),
		entry("kube-scheduler", "status", created, scheduled),
		entry("kubelet", "status", started, status),
	}
}
