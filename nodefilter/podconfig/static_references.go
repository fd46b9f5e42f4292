package podconfig

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateReferences refuses what a pod needs the API server for: a static pod
// has to run without one. The rules are those of Kubernetes 1.37
// (pkg/api/pod/util.go, HasAPIObjectReference); all that break them are told, not
// the first alone.
func validateReferences(pod *corev1.Pod) field.ErrorList {
	spec, at := &pod.Spec, field.NewPath("spec")
	var errs field.ErrorList
	refuse := func(at *field.Path, what string) {
		errs = append(errs, field.Forbidden(at, "static pods may not reference "+what))
	}
	if spec.ServiceAccountName != "" {
		refuse(at.Child("serviceAccountName"), "serviceaccounts")
	}
	for i, s := range spec.ImagePullSecrets {
		if s.Name != "" {
			refuse(at.Child("imagePullSecrets").Index(i), "secrets")
		}
	}
	for c, at := range containersOf(spec) {
		refuseEnv(c, at, refuse)
	}
	if len(spec.ResourceClaims) > 0 {
		refuse(at.Child("resourceClaims"), "resourceclaims")
	}
	for i := range spec.Volumes {
		refuseVolume(&spec.Volumes[i].VolumeSource, at.Child("volumes").Index(i), refuse)
	}
	return errs
}

// refuseEnv is about the environment of a container. A reference without a name is
// none, here and in the kubelet; validatePod has something to say about it.
func refuseEnv(c *corev1.Container, at *field.Path, refuse func(at *field.Path, what string)) {
	for i, from := range c.EnvFrom {
		if from.SecretRef != nil && from.SecretRef.Name != "" {
			refuse(at.Child("envFrom").Index(i).Child("secretRef"), "secrets")
		}
		if from.ConfigMapRef != nil && from.ConfigMapRef.Name != "" {
			refuse(at.Child("envFrom").Index(i).Child("configMapRef"), "configmaps")
		}
	}
	for i, env := range c.Env {
		from := env.ValueFrom
		if from == nil {
			continue
		}
		if from.SecretKeyRef != nil && from.SecretKeyRef.Name != "" {
			refuse(at.Child("env").Index(i).Child("valueFrom", "secretKeyRef"), "secrets")
		}
		if from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name != "" {
			refuse(at.Child("env").Index(i).Child("valueFrom", "configMapKeyRef"), "configmaps")
		}
	}
}

// refuseVolume is about one volume: those whose content or credentials the API server has.
func refuseVolume(v *corev1.VolumeSource, at *field.Path, refuse func(at *field.Path, what string)) {
	switch {
	case v.ConfigMap != nil:
		refuse(at.Child("configMap"), "configmaps (via configmap volumes)")
	case v.Secret != nil:
		refuse(at.Child("secret"), "secrets (via secret volumes)")
	case v.CSI != nil:
		refuse(at.Child("csi"), "csidrivers (via CSI volumes)")
	case v.Glusterfs != nil:
		refuse(at.Child("glusterfs"), "endpoints (via glusterFS volumes)")
	case v.PersistentVolumeClaim != nil:
		refuse(at.Child("persistentVolumeClaim"), "persistentvolumeclaims")
	case v.Ephemeral != nil:
		refuse(at.Child("ephemeral"), "persistentvolumeclaims (via ephemeral volumes)")
	case v.AzureFile != nil:
		refuse(at.Child("azureFile"), "secrets (via azureFile volumes)")
	case v.Projected != nil:
		for i, p := range v.Projected.Sources {
			at := at.Child("projected", "sources").Index(i)
			switch {
			case p.ConfigMap != nil:
				refuse(at.Child("configMap"), "configmaps (via projected volumes)")
			case p.Secret != nil:
				refuse(at.Child("secret"), "secrets (via projected volumes)")
			case p.ServiceAccountToken != nil:
				refuse(at.Child("serviceAccountToken"), "serviceaccounts (via projected volumes)")
			case p.ClusterTrustBundle != nil:
				refuse(at.Child("clusterTrustBundle"), "clustertrustbundles")
			case p.PodCertificate != nil:
				refuse(at.Child("podCertificate"), "podcertificates")
			}
		}
	case v.CephFS != nil && named(v.CephFS.SecretRef),
		v.Cinder != nil && named(v.Cinder.SecretRef),
		v.FlexVolume != nil && named(v.FlexVolume.SecretRef),
		v.RBD != nil && named(v.RBD.SecretRef),
		v.ScaleIO != nil && named(v.ScaleIO.SecretRef),
		v.ISCSI != nil && named(v.ISCSI.SecretRef),
		v.StorageOS != nil && named(v.StorageOS.SecretRef):
		refuse(at, "secrets")
	}
}

// named reports whether a reference names something.
func named(ref *corev1.LocalObjectReference) bool { return ref != nil && ref.Name != "" }
