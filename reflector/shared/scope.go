package shared

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodewatch-go/nodewatch/listwatch/shard"
)

// Scope names a collection. Only Resource must be set; see listwatch.Config for the others.
type Scope struct {
	Resource      schema.GroupVersionResource
	Namespace     string
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	Shard         shard.Shard
}

// String is for logs and errors, and begins the name of the reflector: "pods of default, app=web, spec.nodeName=a".
func (s Scope) String() string {
	words := []string{s.Resource.GroupResource().String()}
	if s.Namespace != "" {
		words[0] += " of " + s.Namespace
	}
	k := s.key()
	for _, word := range []string{k.labels, k.fields} {
		if word != "" {
			words = append(words, word)
		}
	}
	if !s.Shard.Whole() {
		words = append(words, s.Shard.String())
	}
	return strings.Join(words, ", ")
}

// maxName is how long a reflector's name is at most, in bytes: each of its metric series has it, and each line of its
// log.
const maxName = 120

// name is String for a reflector: what is too long is cut, and ends in a sum of the whole that keeps it apart from what
// begins alike. It is the same in each process.
func (s Scope) name() string {
	whole := s.String()
	if len(whole) <= maxName {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	end := fmt.Sprintf("... %x", sum[:4])
	return strings.ToValidUTF8(whole[:maxName-len(end)], "") + end // a letter may have been cut in two
}

// key is a normal Scope that can be compared.
type key struct {
	resource                  schema.GroupVersionResource
	namespace, labels, fields string
	shard                     shard.Shard
}

func (s Scope) key() key {
	k := key{resource: s.Resource, namespace: s.Namespace, shard: s.Shard}
	if s.LabelSelector != nil {
		k.labels = s.LabelSelector.String()
	}
	if s.FieldSelector != nil {
		k.fields = s.FieldSelector.String()
	}
	return k
}

// normal returns the same collection in the one form that all have who mean it, so that a request
// does not show who came first either.
func (s Scope) normal() Scope {
	s.LabelSelector, s.FieldSelector = normalLabels(s.LabelSelector), normalFields(s.FieldSelector)
	if s.Shard.Validate() == nil && s.Shard.Whole() {
		s.Shard = shard.Shard{}
	}
	return s
}

// validate refuses a normal Scope that selects nothing. It has the key of everything, since such a selector
// prints as "".
func (s Scope) validate() error {
	k := s.key()
	switch {
	case s.LabelSelector != nil && k.labels == "":
		return errors.New("LabelSelector selects nothing; there is nothing to watch")
	case s.FieldSelector != nil && k.fields == "":
		return errors.New("FieldSelector selects nothing; there is nothing to watch")
	}
	return nil
}

// normalLabels leaves alone what selects nothing: it is refused later.
func normalLabels(s labels.Selector) labels.Selector {
	if s == nil {
		return nil
	}
	requirements, selectable := s.Requirements()
	if !selectable {
		return s
	}
	var out []labels.Requirement
	for _, r := range requirements {
		operator, values := r.Operator(), r.Values().List()
		switch {
		case operator == selection.DoubleEquals, operator == selection.In && len(values) == 1:
			operator = selection.Equals
		case operator == selection.NotIn && len(values) == 1:
			operator = selection.NotEquals
		}
		if same, err := labels.NewRequirement(r.Key(), operator, values); err == nil {
			r = *same
		}
		out = append(out, r)
	}
	compare := func(a, b labels.Requirement) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(out, compare)
	out = slices.CompactFunc(out, func(a, b labels.Requirement) bool { return compare(a, b) == 0 })
	if len(out) == 0 {
		return nil
	}
	return labels.NewSelector().Add(out...)
}

func normalFields(s fields.Selector) fields.Selector {
	if s == nil || s.Empty() {
		return nil
	}
	var out []fields.Selector
	for _, r := range s.Requirements() {
		switch r.Operator {
		case selection.Equals, selection.DoubleEquals:
			out = append(out, fields.OneTermEqualSelector(r.Field, r.Value))
		case selection.NotEquals:
			out = append(out, fields.OneTermNotEqualSelector(r.Field, r.Value))
		default:
			return s // a selector that is not apimachinery's
		}
	}
	if len(out) == 0 {
		return s // it selects nothing, and is refused later
	}
	compare := func(a, b fields.Selector) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(out, compare)
	return fields.AndSelectors(slices.CompactFunc(out, func(a, b fields.Selector) bool { return compare(a, b) == 0 })...)
}
