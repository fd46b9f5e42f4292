package listwatchtest

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
)

// authenticate returns the user of a request; ok is false when its token, or
// the lack of one, is not accepted.
func (s *Server) authenticate(r *http.Request) (user string, ok bool) {
	if s.config.Tokens == nil {
		return "system:anonymous", true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	user, ok = s.config.Tokens[strings.TrimSpace(token)]
	return user, ok
}

// authorize returns nil, or what a real server says to a user who may not.
func (s *Server) authorize(r *http.Request, info requestInfo, user string) error {
	if s.config.Authorize == nil || info.gvr.Resource == "" {
		return nil
	}
	a := Access{
		User: user, Verb: info.verb,
		Group: info.gvr.Group, Resource: info.gvr.Resource, Subresource: info.subresource,
		Namespace: info.namespace, Name: info.name, FieldSelector: r.URL.Query().Get("fieldSelector"),
	}
	if s.config.Authorize(a) {
		return nil
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return errors.NewForbidden(info.gvr.GroupResource(), a.Name,
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s", user, a.Verb, resource, a.Group, where))
}
