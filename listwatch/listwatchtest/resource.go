package listwatchtest

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtin returns the resources that every server has.
func builtin() []Resource {
	core := func(name, kind string, namespaced bool, f func(Object) fields.Set, short ...string) Resource {
		return Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource(name),
			Kind:                 kind, Namespaced: namespaced, Fields: f, ShortNames: short,
		}
	}
	return []Resource{
		core("configmaps", "ConfigMap", true, nil, "cm"),
		core("events", "Event", true, eventFields, "ev"),
		core("namespaces", "Namespace", false, func(o Object) fields.Set {
			return fields.Set{"status.phase": string(o.(*corev1.Namespace).Status.Phase)}
		}, "ns"),
		core("nodes", "Node", false, func(o Object) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(o.(*corev1.Node).Spec.Unschedulable)}
		}, "no"),
		core("pods", "Pod", true, podFields, "po"),
		core("secrets", "Secret", true, func(o Object) fields.Set {
			return fields.Set{"type": string(o.(*corev1.Secret).Type)}
		}),
		core("services", "Service", true, func(o Object) fields.Set {
			s := o.(*corev1.Service)
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		}, "svc"),
	}
}

func podFields(o Object) fields.Set {
	pod := o.(*corev1.Pod)
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             ip,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

func eventFields(o Object) fields.Set {
	ev := o.(*corev1.Event)
	return fields.Set{
		"involvedObject.kind":      ev.InvolvedObject.Kind,
		"involvedObject.namespace": ev.InvolvedObject.Namespace,
		"involvedObject.name":      ev.InvolvedObject.Name,
		"involvedObject.uid":       string(ev.InvolvedObject.UID),
		"reason":                   ev.Reason,
		"type":                     ev.Type,
	}
}

// resource is a Resource with what the server derives from it. Immutable.
type resource struct {
	Resource
	scheme *runtime.Scheme
	typed  bool            // the scheme has a Go type for it, so it can be protobuf
	labels map[string]bool // the field labels that selectors may use
}

func newResource(r Resource, scheme *runtime.Scheme) *resource {
	res := &resource{Resource: r, scheme: scheme, typed: scheme.Recognizes(r.GroupVersion().WithKind(r.Kind))}
	res.labels = map[string]bool{"metadata.name": true}
	if r.Namespaced {
		res.labels["metadata.namespace"] = true
	}
	if r.Fields != nil {
		for label := range r.Fields(res.newObject()) {
			res.labels[label] = true
		}
	}
	return res
}

func (r *resource) gvk() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

// newObject returns an empty object, with its kind set only where it is unstructured.
func (r *resource) newObject() Object {
	if !r.typed {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(r.gvk())
		return u
	}
	obj, err := r.scheme.New(r.gvk())
	if err != nil {
		panic(fmt.Sprintf("listwatchtest: the scheme recognizes %s and cannot make one: %v", r.gvk(), err))
	}
	return obj.(Object)
}

// internalType is the Go type that a real server has of the kind, which it
// names in some errors.
func (r *resource) internalType() string {
	if !r.typed {
		return "*unstructured.Unstructured"
	}
	pkg, _, _ := strings.Cut(r.Group, ".")
	if pkg == "" {
		pkg = "core"
	}
	return "*" + pkg + "." + r.Kind
}

// hasStatus reports whether the resource's kind has a status, and so a status
// subresource.
func (r *resource) hasStatus() bool {
	if !r.typed {
		return true
	}
	_, ok := reflect.TypeOf(r.newObject()).Elem().FieldByName("Status")
	return ok
}

// key is where an object stands in its collection; keys sort as etcd's do.
func (r *resource) key(namespace, name string) string {
	if r.Namespaced {
		return "/" + namespace + "/" + name
	}
	return "/" + name
}

// convertLabel is the rule of field selectors: which labels they may use, and
// what the server says of others.
func (r *resource) convertLabel(label, value string) (string, string, error) {
	if r.Kind == "Pod" && r.Group == "" && label == "spec.host" { // the name of the field before v1
		label = "spec.nodeName"
	}
	switch {
	case r.labels[label]:
		return label, value, nil
	case r.Fields == nil:
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	default:
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}

// fieldSet returns the values that field selectors are matched against.
func (r *resource) fieldSet(o Object) fields.Set {
	set := fields.Set{}
	if r.Fields != nil {
		for label, value := range r.Fields(o) {
			set[label] = value
		}
	}
	set["metadata.name"] = o.GetName()
	if r.Namespaced {
		set["metadata.namespace"] = o.GetNamespace()
	}
	return set
}
