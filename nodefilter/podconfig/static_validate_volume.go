package podconfig

import (
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes returns the names that containers can mount.
func validateVolumes(volumes []corev1.Volume, at *field.Path) (sets.Set[string], field.ErrorList) {
	names := sets.New[string]()
	var errs field.ErrorList
	for i := range volumes {
		v, at := &volumes[i], at.Index(i)
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names.Has(v.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		default:
			errs = append(errs, invalid(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))...)
		}
		// Also where it is bad: one fault is enough, and a mount that finds no volume would be another.
		names.Insert(v.Name)
		errs = append(errs, validateVolume(&v.VolumeSource, at)...)
	}
	return names, errs
}

var hostPathTypes = []corev1.HostPathType{corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
	corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev}

// volumeFields are the fields of a pod that a file of a volume can have.
var volumeFields = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}

// validateVolume checks that there is one source, and what of it a node can use
// without the API server.
func validateVolume(v *corev1.VolumeSource, at *field.Path) (errs field.ErrorList) {
	// None is not possible: setPodDefaults has made an emptyDir of it.
	if n := countSet(v); n != 1 {
		errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type"))
	}
	if h := v.HostPath; h != nil {
		at := at.Child("hostPath")
		errs = append(errs, required(at.Child("path"), h.Path)...)
		errs = append(errs, noBacksteps(at.Child("path"), h.Path)...)
		errs = append(errs, oneOf(at.Child("type"), *h.Type, hostPathTypes)...)
	}
	if e := v.EmptyDir; e != nil && e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		errs = append(errs, field.Forbidden(at.Child("emptyDir", "sizeLimit"), "must not be negative"))
	}
	if n := v.NFS; n != nil {
		errs = append(errs, required(at.Child("nfs", "server"), n.Server)...)
		if n.Path == "" || n.Path[0] != '/' {
			errs = append(errs, field.Invalid(at.Child("nfs", "path"), n.Path, "must be an absolute path"))
		}
	}
	if s := v.ISCSI; s != nil {
		at := at.Child("iscsi")
		errs = append(errs, required(at.Child("targetPortal"), s.TargetPortal)...)
		errs = append(errs, validateIQN(s.IQN, at.Child("iqn"))...)
		if s.Lun < 0 || s.Lun > 255 {
			errs = append(errs, field.Invalid(at.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255)))
		}
	}
	if r := v.RBD; r != nil {
		errs = append(errs, required(at.Child("rbd", "monitors"), strings.Join(r.CephMonitors, ""))...)
		errs = append(errs, required(at.Child("rbd", "image"), r.RBDImage)...)
	}
	if d := v.DownwardAPI; d != nil {
		errs = append(errs, validateMode(d.DefaultMode, at.Child("downwardAPI", "defaultMode"))...)
		errs = append(errs, validateItems(d.Items, at.Child("downwardAPI", "items"))...)
	}
	if p := v.Projected; p != nil {
		errs = append(errs, validateMode(p.DefaultMode, at.Child("projected", "defaultMode"))...)
		paths := sets.New[string]()
		for i := range p.Sources {
			at := at.Child("projected", "sources").Index(i)
			switch n := countSet(&p.Sources[i]); {
			case n == 0:
				errs = append(errs, field.Required(at, "must specify a source"))
			case n > 1:
				errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
			}
			if d := p.Sources[i].DownwardAPI; d != nil {
				errs = append(errs, validateItems(d.Items, at.Child("downwardAPI", "items"))...)
				for j, item := range d.Items {
					if item.Path != "" && paths.Has(item.Path) {
						errs = append(errs, field.Duplicate(at.Child("downwardAPI", "items").Index(j).Child("path"), item.Path))
					}
					paths.Insert(item.Path)
				}
			}
		}
	}
	return errs
}

// The three forms of the name of an iSCSI node (RFC 3720, 3.2.6.3).
var (
	iqnForm = regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.[[:alnum:].-]+:[^,;*&$|\s]+$`)
	euiForm = regexp.MustCompile(`^eui.[[:alnum:]]{16}$`)
	naaForm = regexp.MustCompile(`^naa.[[:alnum:]]{32}$`)
)

func validateIQN(name string, at *field.Path) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "")}
	case iqnForm.MatchString(name), euiForm.MatchString(name), naaForm.MatchString(name):
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "it must be a name such as iqn.2001-04.com.example:disk, or one that begins with eui. or naa.")}
}

// validateItems is about the files that a volume of the downward API has: paths
// below the volume, each with one field of the pod.
func validateItems(items []corev1.DownwardAPIVolumeFile, at *field.Path) (errs field.ErrorList) {
	for i, item := range items {
		at := at.Index(i)
		errs = append(errs, required(at.Child("path"), item.Path)...)
		errs = append(errs, validateBelow(at.Child("path"), item.Path)...)
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
		switch {
		case item.FieldRef != nil && item.ResourceFieldRef != nil:
			errs = append(errs, field.Invalid(at, "", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		case item.FieldRef != nil:
			errs = append(errs, validateFieldRef(item.FieldRef, at.Child("fieldRef"), volumeFields)...)
		case item.ResourceFieldRef != nil:
			errs = append(errs, required(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName)...)
			errs = append(errs, validateResourceRef(item.ResourceFieldRef, at.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(at.Child("fieldRef"), "one of fieldRef and resourceFieldRef is required"))
		}
	}
	return errs
}

// required is an error for a text that is empty.
func required(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// validateMode is about the permissions of a file.
func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

// countSet counts the pointers of a struct that are set.
func countSet[T any](s *T) (n int) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			n++
		}
	}
	return n
}

// validateResources is about the requests and limits of a container.
func validateResources(r *corev1.ResourceRequirements, at *field.Path) (errs field.ErrorList) {
	for name, q := range r.Limits {
		at := at.Child("limits").Key(string(name))
		errs = append(errs, validateResourceName(name, at)...)
		errs = append(errs, validateQuantity(name, q, at)...)
	}
	for name, q := range r.Requests {
		at := at.Child("requests")
		errs = append(errs, validateResourceName(name, at.Key(string(name)))...)
		errs = append(errs, validateQuantity(name, q, at.Key(string(name)))...)
		// What cannot be overcommitted (huge pages, devices) is requested and limited alike.
		limit, limited := r.Limits[name]
		switch {
		case !limited && !overcommits(name):
			errs = append(errs, field.Required(at.Key(string(name)), "a limit must be set for resources that cannot be overcommitted"))
		case limited && !overcommits(name) && q.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at.Key(string(name)), q.String(), "must be equal to the limit of "+limit.String()))
		case limited && q.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at.Key(string(name)), q.String(), "must be less than or equal to the limit of "+limit.String()))
		}
	}
	huge, paged := false, false // huge pages, and the CPU or memory that use them
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			huge = huge || isHugePages(name)
			paged = paged || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}
	}
	if huge && !paged {
		errs = append(errs, field.Forbidden(at, "huge pages require cpu or memory"))
	}
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(at.Child("claims"), "static pods may not reference resourceclaims"))
	}
	return errs
}

// validateResourceName is about a name without a domain, of which containers can
// have few, or an extended resource with one.
func validateResourceName(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := invalid(at, string(name), validation.IsQualifiedName(string(name))); len(errs) > 0 {
		return errs
	}
	if strings.Contains(string(name), "/") {
		if strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
			return field.ErrorList{field.Invalid(at, string(name), "doesn't follow extended resource name standard")}
		}
		return nil
	}
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return nil
	}
	if isHugePages(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, string(name), "must be a standard resource for containers")}
}

// validateQuantity: not less than nothing, and of a device not a part.
func validateQuantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be greater than or equal to 0"))
	}
	if isExtended(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
	}
	return errs
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isExtended reports whether a resource has a domain other than Kubernetes' own.
func isExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// overcommits reports whether more of a resource may be limited than there is.
func overcommits(name corev1.ResourceName) bool { return !isExtended(name) && !isHugePages(name) }
