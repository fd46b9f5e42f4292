package podconfig

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The closed sets of the v1 API.
var (
	restartPolicies          = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	containerRestartPolicies = []corev1.ContainerRestartPolicy{
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever}
	dnsPolicies        = []corev1.DNSPolicy{corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone}
	taintEffects       = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	protocols          = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	pullPolicies       = []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	messagePolicies    = []corev1.TerminationMessagePolicy{corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError}
	preemptionPolicies = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}
	osNames            = []corev1.OSName{corev1.Linux, corev1.Windows}
	resizeResources    = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	resizePolicies     = []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}
	exitOperators      = []corev1.ContainerRestartRuleOnExitCodesOperator{corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn}
	restartActions     = []corev1.ContainerRestartRuleAction{corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers}
	propagations       = []corev1.MountPropagationMode{corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional}
	recursiveModes     = []corev1.RecursiveReadOnlyMode{corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled}
	schemes            = []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}
)

// containerValidator checks the containers of one pod.
type containerValidator struct {
	volumes sets.Set[string]
	names   sets.Set[string] // of the containers so far
	grace   int64            // the pod's terminationGracePeriodSeconds
	// restart is the pod's restartPolicy.
	restart corev1.RestartPolicy
	// hostUsers says that the containers' users are the host's.
	hostUsers bool
}

// container is what holds for all kinds of containers. Their names are one
// namespace: the runtime, logs and probes know a container by pod and name alone.
func (v containerValidator) container(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	switch {
	case c.Name == "":
		errs = append(errs, field.Required(at.Child("name"), ""))
	case v.names.Has(c.Name):
		errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
	default:
		errs = append(errs, invalid(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
		v.names.Insert(c.Name)
	}
	if c.Image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	} else if strings.TrimSpace(c.Image) != c.Image {
		errs = append(errs, field.Invalid(at.Child("image"), c.Image, "must not have leading or trailing whitespace"))
	}
	errs = append(errs, oneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, messagePolicies)...)
	errs = append(errs, oneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, pullPolicies)...)
	errs = append(errs, validatePorts(c.Ports, at.Child("ports"))...)
	errs = append(errs, validateEnv(c.Env, at.Child("env"))...)
	errs = append(errs, validateEnvFrom(c.EnvFrom, at.Child("envFrom"))...)
	errs = append(errs, v.mounts(c, at)...)
	errs = append(errs, validateResources(&c.Resources, at.Child("resources"))...)
	errs = append(errs, validateSecurity(c.SecurityContext, at.Child("securityContext"), v.hostUsers)...)
	errs = append(errs, v.resizePolicy(c.ResizePolicy, at.Child("resizePolicy"))...)
	errs = append(errs, validateRestartRules(c, at)...)
	return errs
}

// resizePolicy is about what a change of the resources of a running container does to it.
func (v containerValidator) resizePolicy(policies []corev1.ContainerResizePolicy, at *field.Path) (errs field.ErrorList) {
	seen := sets.New[corev1.ResourceName]()
	for i, p := range policies {
		at := at.Index(i)
		errs = append(errs, oneOf(at.Child("resourceName"), p.ResourceName, resizeResources)...)
		errs = append(errs, oneOf(at.Child("restartPolicy"), p.RestartPolicy, resizePolicies)...)
		if seen.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(at.Child("resourceName"), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		if v.restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(at.Child("restartPolicy"), p.RestartPolicy, "it must be NotRequired where the pod's restartPolicy is Never"))
		}
	}
	return errs
}

// What the API allows of rules and exit codes.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// validateRestartRules is about what the exit code of a container decides (KEP-5307).
func validateRestartRules(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	if len(c.RestartPolicyRules) == 0 {
		return nil
	}
	if c.RestartPolicy == nil {
		errs = append(errs, field.Required(at.Child("restartPolicy"), "restartPolicyRules are exceptions to it"))
	}
	at = at.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		errs = append(errs, field.TooMany(at, n, maxRestartRules))
	}
	for i, r := range c.RestartPolicyRules {
		at := at.Index(i)
		errs = append(errs, oneOf(at.Child("action"), r.Action, restartActions)...)
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), ""))
			continue
		}
		errs = append(errs, oneOf(at.Child("exitCodes", "operator"), r.ExitCodes.Operator, exitOperators)...)
		if n := len(r.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(at.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
	return errs
}

// initContainer is what holds for init containers beyond that. One that restarts
// always is a sidecar and may have probes.
func (v containerValidator) initContainer(c *corev1.Container, at *field.Path) field.ErrorList {
	// Init containers run one after the other, so that each may have the ports of another.
	errs := validateHostPorts(c, at, sets.New[string](), false)
	if p := c.RestartPolicy; p != nil {
		if *p == corev1.ContainerRestartPolicyAlways {
			return append(errs, v.running(c, at)...)
		}
		errs = append(errs, oneOf(at.Child("restartPolicy"), *p, containerRestartPolicies)...)
	}
	for child, set := range map[string]bool{"lifecycle": c.Lifecycle != nil, "livenessProbe": c.LivenessProbe != nil,
		"readinessProbe": c.ReadinessProbe != nil, "startupProbe": c.StartupProbe != nil} {
		if set {
			errs = append(errs, field.Forbidden(at.Child(child), "may not be set for init containers without restartPolicy=Always"))
		}
	}
	return errs
}

// running is what holds for containers that stay: probes and hooks.
func (v containerValidator) running(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	if l := c.Lifecycle; l != nil {
		for child, h := range map[string]*corev1.LifecycleHandler{"postStart": l.PostStart, "preStop": l.PreStop} {
			if h != nil {
				errs = append(errs, v.handler(at.Child("lifecycle", child), h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep)...)
			}
		}
	}
	for _, p := range []struct {
		child string
		probe *corev1.Probe
		once  bool // one success is success
	}{{"livenessProbe", c.LivenessProbe, true}, {"readinessProbe", c.ReadinessProbe, false}, {"startupProbe", c.StartupProbe, true}} {
		if p.probe == nil {
			continue
		}
		at := at.Child(p.child)
		errs = append(errs, v.handler(at, p.probe.Exec, p.probe.HTTPGet, p.probe.TCPSocket, p.probe.GRPC, nil)...)
		for child, n := range map[string]int32{"initialDelaySeconds": p.probe.InitialDelaySeconds, "timeoutSeconds": p.probe.TimeoutSeconds,
			"periodSeconds": p.probe.PeriodSeconds, "successThreshold": p.probe.SuccessThreshold, "failureThreshold": p.probe.FailureThreshold} {
			errs = append(errs, apivalidation.ValidateNonnegativeField(int64(n), at.Child(child))...)
		}
		// A process that is killed or started by a probe has no state between the two.
		if p.once && p.probe.SuccessThreshold != 1 {
			errs = append(errs, field.Invalid(at.Child("successThreshold"), p.probe.SuccessThreshold, "must be 1"))
		}
		// Readiness kills nothing, so that there is nothing to grant time to.
		if g := p.probe.TerminationGracePeriodSeconds; g != nil && p.child == "readinessProbe" {
			errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *g, "must not be set for readinessProbes"))
		} else if g != nil && *g <= 0 {
			errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
		}
	}
	return errs
}

// handler is what a probe or a hook does: exactly one thing.
func (v containerValidator) handler(at *field.Path, exec *corev1.ExecAction, get *corev1.HTTPGetAction,
	tcp *corev1.TCPSocketAction, grpc *corev1.GRPCAction, sleep *corev1.SleepAction) (errs field.ErrorList) {
	n := 0
	if exec != nil {
		n++
		if len(exec.Command) == 0 {
			errs = append(errs, field.Required(at.Child("exec", "command"), ""))
		}
	}
	if get != nil {
		n++
		errs = append(errs, validatePort(get.Port, at.Child("httpGet", "port"))...)
		errs = append(errs, oneOf(at.Child("httpGet", "scheme"), get.Scheme, schemes)...)
		for _, h := range get.HTTPHeaders {
			errs = append(errs, invalid(at.Child("httpGet", "httpHeaders"), h.Name, validation.IsHTTPHeaderName(h.Name))...)
		}
	}
	if tcp != nil {
		n++
		errs = append(errs, validatePort(tcp.Port, at.Child("tcpSocket", "port"))...)
	}
	if grpc != nil {
		n++
		errs = append(errs, invalid(at.Child("grpc", "port"), grpc.Port, validation.IsValidPortNum(int(grpc.Port)))...)
	}
	if sleep != nil {
		n++
		// A hook that sleeps longer than the pod has left to live would never end by itself.
		if sleep.Seconds < 0 || sleep.Seconds > v.grace {
			errs = append(errs, field.Invalid(at.Child("sleep"), sleep.Seconds,
				fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", v.grace)))
		}
	}
	switch {
	case n == 0:
		errs = append(errs, field.Required(at, "must specify a handler type"))
	case n > 1:
		errs = append(errs, field.Forbidden(at, "may not specify more than 1 handler type"))
	}
	return errs
}

// validatePort is about where a probe or a hook connects to: a number, or the
// name of a port of the container.
func validatePort(p intstr.IntOrString, at *field.Path) field.ErrorList {
	if p.Type == intstr.String {
		return invalid(at, p.StrVal, validation.IsValidPortName(p.StrVal))
	}
	return invalid(at, p.IntVal, validation.IsValidPortNum(int(p.IntVal)))
}

// validatePorts is about the ports of one container. Their names are what probes
// refer to, and have to be one thing each.
func validatePorts(ports []corev1.ContainerPort, at *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	for i, p := range ports {
		at := at.Index(i)
		if p.Name != "" {
			errs = append(errs, invalid(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))...)
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, invalid(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, invalid(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort)))...)
		}
		errs = append(errs, oneOf(at.Child("protocol"), p.Protocol, protocols)...)
	}
	return errs
}

// validateHostPorts is about the ports of the host, of which others may be taken.
func validateHostPorts(c *corev1.Container, at *field.Path, taken sets.Set[string], hostNetwork bool) (errs field.ErrorList) {
	for i, p := range c.Ports {
		at := at.Child("ports").Index(i).Child("hostPort")
		// There is one network: what listens on the container's port does so on the host's.
		if hostNetwork && p.HostPort != p.ContainerPort {
			errs = append(errs, field.Invalid(at, p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
		}
		if p.HostPort == 0 {
			continue
		}
		one := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
		if taken.Has(one) {
			errs = append(errs, field.Duplicate(at, one))
		}
		taken.Insert(one)
	}
	return errs
}

// envFields are the fields of a pod that an environment variable can have.
var envFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}

// validateEnv is about the environment. Names may be nearly anything since
// Kubernetes 1.34 (KEP-4369): what is refused is what no process could read.
func validateEnv(vars []corev1.EnvVar, at *field.Path) (errs field.ErrorList) {
	for i, e := range vars {
		at := at.Index(i)
		if e.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, invalid(at.Child("name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))...)
		}
		from := e.ValueFrom
		if from == nil {
			continue
		}
		at = at.Child("valueFrom")
		// One source and no value: the API has no order in which several would count.
		n := 0
		for _, set := range []bool{from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil,
			from.SecretKeyRef != nil, from.FileKeyRef != nil} {
			if set {
				n++
			}
		}
		switch {
		case n == 0:
			errs = append(errs, field.Invalid(at, "", "must specify one source of the value"))
		case n > 1:
			errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
		case e.Value != "":
			errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
		case from.FieldRef != nil:
			errs = append(errs, validateFieldRef(from.FieldRef, at.Child("fieldRef"), envFields)...)
		case from.ResourceFieldRef != nil:
			errs = append(errs, validateResourceRef(from.ResourceFieldRef, at.Child("resourceFieldRef"))...)
		case from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == "":
			errs = append(errs, field.Required(at.Child("configMapKeyRef", "name"), ""))
		case from.SecretKeyRef != nil && from.SecretKeyRef.Name == "":
			errs = append(errs, field.Required(at.Child("secretKeyRef", "name"), ""))
		}
	}
	return errs
}

// validateEnvFrom is about where whole sets of variables come from. Static pods
// may not have any, but one that names nothing is not a reference.
func validateEnvFrom(from []corev1.EnvFromSource, at *field.Path) (errs field.ErrorList) {
	for i, f := range from {
		at := at.Index(i)
		if f.Prefix != "" {
			errs = append(errs, invalid(at.Child("prefix"), f.Prefix, validation.IsRelaxedEnvVarName(f.Prefix))...)
		}
		switch {
		case (f.ConfigMapRef == nil) == (f.SecretRef == nil):
			errs = append(errs, field.Invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
		case f.ConfigMapRef != nil && f.ConfigMapRef.Name == "":
			errs = append(errs, field.Required(at.Child("configMapRef", "name"), ""))
		case f.SecretRef != nil && f.SecretRef.Name == "":
			errs = append(errs, field.Required(at.Child("secretRef", "name"), ""))
		}
	}
	return errs
}

// validateFieldRef is about a field of the pod; one label or annotation may be
// named by its key in brackets.
func validateFieldRef(f *corev1.ObjectFieldSelector, at *field.Path, known []string) field.ErrorList {
	at = at.Child("fieldPath")
	if f.FieldPath == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	for _, of := range []string{"metadata.annotations", "metadata.labels"} {
		key, ok := strings.CutPrefix(f.FieldPath, of+"['")
		if key, closed := strings.CutSuffix(key, "']"); ok && closed {
			// The API server does not look at the case of an annotation's key here.
			if of == "metadata.annotations" {
				key = strings.ToLower(key)
			}
			return invalid(at, f.FieldPath, validation.IsQualifiedName(key))
		}
	}
	if f.APIVersion != "v1" || !slices.Contains(known, f.FieldPath) {
		return field.ErrorList{field.NotSupported(at, f.FieldPath, known)}
	}
	return nil
}

// validateResourceRef is about a limit or a request of a container.
func validateResourceRef(f *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	of, name, _ := strings.Cut(f.Resource, ".")
	known := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if (of != "limits" && of != "requests") || !known {
		return field.ErrorList{field.NotSupported(at.Child("resource"), f.Resource, []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage",
			"requests.cpu", "requests.memory", "requests.ephemeral-storage"})}
	}
	divisors := byteDivisors
	if name == "cpu" {
		divisors = cpuDivisors
	}
	if d := f.Divisor.String(); !f.Divisor.IsZero() && !slices.Contains(divisors, d) {
		return field.ErrorList{field.NotSupported(at.Child("divisor"), d, divisors)}
	}
	return nil
}

// The units in which a resource can be told.
var (
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// mounts is about the volumes that a container has.
func (v containerValidator) mounts(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	paths := sets.New[string]()
	for i, m := range c.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		switch {
		case m.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !v.volumes.Has(m.Name):
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		} else if paths.Has(m.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		paths.Insert(m.MountPath)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, validateBelow(at.Child("subPath"), m.SubPath)...)
		errs = append(errs, validateBelow(at.Child("subPathExpr"), m.SubPathExpr)...)
		errs = append(errs, validateMountModes(&m, c.SecurityContext, at)...)
	}
	for i, d := range c.VolumeDevices {
		at := at.Child("volumeDevices").Index(i)
		if !v.volumes.Has(d.Name) {
			errs = append(errs, field.NotFound(at.Child("name"), d.Name))
		} else {
			// Only claims have devices, and static pods have no claims.
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
	}
	return errs
}

// validateMountModes: what is mounted later below a volume, and whether it can be written.
func validateMountModes(m *corev1.VolumeMount, s *corev1.SecurityContext, at *field.Path) (errs field.ErrorList) {
	if p := m.MountPropagation; p != nil {
		errs = append(errs, oneOf(at.Child("mountPropagation"), *p, propagations)...)
		// Mounts that reach the host are for who may mount there.
		if *p == corev1.MountPropagationBidirectional && (s == nil || s.Privileged == nil || !*s.Privileged) {
			errs = append(errs, field.Forbidden(at.Child("mountPropagation"), "Bidirectional is only for privileged containers"))
		}
	}
	if r := m.RecursiveReadOnly; r != nil {
		at := at.Child("recursiveReadOnly")
		errs = append(errs, oneOf(at, *r, recursiveModes)...)
		if *r == corev1.RecursiveReadOnlyEnabled || *r == corev1.RecursiveReadOnlyIfPossible {
			if !m.ReadOnly {
				errs = append(errs, field.Forbidden(at, "it is only for readOnly: true"))
			}
			if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
				errs = append(errs, field.Forbidden(at, "it is only for mountPropagation None"))
			}
		}
	}
	return errs
}

// validateBelow is about a path that stays below another one.
func validateBelow(at *field.Path, p string) (errs field.ErrorList) {
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(at, p, "must be a relative path"))
	}
	return append(errs, noBacksteps(at, p)...)
}

// noBacksteps refuses a path that leads out of where it is.
func noBacksteps(at *field.Path, p string) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(at, p, "must not contain '..'")}
	}
	return nil
}
