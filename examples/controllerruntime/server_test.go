package controllerruntime

import (
	"context"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestMain(m *testing.M) {
	// A log of what happens while an API server is down is long and red.
	quiet := logr.FromSlogHandler(slog.DiscardHandler)
	ctrl.SetLogger(quiet)
	klog.SetLogger(quiet)
	// controller-runtime's own way to metadata goes through watch.Filter, whose goroutine
	// stays when its watch is stopped while an event waits to be taken.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

// server is a kube-apiserver and its etcd, run by envtest.
type server struct {
	t   *testing.T
	env *envtest.Environment
	cfg *rest.Config
}

// startServer runs the servers that test/e2e pins; the go command builds them, once,
// from the module cache. envtest would want them installed.
func startServer(t *testing.T) *server {
	t.Helper()
	env := &envtest.Environment{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()},
		// A machine that compiles the servers at the same time is slow. An API server with watches
		// does not stop by itself within a minute: it is killed, as in a crash.
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Second,
	}
	api := env.ControlPlane.GetAPIServer()
	api.Path = tool(t, "kube-apiserver")
	api.CertDir = t.TempDir() // given, they survive a restart
	env.ControlPlane.Etcd = &envtest.Etcd{Path: tool(t, "etcd"), DataDir: t.TempDir()}
	cfg, err := env.Start()
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Logf("the servers were killed: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return &server{t, env, cfg}
}

// tool returns the path of a tool of test/e2e, built.
func tool(t *testing.T, name string) string {
	t.Helper()
	// -n prints the command instead of running it, but builds it all the same.
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", name)
	cmd.Dir = "../../test/e2e"
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go tool -n %s: %v\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// restart ends the API server and starts it again on the same port, with the same etcd.
func (s *server) restart() {
	s.t.Helper()
	api := s.env.ControlPlane.APIServer
	if err := api.Stop(); err != nil {
		s.t.Logf("the API server was killed: %v", err)
	}
	// A killed process may hold its port for a moment.
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		err := api.Start()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the API server does not start again: %v", err)
		}
	}
}

// widgets is a custom resource with a status.
func widgets() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	schema := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"phase": text}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ListKind: "WidgetList", Singular: "widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}
