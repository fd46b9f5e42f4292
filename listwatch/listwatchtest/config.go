package listwatchtest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is what the server keeps: any typed or unstructured API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Config says what a server serves and how. The zero value is a server of pods,
// nodes, namespaces, configmaps, services, secrets and events that lets
// everybody do everything.
type Config struct {
	// Resources are served beside the built-in ones. One with the
	// GroupVersionResource of a built-in one replaces it.
	Resources []Resource
	// Scheme knows the Go types of the resources. A kind that it does not know
	// is kept as unstructured and served as JSON only, like a custom resource.
	// Default: core/v1.
	Scheme *runtime.Scheme

	// Window is how many changes of each resource are kept. Default 4096.
	Window int
	// WatchQueue is how many changes a watch may be behind before its stream is
	// closed. Default 65536.
	WatchQueue int
	// BookmarkInterval is the time between two bookmarks of a watch that allows
	// them. Default 1 minute; negative: none but those that end initial events
	// and those shortly before a watch's timeout.
	BookmarkInterval time.Duration
	// FreshWait is how long a request waits for a resourceVersion that is not
	// there yet before it fails with "Too large resource version". Default 3 s;
	// negative: not at all.
	FreshWait time.Duration
	// FinishAfter makes the server play the kubelet of pods that are deleted
	// gracefully: it removes them that long after the request, and not later
	// than their grace period. Default: they stay Terminating until a delete
	// with grace period 0, as on an API server without kubelets.
	FinishAfter time.Duration

	// Sharding is the feature gate ShardedListAndWatch (KEP-5866). Default: ShardingOff, as in
	// Kubernetes 1.37, where it is alpha.
	Sharding Sharding

	// Tokens maps bearer tokens to user names. When it is not nil, a request
	// without one of them is answered with 401.
	Tokens map[string]string
	// Authorize decides whether a request to a resource is allowed; false is
	// answered with 403. Default: everything is.
	Authorize func(Access) bool

	// Intercept, when set, is called for every request in place of the server.
	// It may answer itself, call next, or both wrap and call it. The request is
	// already in Requests.
	Intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// Sharding says what becomes of a request's shardSelector.
type Sharding uint8

const (
	ShardingOff Sharding = iota // it is ignored, whatever it says
	ShardingOn                  // lists and watches are narrowed by it
)

// Access is one request as an authorizer sees it.
type Access struct {
	User string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb                         string
	Group, Resource, Subresource string
	// Namespace and Name are empty when the request is not limited to one.
	Namespace, Name string
	// FieldSelector is as the client wrote it.
	FieldSelector string
}

// Resource is one collection that the server serves.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind of one object; the list's kind is the same with List
	// appended.
	Kind       string
	Namespaced bool
	// ShortNames are shown in discovery, so kubectl accepts them.
	ShortNames []string
	// Fields returns the values of the fields that a field selector may name
	// beside metadata.name and metadata.namespace. It is also called with an
	// empty object, to learn which there are, and must return the same keys.
	Fields func(Object) fields.Set
}

func (c Config) withDefaults() Config {
	if c.Scheme == nil {
		c.Scheme = runtime.NewScheme()
		if err := corev1.AddToScheme(c.Scheme); err != nil {
			panic("listwatchtest: core/v1 does not register: " + err.Error()) // a broken build of k8s.io/api
		}
	}
	if c.Window == 0 {
		c.Window = 4096
	}
	if c.WatchQueue == 0 {
		c.WatchQueue = 65536
	}
	if c.BookmarkInterval == 0 {
		c.BookmarkInterval = time.Minute
	}
	if c.FreshWait == 0 {
		c.FreshWait = 3 * time.Second
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Window < 0 {
		errs = append(errs, fmt.Errorf("Window is %d: give the number of changes to keep, or 0 for the default", c.Window))
	}
	if c.WatchQueue < 0 {
		errs = append(errs, fmt.Errorf("WatchQueue is %d: give the number of changes a watch may be behind, or 0 for the default", c.WatchQueue))
	}
	if c.FinishAfter < 0 {
		errs = append(errs, fmt.Errorf("FinishAfter is %s: give a positive duration, or 0 to leave pods Terminating", c.FinishAfter))
	}
	if c.Sharding > ShardingOn {
		errs = append(errs, fmt.Errorf("Sharding is %d: use ShardingOff or ShardingOn", c.Sharding))
	}
	for i, r := range c.Resources {
		if r.Version == "" || r.Resource == "" || r.Kind == "" {
			errs = append(errs, fmt.Errorf("Resources[%d] (%s) lacks a version, a resource name or a kind: set all three", i, r.GroupVersionResource))
		}
	}
	return errors.Join(errs...)
}
