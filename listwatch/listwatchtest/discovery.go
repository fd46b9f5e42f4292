package listwatchtest

import (
	"net/http"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// serveDiscovery answers what is not about a resource: health, version, and
// which resources there are.
func (s *Server) serveDiscovery(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch path {
	case "/healthz", "/livez", "/readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// An error here is a client that went away.
		_, _ = w.Write([]byte("ok"))
		return
	case "/version":
		writeRawJSON(w, http.StatusOK, version.Info{
			Major: "1", Minor: "37", GitVersion: "v1.37.2-listwatchtest", GitTreeState: "clean",
			GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		})
		return
	case "/openapi/v3":
		writeRawJSON(w, http.StatusOK, s.openAPIIndex())
		return
	}
	if gv, ok := strings.CutPrefix(path, "/openapi/v3/"); ok {
		writeRawJSON(w, http.StatusOK, s.openAPI(gv))
		return
	}
	obj := s.discovery(path)
	if obj == nil {
		if strings.HasPrefix(path, "/api/") {
			s.writeError(w, r, errNotFound())
		} else {
			http.NotFound(w, r)
		}
		return
	}
	if err := routable(r, false); err != nil {
		s.writeError(w, r, err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.writeError(w, r, errMethod())
		return
	}
	writeRawJSON(w, http.StatusOK, obj)
}

// discovery returns the document at a path, or nil.
func (s *Server) discovery(path string) any {
	versions := s.groupVersions()
	switch path {
	case "/api":
		return metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
		}
	case "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
		for _, gv := range versions {
			if gv.Group != "" && !slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group }) {
				list.Groups = append(list.Groups, apiGroup(gv.Group, versions))
			}
		}
		return list
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return s.apiResources(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return s.apiResources(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case len(parts) == 2 && parts[0] == "apis" && parts[1] != "":
		group := apiGroup(parts[1], versions)
		if len(group.Versions) == 0 {
			return nil
		}
		group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return group
	}
	return nil
}

// groupVersions returns the served group versions in order of registration.
func (s *Server) groupVersions() []schema.GroupVersion {
	var versions []schema.GroupVersion
	for _, c := range s.writer.all() {
		if gv := c.GroupVersion(); !slices.Contains(versions, gv) {
			versions = append(versions, gv)
		}
	}
	return versions
}

func apiGroup(name string, versions []schema.GroupVersion) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, gv := range versions {
		if gv.Group == name {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
		}
	}
	if len(group.Versions) > 0 {
		group.PreferredVersion = group.Versions[0]
	}
	return group
}

func (s *Server) apiResources(gv schema.GroupVersion) any {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	for _, c := range s.writer.all() {
		if c.GroupVersion() != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: c.Resource.Resource, SingularName: strings.ToLower(c.Kind), Namespaced: c.Namespaced, Kind: c.Kind, ShortNames: c.ShortNames,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		})
		if c.hasStatus() {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: c.Resource.Resource + "/status", Namespaced: c.Namespaced, Kind: c.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}

// openAPIIndex names the OpenAPI documents, one a group version.
func (s *Server) openAPIIndex() any {
	paths := make(map[string]any)
	for _, gv := range s.groupVersions() {
		paths[groupVersionPath(gv)] = map[string]string{"serverRelativeURL": "/openapi/v3/" + groupVersionPath(gv)}
	}
	return map[string]any{"paths": paths}
}

// openAPI is the document of a group version: no schemas, only that PATCH takes
// fieldValidation. kubectl looks for that before it creates or applies a file,
// and leaves validation to the server then.
func (s *Server) openAPI(gvPath string) any {
	paths := make(map[string]any)
	for _, c := range s.writer.all() {
		if groupVersionPath(c.GroupVersion()) != gvPath {
			continue
		}
		paths["/"+gvPath+"/"+c.Resource.Resource+"/{name}"] = map[string]any{"patch": map[string]any{
			"parameters": []any{map[string]any{"name": "fieldValidation", "in": "query"}},
			"responses":  map[string]any{},
			"x-kubernetes-group-version-kind": map[string]string{
				"group": c.Group, "version": c.Version, "kind": c.Kind,
			},
		}}
	}
	return map[string]any{
		"openapi": "3.0.0", "info": map[string]string{"title": "Kubernetes", "version": "v1.37.2"}, "paths": paths,
	}
}

func groupVersionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}
