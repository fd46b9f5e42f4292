package podconfig

import (
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// setPodDefaults sets what the v1 API sets in a pod that does not say it
// (Kubernetes 1.37, pkg/apis/core/v1/defaults.go, with the feature gates as
// released). The testdata in testdata/static has what the kubelet's own package
// makes of the same manifests.
func setPodDefaults(pod *corev1.Pod) {
	spec := &pod.Spec
	// A negative grace period is one second, for the sake of objects from before it was refused.
	if g := spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	orSet(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	// The deprecated name of the field and the new one are kept the same.
	orText(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	orText(&spec.DNSPolicy, corev1.DNSClusterFirst)
	orText(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	orText(&spec.SchedulerName, corev1.DefaultSchedulerName)
	orSet(&spec.SecurityContext, corev1.PodSecurityContext{})
	orSet(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)

	for i := range spec.Volumes {
		setVolumeDefaults(&spec.Volumes[i].VolumeSource)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			requestLimits(&c.Resources)
			// There is one network, so that the host's port is the container's.
			if spec.HostNetwork {
				for j := range c.Ports {
					orNumber(&c.Ports[j].HostPort, c.Ports[j].ContainerPort)
				}
			}
			setContainerDefaults(c)
		}
	}
	for i := range spec.EphemeralContainers {
		setContainerDefaults((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
	setStatusDefaults(&pod.Status)
}

// setContainerDefaults is for containers of all kinds.
func setContainerDefaults(c *corev1.Container) {
	orText(&c.ImagePullPolicy, pullPolicy(c.Image))
	orText(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	orText(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		orText(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			setFieldDefaults(from.FieldRef)
			if from.FileKeyRef != nil {
				orSet(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		orNumber(&p.TimeoutSeconds, 1)
		orNumber(&p.PeriodSeconds, 10)
		orNumber(&p.SuccessThreshold, 1)
		orNumber(&p.FailureThreshold, 3)
		setHTTPGetDefaults(p.HTTPGet)
		if p.GRPC != nil {
			orSet(&p.GRPC.Service, "")
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				setHTTPGetDefaults(h.HTTPGet)
			}
		}
	}
}

// setVolumeDefaults also makes an emptyDir of a volume that says nothing.
func setVolumeDefaults(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Image != nil {
		orText(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.HostPath != nil {
		orSet(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.DownwardAPI != nil {
		orSet(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		setItemDefaults(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		orSet(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for _, p := range v.Projected.Sources {
			if p.DownwardAPI != nil {
				setItemDefaults(p.DownwardAPI.Items)
			}
			if p.ServiceAccountToken != nil {
				orSet(&p.ServiceAccountToken.ExpirationSeconds, int64(time.Hour/time.Second))
			}
		}
	}
	if v.Secret != nil {
		orSet(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		orSet(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	setStorageDefaults(v)
}

// setStorageDefaults is for volumes of storage systems.
func setStorageDefaults(v *corev1.VolumeSource) {
	if v.ISCSI != nil {
		orText(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		orText(&v.RBD.RBDPool, "rbd")
		orText(&v.RBD.RadosUser, "admin")
		orText(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.AzureDisk != nil {
		orSet(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		orSet(&v.AzureDisk.FSType, "ext4")
		orSet(&v.AzureDisk.ReadOnly, false)
		orSet(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
	}
	if v.ScaleIO != nil {
		orText(&v.ScaleIO.StorageMode, "ThinProvisioned")
		orText(&v.ScaleIO.FSType, "xfs")
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		orSet(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	}
}

// setItemDefaults is for the files of the downward API.
func setItemDefaults(items []corev1.DownwardAPIVolumeFile) {
	for _, item := range items {
		setFieldDefaults(item.FieldRef)
	}
}

// setFieldDefaults: a field's path is one of the v1 API.
func setFieldDefaults(f *corev1.ObjectFieldSelector) {
	if f != nil {
		orText(&f.APIVersion, "v1")
	}
}

// setHTTPGetDefaults is for probes and for hooks.
func setHTTPGetDefaults(g *corev1.HTTPGetAction) {
	if g != nil {
		orText(&g.Path, "/")
		orText(&g.Scheme, corev1.URISchemeHTTP)
	}
}

// setStatusDefaults keeps the one IP and the list of them the same. A status in
// a manifest has no effect on a node, but it is a part of the pod.
func setStatusDefaults(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

// pullPolicy is Always for the tag latest, which an image without tag and digest
// has, too. An image that is no reference is not pulled by any policy.
func pullPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// requestLimits requests what is limited, where no request is written.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = make(corev1.ResourceList, len(r.Limits))
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// roundUp makes quantities whole thousandths.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// orText sets a text that is empty.
func orText[T ~string](at *T, value T) {
	if *at == "" {
		*at = value
	}
}

// orNumber sets a number that is 0.
func orNumber(at *int32, value int32) {
	if *at == 0 {
		*at = value
	}
}

// orSet sets a pointer that is nil.
func orSet[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}
