package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// writesTable sends writes one after the other to a pod of its own, and records
// each answer: what a client that changes pods relies on.
func writesTable(t *testing.T, w *world) {
	const pods = "/api/v1/namespaces/{ns}/pods"
	merge := http.Header{"Content-Type": {"application/merge-patch+json"}}
	strategic := http.Header{"Content-Type": {"application/strategic-merge-patch+json"}}
	jsonPatch := http.Header{"Content-Type": {"application/json-patch+json"}}
	steps := []probe{
		{method: http.MethodPost, path: pods, body: podBody("one")},
		{method: http.MethodPatch, path: pods + "/one", body: `{"metadata":{"labels":{"app":"web"}}}`, header: merge},
		{method: http.MethodPatch, path: pods + "/one", body: `{"metadata":{"labels":{"app":null,"tier":"front"}}}`, header: strategic},
		{method: http.MethodPatch, path: pods + "/one", body: `[{"op":"add","path":"/metadata/labels/step","value":"json"}]`, header: jsonPatch},
		{method: http.MethodPatch, path: pods + "/one/status", body: `{"status":{"phase":"Running"}}`, header: merge},
		{method: http.MethodPatch, path: pods + "/one/status", body: `{"metadata":{"labels":{"ignored":"not"}}}`, header: merge},
		{method: http.MethodGet, path: pods + "/one/status"},
		{method: http.MethodDelete, path: pods + "/one"},
		{method: http.MethodDelete, path: pods + "/one?gracePeriodSeconds=5"},
		{method: http.MethodDelete, path: pods + "/one", body: `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`},
		{method: http.MethodDelete, path: pods + "/one"},
		{method: http.MethodPost, path: pods + "?dryRun=All", body: podBody("dry")},
		{method: http.MethodGet, path: pods + "/dry"},
		{method: http.MethodPost, path: pods, body: podBody("two", `"generateName":"not-used-"`)},
		{method: http.MethodDelete, path: pods + "?gracePeriodSeconds=0"},
		{method: http.MethodGet, path: pods},
	}
	g := openGolden(t, "writes")
	own := w.inNamespace(t.Context(), t, namespaceFor(t))
	ctx, cancel := context.WithTimeout(t.Context(), rowTimeout)
	defer cancel()
	var out strings.Builder
	for _, step := range steps {
		out.WriteString("> " + step.method + " " + step.path + " " + step.body + "\n")
		out.WriteString(strings.ReplaceAll(step.record(ctx, t, own), own.namespace, "NS"))
	}
	g.check(t, "one pod", out.String())
	g.close(t, true)
}
