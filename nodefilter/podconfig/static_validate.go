package podconfig

import (
	"iter"
	"math"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePod finds what makes a pod unusable, by the rules of Kubernetes 1.37
// (pkg/apis/core/validation), which a kubelet applies to its static pods as well.
// test/e2e/podsources spoils the values of a manifest one by one and lists what
// the kubelet refuses and this takes. pod has its defaults.
func validatePod(pod *corev1.Pod) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMeta(&pod.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	spec, at := &pod.Spec, field.NewPath("spec")
	volumes, faults := validateVolumes(spec.Volumes, at.Child("volumes"))
	errs = append(errs, faults...)
	v := containerValidator{volumes: volumes, names: sets.New[string](), grace: *spec.TerminationGracePeriodSeconds,
		restart: spec.RestartPolicy, hostUsers: spec.HostUsers == nil || *spec.HostUsers}
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), "a pod has at least one container"))
	}
	hostPorts := sets.New[string]()
	for i := range spec.Containers {
		c, at := &spec.Containers[i], at.Child("containers").Index(i)
		errs = append(errs, validateHostPorts(c, at, hostPorts, spec.HostNetwork)...)
		errs = append(errs, v.container(c, at)...)
		errs = append(errs, v.running(c, at)...)
		if c.RestartPolicy != nil {
			errs = append(errs, oneOf(at.Child("restartPolicy"), *c.RestartPolicy, containerRestartPolicies)...)
		}
	}
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], at.Child("initContainers").Index(i)
		errs = append(errs, v.container(c, at)...)
		errs = append(errs, v.initContainer(c, at)...)
	}
	// They are a subresource, which only a running pod has.
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ephemeralContainers"), "they are added to a running pod through the API server"))
	}
	return append(errs, validateSpec(spec, at)...)
}

// validateSpec is about the pod as a whole.
func validateSpec(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("restartPolicy"), spec.RestartPolicy, restartPolicies)
	errs = append(errs, oneOf(at.Child("dnsPolicy"), spec.DNSPolicy, dnsPolicies)...)
	errs = append(errs, unversioned.ValidateLabels(spec.NodeSelector, at.Child("nodeSelector"))...)
	errs = append(errs, invalid(at.Child("nodeName"), spec.NodeName, validation.IsDNS1123Subdomain(spec.NodeName))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(*spec.TerminationGracePeriodSeconds, at.Child("terminationGracePeriodSeconds"))...)
	for _, name := range []struct{ child, value string }{{"hostname", spec.Hostname}, {"subdomain", spec.Subdomain}} {
		if name.value != "" {
			errs = append(errs, invalid(at.Child(name.child), name.value, validation.IsDNS1123Label(name.value))...)
		}
	}
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.PriorityClassName != "" {
		errs = append(errs, invalid(at.Child("priorityClassName"), spec.PriorityClassName, validation.IsDNS1123Subdomain(spec.PriorityClassName))...)
	}
	if n := spec.RuntimeClassName; n != nil {
		errs = append(errs, invalid(at.Child("runtimeClassName"), *n, validation.IsDNS1123Subdomain(*n))...)
	}
	// The host's processes cannot at once be shared and be nobody's but the pod's.
	if s := spec.ShareProcessNamespace; s != nil && *s && spec.HostPID {
		errs = append(errs, field.Invalid(at.Child("shareProcessNamespace"), *s, "hostPID and shareProcessNamespace cannot both be set"))
	}
	if len(spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(at.Child("schedulingGates"), "a static pod is on its node already"))
	}
	errs = append(errs, validateDNS(spec, at.Child("dnsConfig"))...)
	for i, g := range spec.ReadinessGates {
		errs = append(errs, invalid(at.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType), validation.IsQualifiedName(string(g.ConditionType)))...)
	}
	if p := spec.PreemptionPolicy; p != nil {
		errs = append(errs, oneOf(at.Child("preemptionPolicy"), *p, preemptionPolicies)...)
	}
	if spec.OS != nil {
		errs = append(errs, oneOf(at.Child("os", "name"), spec.OS.Name, osNames)...)
	}
	if users := spec.HostUsers; users != nil && !*users {
		// Users of the pod's own, and the host's processes, would be two answers to one question.
		for child, set := range map[string]bool{"hostNetwork": spec.HostNetwork, "hostPID": spec.HostPID, "hostIPC": spec.HostIPC} {
			if set {
				errs = append(errs, field.Forbidden(at.Child(child), "when hostUsers is false"))
			}
		}
	}
	for i, a := range spec.HostAliases {
		at := at.Child("hostAliases").Index(i)
		errs = append(errs, validateIP(at.Child("ip"), a.IP)...)
		for j, name := range a.Hostnames {
			errs = append(errs, invalid(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	errs = append(errs, validatePodSecurity(spec, at.Child("securityContext"))...)
	errs = append(errs, validateAffinity(spec.Affinity, at.Child("affinity"))...)
	errs = append(errs, validateSpread(spec.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))...)
	for name, q := range spec.Overhead {
		errs = append(errs, validateResourceName(name, at.Child("overhead").Key(string(name)))...)
		errs = append(errs, validateQuantity(name, q, at.Child("overhead").Key(string(name)))...)
	}
	for i := range spec.Tolerations {
		errs = append(errs, validateToleration(&spec.Tolerations[i], at.Child("tolerations").Index(i))...)
	}
	return errs
}

// What a resolver takes.
const (
	maxNameservers    = 3
	maxSearches       = 32
	maxSearchesLength = 2048
)

// validateDNS is about what becomes the containers' resolv.conf.
func validateDNS(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	d := spec.DNSConfig
	if spec.DNSPolicy == corev1.DNSNone && (d == nil || len(d.Nameservers) == 0) {
		return field.ErrorList{field.Required(at.Child("nameservers"), "dnsPolicy None needs at least one")}
	}
	if d == nil {
		return nil
	}
	if len(d.Nameservers) > maxNameservers {
		errs = append(errs, field.TooMany(at.Child("nameservers"), len(d.Nameservers), maxNameservers))
	}
	for i, ns := range d.Nameservers {
		errs = append(errs, validateIP(at.Child("nameservers").Index(i), ns)...)
	}
	if len(d.Searches) > maxSearches {
		errs = append(errs, field.TooMany(at.Child("searches"), len(d.Searches), maxSearches))
	}
	if len(strings.Join(d.Searches, " ")) > maxSearchesLength {
		errs = append(errs, field.TooLong(at.Child("searches"), "", maxSearchesLength))
	}
	for i, s := range d.Searches {
		if s != "." {
			errs = append(errs, invalid(at.Child("searches").Index(i), s, validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(s, ".")))...)
		}
	}
	for i, o := range d.Options {
		errs = append(errs, required(at.Child("options").Index(i).Child("name"), o.Name)...)
	}
	return errs
}

// validateToleration: a static pod is not scheduled, but the taints of its node can
// evict it, which its tolerations prevent.
func validateToleration(t *corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = unversioned.ValidateLabelName(t.Key, at.Child("key"))
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(at.Child("operator"), t.Operator, "it must be Exists where key is empty"))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "it must be NoExecute where tolerationSeconds is set"))
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		errs = append(errs, invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "it must be empty where operator is Exists"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		// A number that does not parse is an error whatever the feature gates say.
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "it must be a whole number"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	if t.Effect != "" {
		errs = append(errs, oneOf(at.Child("effect"), t.Effect, taintEffects)...)
	}
	return errs
}

// validateIP takes what the resolver of a container could use.
func validateIP(at *field.Path, ip string) field.ErrorList {
	// Leading zeros, which older versions of the API took, are not refused.
	trimmed := ip
	if strings.Count(ip, ".") == 3 && !strings.Contains(ip, ":") {
		parts := strings.Split(ip, ".")
		for i, p := range parts {
			parts[i] = strings.TrimLeft(p[:max(len(p)-1, 0)], "0") + p[max(len(p)-1, 0):]
		}
		trimmed = strings.Join(parts, ".")
	}
	if addr, err := netip.ParseAddr(trimmed); err != nil || addr.Zone() != "" {
		return field.ErrorList{field.Invalid(at, ip, "it must be an IP address, such as 10.9.8.7 or 2001:db8::1")}
	}
	return nil
}

// containersOf are the containers of a spec with their paths: the regular, the
// init and the ephemeral ones.
func containersOf(spec *corev1.PodSpec) iter.Seq2[*corev1.Container, *field.Path] {
	at := field.NewPath("spec")
	return func(yield func(*corev1.Container, *field.Path) bool) {
		for i := range spec.InitContainers {
			if !yield(&spec.InitContainers[i], at.Child("initContainers").Index(i)) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i], at.Child("containers").Index(i)) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			c := (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(c, at.Child("ephemeralContainers").Index(i)) {
				return
			}
		}
	}
}

// invalid makes an error of each complaint about a value.
func invalid(at *field.Path, value any, complaints []string) (errs field.ErrorList) {
	for _, c := range complaints {
		errs = append(errs, field.Invalid(at, value, c))
	}
	return errs
}

// oneOf is an error for a value that is not in a set.
func oneOf[T ~string](at *field.Path, value T, set []T) field.ErrorList {
	for _, v := range set {
		if v == value {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(at, value, set)}
}
