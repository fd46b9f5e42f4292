package podconfig

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a pod says about where it may run. A static pod is where it is, but its
// mirror pod has all of this, and an API server takes no pod in which it is wrong:
// the pod would run, and nobody could see it.

// validateAffinity: rules about nodes, and about the pods beside this one.
func validateAffinity(a *corev1.Affinity, at *field.Path) (errs field.ErrorList) {
	if a == nil {
		return nil
	}
	if n := a.NodeAffinity; n != nil {
		at := at.Child("nodeAffinity")
		if required := n.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			at := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			if len(required.NodeSelectorTerms) == 0 {
				errs = append(errs, field.Required(at, "must have at least one node selector term"))
			}
			for i := range required.NodeSelectorTerms {
				errs = append(errs, validateNodeTerm(&required.NodeSelectorTerms[i], at.Index(i), true)...)
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			p, at := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
			errs = append(errs, validateWeight(p.Weight, at)...)
			errs = append(errs, validateNodeTerm(&p.Preference, at.Child("preference"), false)...)
		}
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))...)
	}
	return errs
}

// validateNodeTerm is about the labels and fields of a node. Values that no label
// can have are refused where they are required: what is only preferred may find none.
func validateNodeTerm(term *corev1.NodeSelectorTerm, at *field.Path, required bool) (errs field.ErrorList) {
	for i := range term.MatchExpressions {
		r, at := &term.MatchExpressions[i], at.Child("matchExpressions").Index(i)
		n := len(r.Values)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if n == 0 {
				errs = append(errs, field.Required(at.Child("values"), "operators In and NotIn need at least one"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if n > 0 {
				errs = append(errs, field.Forbidden(at.Child("values"), "operators Exists and DoesNotExist have none"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if n != 1 {
				errs = append(errs, field.Required(at.Child("values"), "operators Gt and Lt have exactly one"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "it is no operator of a node selector"))
		}
		errs = append(errs, unversioned.ValidateLabelName(r.Key, at.Child("key"))...)
		if required {
			for j, v := range r.Values {
				errs = append(errs, invalid(at.Child("values").Index(j), v, validation.IsValidLabelValue(v))...)
			}
		}
	}
	for i := range term.MatchFields {
		r, at := &term.MatchFields[i], at.Child("matchFields").Index(i)
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "a field has only In and NotIn"))
		} else if len(r.Values) != 1 {
			errs = append(errs, field.Required(at.Child("values"), "a field has exactly one"))
		}
		if r.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(at.Child("key"), r.Key, "the only field is metadata.name"))
			continue
		}
		for j, v := range r.Values {
			errs = append(errs, invalid(at.Child("values").Index(j), v, apivalidation.NameIsDNSSubdomain(v, false))...)
		}
	}
	return errs
}

func validateWeight(weight int32, at *field.Path) field.ErrorList {
	if weight < 1 || weight > 100 {
		return field.ErrorList{field.Invalid(at.Child("weight"), weight, validation.InclusiveRangeError(1, 100))}
	}
	return nil
}

// validatePodTerms is about the pods that this one wants to be near to, or not.
func validatePodTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) (errs field.ErrorList) {
	for i := range required {
		errs = append(errs, validatePodTerm(&required[i], at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		at := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, validateWeight(preferred[i].Weight, at)...)
		errs = append(errs, validatePodTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

func validatePodTerm(term *corev1.PodAffinityTerm, at *field.Path) (errs field.ErrorList) {
	errs = append(errs, validateSelector(term.LabelSelector, at.Child("labelSelector"))...)
	errs = append(errs, validateSelector(term.NamespaceSelector, at.Child("namespaceSelector"))...)
	for i, ns := range term.Namespaces {
		errs = append(errs, invalid(at.Child("namespaces").Index(i), ns, apivalidation.ValidateNamespaceName(ns, false))...)
	}
	errs = append(errs, validateMatchKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, at)...)
	if term.TopologyKey == "" {
		return append(errs, field.Required(at.Child("topologyKey"), "it says what being near means"))
	}
	return append(errs, unversioned.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
}

func validateSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return unversioned.ValidateLabelSelector(s, unversioned.LabelSelectorValidationOptions{}, at)
}

// validateMatchKeys: the labels of which this pod's values are added to a selector.
func validateMatchKeys(match, mismatch []string, selector *metav1.LabelSelector, at *field.Path) (errs field.ErrorList) {
	for _, list := range []struct {
		child string
		keys  []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		at := at.Child(list.child)
		if len(list.keys) > 0 && selector == nil {
			errs = append(errs, field.Forbidden(at, "there is no labelSelector to add to"))
			continue
		}
		for i, key := range list.keys {
			errs = append(errs, unversioned.ValidateLabelName(key, at.Index(i))...)
		}
	}
	both := sets.New(mismatch...)
	for i, key := range match {
		if both.Has(key) {
			errs = append(errs, field.Invalid(at.Child("matchLabelKeys").Index(i), key, "it is in mismatchLabelKeys, too"))
		}
	}
	return errs
}

var (
	spreadActions  = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	spreadPolicies = []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
)

// validateSpread is about how pods are to be spread over zones and nodes.
func validateSpread(constraints []corev1.TopologySpreadConstraint, at *field.Path) (errs field.ErrorList) {
	kinds := sets.New[string]()
	for i := range constraints {
		c, at := &constraints[i], at.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than 0"))
		}
		errs = append(errs, required(at.Child("topologyKey"), c.TopologyKey)...)
		errs = append(errs, oneOf(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, spreadActions)...)
		// Two of one kind would have to be fulfilled at once, and there is no order between them.
		kind := fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)
		if kinds.Has(kind) {
			errs = append(errs, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), kind))
		}
		kinds.Insert(kind)
		if d := c.MinDomains; d != nil && *d <= 0 {
			errs = append(errs, field.Invalid(at.Child("minDomains"), *d, "must be greater than 0"))
		} else if d != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule {
			errs = append(errs, field.Invalid(at.Child("minDomains"), *d, "it is only for whenUnsatisfiable DoNotSchedule"))
		}
		if p := c.NodeAffinityPolicy; p != nil {
			errs = append(errs, oneOf(at.Child("nodeAffinityPolicy"), *p, spreadPolicies)...)
		}
		if p := c.NodeTaintsPolicy; p != nil {
			errs = append(errs, oneOf(at.Child("nodeTaintsPolicy"), *p, spreadPolicies)...)
		}
		errs = append(errs, validateMatchKeys(c.MatchLabelKeys, nil, c.LabelSelector, at)...)
		errs = append(errs, validateSelector(c.LabelSelector, at.Child("labelSelector"))...)
	}
	return errs
}
