package podconfig

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	seccompTypes       = []corev1.SeccompProfileType{corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined}
	appArmorTypes      = []corev1.AppArmorProfileType{corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined}
	ownerPolicies      = []corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways}
	supplementPolicies = []corev1.SupplementalGroupsPolicy{corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict}
	procMounts         = []corev1.ProcMountType{corev1.DefaultProcMount, corev1.UnmaskedProcMount}
)

// validatePodSecurity is about all containers of a pod.
func validatePodSecurity(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	s := spec.SecurityContext
	if s == nil {
		return nil
	}
	errs := validateIDs(at, s.RunAsUser, s.RunAsGroup)
	errs = append(errs, validateSeccomp(s.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(s.AppArmorProfile, at.Child("appArmorProfile"))...)
	if s.FSGroup != nil {
		errs = append(errs, invalid(at.Child("fsGroup"), *s.FSGroup, validation.IsValidGroupID(*s.FSGroup))...)
	}
	for i, id := range s.SupplementalGroups {
		errs = append(errs, invalid(at.Child("supplementalGroups").Index(i), id, validation.IsValidGroupID(id))...)
	}
	if p := s.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOf(at.Child("fsGroupChangePolicy"), *p, ownerPolicies)...)
	}
	if p := s.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(at.Child("supplementalGroupsPolicy"), *p, supplementPolicies)...)
	}
	return append(errs, validateSysctls(spec, at.Child("sysctls"))...)
}

// sysctlName is a name of the kernel with dots or slashes between its parts.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// sysctlLimit is how long such a name may be.
const sysctlLimit = 253

// validateSysctls: a pod sets what is its own. Where it has the network or the IPC
// of the host, setting theirs would change the host.
func validateSysctls(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	for i, s := range spec.SecurityContext.Sysctls {
		at := at.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(at, ""))
		case len(s.Name) > sysctlLimit || !sysctlName.MatchString(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, "it must be a name such as net.core.somaxconn, of at most 253 characters"))
		case names.Has(s.Name):
			errs = append(errs, field.Duplicate(at, s.Name))
		case spec.HostNetwork && isNetSysctl(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, "it is the host's where hostNetwork is true"))
		case spec.HostIPC && isIPCSysctl(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, "it is the host's where hostIPC is true"))
		}
		names.Insert(s.Name)
	}
	return errs
}

func isNetSysctl(name string) bool { return strings.HasPrefix(dotted(name), "net.") }

// isIPCSysctl: see ipc_namespaces(7).
func isIPCSysctl(name string) bool {
	name = dotted(name)
	return strings.HasPrefix(name, "fs.mqueue.") || slices.Contains([]string{"kernel.sem",
		"kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced",
		"kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"}, name)
}

// dotted is a sysctl's name with dots between its parts. What comes first, a dot or a
// slash, is what separates; the other is part of a name, as in that of an interface.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// validateSecurity is about one container.
func validateSecurity(s *corev1.SecurityContext, at *field.Path, hostUsers bool) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := validateIDs(at, s.RunAsUser, s.RunAsGroup)
	errs = append(errs, validateSeccomp(s.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(s.AppArmorProfile, at.Child("appArmorProfile"))...)
	if p := s.ProcMount; p != nil {
		if errs = append(errs, oneOf(at.Child("procMount"), *p, procMounts)...); hostUsers && *p == corev1.UnmaskedProcMount {
			errs = append(errs, field.Invalid(at.Child("procMount"), *p, "it needs hostUsers: false"))
		}
	}
	if a := s.AllowPrivilegeEscalation; a != nil && !*a {
		if s.Privileged != nil && *s.Privileged {
			errs = append(errs, field.Invalid(at, "privileged", "cannot set allowPrivilegeEscalation to false and privileged to true"))
		}
		if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(at, "CAP_SYS_ADMIN", "cannot set allowPrivilegeEscalation to false and add CAP_SYS_ADMIN"))
		}
	}
	return errs
}

// validateIDs is about the user and the group that a process runs as.
func validateIDs(at *field.Path, user, group *int64) (errs field.ErrorList) {
	if user != nil {
		errs = append(errs, invalid(at.Child("runAsUser"), *user, validation.IsValidUserID(*user))...)
	}
	if group != nil {
		errs = append(errs, invalid(at.Child("runAsGroup"), *group, validation.IsValidGroupID(*group))...)
	}
	return errs
}

// validateSeccomp: a profile on the node has a path, and the others have none.
func validateSeccomp(p *corev1.SeccompProfile, at *field.Path) field.ErrorList {
	switch {
	case p == nil:
		return nil
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile == nil:
		return field.ErrorList{field.Required(at.Child("localhostProfile"), "must be set when seccomp type is Localhost")}
	case p.Type == corev1.SeccompProfileTypeLocalhost:
		return validateBelow(at.Child("localhostProfile"), *p.LocalhostProfile)
	case p.LocalhostProfile != nil:
		return field.ErrorList{field.Invalid(at.Child("localhostProfile"), *p.LocalhostProfile, "may only be set when seccomp type is Localhost")}
	}
	return oneOf(at.Child("type"), p.Type, seccompTypes)
}

// pathLimit is the longest path of Linux.
const pathLimit = 4095

// validateAppArmor: as a seccomp profile, but by a name that the node has loaded.
func validateAppArmor(p *corev1.AppArmorProfile, at *field.Path) field.ErrorList {
	switch {
	case p == nil:
		return nil
	case p.Type == "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || *p.LocalhostProfile == ""):
		return field.ErrorList{field.Required(at.Child("localhostProfile"), "must be set when AppArmor type is Localhost")}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile:
		return field.ErrorList{field.Invalid(at.Child("localhostProfile"), *p.LocalhostProfile, "must not have leading or trailing whitespace")}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && len(*p.LocalhostProfile) > pathLimit:
		return field.ErrorList{field.TooLong(at.Child("localhostProfile"), "", pathLimit)}
	case p.Type != corev1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		return field.ErrorList{field.Invalid(at.Child("localhostProfile"), *p.LocalhostProfile, "may only be set when AppArmor type is Localhost")}
	}
	return oneOf(at.Child("type"), p.Type, appArmorTypes)
}
