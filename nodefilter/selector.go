package nodefilter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeNameField is the field of a pod that names its node. API servers can
// select pods by it.
const NodeNameField = "spec.nodeName"

// OnNode returns the field selector for the pods of one node, narrowed further
// by others; nil and empty selectors among them are ignored. What others say
// about spec.nodeName is dropped where the scope implies it.
//
// It is an error when name is empty or is no node name (see ValidateNodeName),
// when another selector excludes the node, since no pod could match both, and
// when another selector matches nothing, which a request cannot express.
func OnNode(name string, others ...fields.Selector) (fields.Selector, error) {
	s, err := onNode(name, others...)
	return s, named(err)
}

// named puts the package's name in front of an error. All errors of exported
// functions are made so, once: a program that tells its user something else
// shows what errors.Unwrap returns.
func named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("nodefilter: %w", err)
}

func onNode(name string, others ...fields.Selector) (fields.Selector, error) {
	if err := validateNodeName(name); err != nil {
		return nil, err
	}
	and := []fields.Selector{fields.OneTermEqualSelector(NodeNameField, name)}
	for _, other := range others {
		if other == nil || other.Empty() {
			continue
		}
		rest, err := narrow(name, other)
		if err != nil {
			return nil, err
		}
		if !rest.Empty() {
			and = append(and, rest)
		}
	}
	return fields.AndSelectors(and...), nil
}

// OnNodes returns one selector for each of names, as OnNode makes it, in the
// order of names and without duplicates: field selectors have no OR, so the pods of
// several nodes are several collections. No names at all is an error.
func OnNodes(names []string, others ...fields.Selector) ([]fields.Selector, error) {
	if len(names) == 0 {
		return nil, named(errNoNode)
	}
	var out []fields.Selector
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		s, err := OnNode(name, others...)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// errNoNode names both ways in which a node agent learns its node.
var errNoNode = errors.New("the node name is empty: set it, such as Config.Node; a pod learns it from an environment variable with the field spec.nodeName (downward API)")

// ValidateNodeName returns an error that says what to do when name cannot be
// the name of a node. Node names are DNS-1123 subdomains: at most 253
// lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit.
func ValidateNodeName(name string) error { return named(validateNodeName(name)) }

func validateNodeName(name string) error {
	if name == "" {
		return errNoNode
	}
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return fmt.Errorf("%q is not a node name: %s; kubectl get nodes lists the names", shorten(name), strings.Join(faults, "; "))
	}
	return nil
}

// narrow returns what s adds to the scope of the node, or an error when no pod
// of the node can match s.
func narrow(node string, s fields.Selector) (fields.Selector, error) {
	reqs := s.Requirements()
	if len(reqs) == 0 {
		// fields.Nothing, whose text is empty: sent to a server it would select everything.
		return nil, errors.New("a field selector matches nothing, which a request cannot say: leave out the selector, or the request")
	}
	for _, r := range reqs {
		if r.Field != NodeNameField {
			continue
		}
		if equal := r.Operator != selection.NotEquals; equal != (r.Value == node) {
			return nil, fmt.Errorf("the field selector %q contradicts the node %q: remove its term on %s, or name the other node",
				shorten(s.String()), node, NodeNameField)
		}
	}
	return s.Transform(func(field, value string) (string, string, error) {
		if field == NodeNameField {
			return "", "", nil // implied by the scope; empty means: leave the term out
		}
		return field, value, nil
	})
}

// shorten keeps a text that came from outside from filling an error message.
func shorten(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
