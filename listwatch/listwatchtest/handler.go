package listwatchtest

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// requestInfo is what a path and a method say.
type requestInfo struct {
	gvr             schema.GroupVersionResource // Resource is empty when the path is none
	namespace, name string
	subresource     string
	verb            string
}

// parseRequest reads the path of a request:
// /api/v1 or /apis/GROUP/VERSION, then [/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]].
func parseRequest(r *http.Request) requestInfo {
	info := requestInfo{verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		info.gvr.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		info.gvr.Group, info.gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return info
	}
	// What follows /namespaces/NAME is either a resource in it, or a
	// subresource of the namespace itself.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		info.namespace, parts = parts[1], parts[2:]
	}
	info.gvr.Resource = parts[0]
	if len(parts) > 1 {
		info.name = parts[1]
	}
	if len(parts) > 2 {
		info.subresource = strings.Join(parts[2:], "/")
	}
	info.verb = verbOf(r, info.name)
	return info
}

func verbOf(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		switch watch := r.URL.Query().Get("watch"); {
		case watch == "true" || watch == "1":
			return "watch"
		case name == "":
			return "list"
		default:
			return "get"
		}
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(r.Method)
}

// newHandler builds the chain: headers, log, script, the caller's Intercept, who, may they, what.
func (s *Server) newHandler() http.Handler {
	serve := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := parseRequest(r)
		user, ok := s.authenticate(r)
		if !ok {
			s.writeError(w, r, errUnauthorized())
			return
		}
		w.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", s.flowschema)
		w.Header().Set("X-Kubernetes-Pf-Prioritylevel-Uid", s.priority)
		if err := s.authorize(r, info, user); err != nil {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			s.writeError(w, r, err)
			return
		}
		if info.gvr.Resource == "" {
			s.serveDiscovery(w, r)
			return
		}
		s.serveResource(w, r, info)
	}))
	if intercept := s.config.Intercept; intercept != nil {
		next := serve
		serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { intercept(w, r, next) })
	}
	rules := serve
	serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := s.playing.Load(); p != nil {
			p.handle(w, r, parseRequest(r), rules)
			return
		}
		rules.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.log.add(r, parseRequest(r))
		w.Header().Set("Audit-Id", string(uuid.NewUUID()))
		w.Header().Set("Cache-Control", "no-cache, private")
		serve.ServeHTTP(w, r)
	})
}

func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, info requestInfo) {
	c := s.writer.collection(info.gvr)
	if c == nil && info.gvr.Group != "" && !slices.Contains(s.groupVersions(), info.gvr.GroupVersion()) {
		http.NotFound(w, r)
		return
	}
	if c == nil || (info.namespace != "" && !c.Namespaced) || !servesSubresource(c, info.subresource) {
		s.writeError(w, r, errNotFound())
		return
	}
	err := routable(r, info.name == "")
	switch {
	case err != nil:
	case info.verb == "watch" && info.subresource == "":
		err = s.serveWatch(w, r, c, info)
	case info.verb == "list" && info.subresource == "":
		err = s.serveList(w, r, c, info)
	case info.verb == "get" && info.subresource != "binding":
		err = s.serveGet(w, r, c, info)
	case info.verb == "create" && info.name == "" && info.subresource == "":
		err = s.serveCreate(w, r, c, info)
	case info.verb == "create" && info.subresource == "binding":
		err = s.serveBinding(w, r, c, info)
	case info.verb == "update" && info.name != "":
		err = s.serveUpdate(w, r, c, info)
	case info.verb == "patch" && info.name != "":
		err = s.servePatch(w, r, c, info)
	case info.verb == "delete" && info.subresource == "":
		err = s.serveDelete(w, r, c, info)
	case info.subresource == "binding":
		err = errMethod()
	case info.verb == "deletecollection" && (info.namespace != "" || !c.Namespaced):
		err = s.serveDeleteCollection(w, r, c, info)
	default:
		err = errMethod()
	}
	if err != nil {
		s.writeError(w, r, err)
	}
}

func servesSubresource(c *collection, subresource string) bool {
	switch subresource {
	case "":
		return true
	case "status":
		return c.hasStatus()
	case "binding":
		return c.typed && c.Kind == "Pod"
	}
	return false
}

// scope is the part of a collection that a path names.
func (info requestInfo) scope(c *collection) selection {
	prefix := "/"
	if info.namespace != "" {
		prefix = "/" + info.namespace + "/"
	}
	return selection{prefix: prefix, name: info.name}
}

// get returns one object.
func (s *store) get(c *collection, namespace, name string) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj := c.objects[c.key(namespace, name)]; obj != nil {
		return obj, nil
	}
	return nil, errors.NewNotFound(c.GroupResource(), name)
}
