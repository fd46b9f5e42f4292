package listwatchtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const defaultPods = "/api/v1/namespaces/default/pods"

func TestCreateFillsIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		pod := testPod("p", "node-a")
		must(t, f.srv.Create(pod))
		if pod.UID == "" || pod.ResourceVersion != "2" || pod.Generation != 1 || !pod.CreationTimestamp.Time.Equal(time.Now()) ||
			pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("created: %+v", pod)
		}
		kept := testPod("kept", "node-a")
		kept.UID, kept.CreationTimestamp = "my-uid", metav1.Unix(1e9, 0)
		must(t, f.srv.Create(kept))
		if kept.UID != "my-uid" || kept.CreationTimestamp.Unix() != 1e9 {
			t.Errorf("uid %s and creationTimestamp %s were set before, and must be kept", kept.UID, kept.CreationTimestamp)
		}
		pod.Labels = map[string]string{"changed": "after"}
		again := testPod("p", "")
		must(t, f.srv.Get(again))
		if len(again.Labels) != 0 {
			t.Error("the stored object shares memory with the caller's")
		}
	})
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	stale := testPod("p", "node-a")
	must(t, f.srv.Create(stale))
	fresh := stale.DeepCopy()
	fresh.Labels = map[string]string{"a": "b"}
	must(t, f.srv.Update(fresh))
	other := fresh.DeepCopy()
	other.UID = "other"
	for _, c := range []struct {
		name string
		err  error
		is   func(error) bool
		want string
	}{
		{"create twice", f.srv.Create(testPod("p", "")), errors.IsAlreadyExists, `pods "p" already exists`},
		{"create with a version", f.srv.Create(fresh), errors.IsBadRequest, "resourceVersion should not be set on objects to be created"},
		{"create without a name", f.srv.Create(testPod("", "")), errors.IsInvalid, `Pod "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"create with a bad name", f.srv.Create(testPod("Bad_Name", "")), errors.IsInvalid, "RFC 1123 subdomain"},
		{"create without a namespace", f.srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}), errors.IsInvalid, `Pod "x" is invalid: metadata.namespace: Required value`},
		{"update of an old version", f.srv.Update(stale), errors.IsConflict,
			`Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the latest version and try again`},
		{"update of another uid", f.srv.Update(other), errors.IsConflict,
			`Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: other, UID in object meta: ` + string(fresh.UID)},
		{"update of none", f.srv.Update(testPod("q", "")), errors.IsNotFound, `pods "q" not found`},
		{"delete of none", f.srv.Delete(testPod("q", "")), errors.IsNotFound, `pods "q" not found`},
		{"get of none", f.srv.Get(testPod("q", "")), errors.IsNotFound, `pods "q" not found`},
	} {
		if c.err == nil || !c.is(c.err) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, c.err, c.want)
		}
	}
	if err := f.srv.Create(&corev1.PodTemplate{}); err == nil || !strings.Contains(err.Error(), "add it to Config.Resources") {
		t.Errorf("a kind that is not served: %v", err)
	}
}

func TestGenerationAndNoOps(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	pod := testPod("p", "node-a")
	must(t, f.srv.Create(pod))
	check := func(what string, generation int64, version string) {
		t.Helper()
		if pod.Generation != generation || pod.ResourceVersion != version {
			t.Errorf("%s: generation %d at version %s, want %d at %s", what, pod.Generation, pod.ResourceVersion, generation, version)
		}
	}
	pod.Status.Phase = corev1.PodFailed
	must(t, f.srv.UpdateStatus(pod))
	check("a change of the status", 1, "3")
	pod.Spec.Containers[0].Image = "registry.example/x:2"
	must(t, f.srv.Update(pod))
	check("a change of the spec", 2, "4")
	must(t, f.srv.Update(pod))
	check("a write that changes nothing", 2, "4")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.NodeName = "ignored"
	pod.Status.Phase = corev1.PodRunning
	must(t, f.srv.UpdateStatus(pod))
	check("a change of the status", 2, "5")
	if len(pod.Labels) != 1 || pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != "node-a" {
		t.Errorf("UpdateStatus wrote %v, %s, %s; want all but the spec", pod.Labels, pod.Status.Phase, pod.Spec.NodeName)
	}
}

func TestGracefulDeletion(t *testing.T) {
	t.Parallel()
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for _, c := range []struct {
		name    string
		change  func(*corev1.Pod)
		seconds int64
		stays   int64 // the grace period with which it is Terminating; 0: gone
	}{
		{"the pod's own grace period", func(*corev1.Pod) {}, -1, 30},
		{"another one", func(*corev1.Pod) {}, 5, 5},
		{"none", func(*corev1.Pod) {}, 0, 0},
		{"a pod on no node", func(p *corev1.Pod) { p.Spec.NodeName = "" }, -1, 0},
		{"a pod that ended", ended, 30, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{})
				pod := testPod("p", "node-a")
				c.change(pod)
				must(t, f.srv.Create(pod))
				w := f.watch("resourceVersion", "2")
				must(t, f.srv.DeleteGracefully(pod, c.seconds))
				if c.stays == 0 {
					w.expect("MODIFIED p rv=3", "DELETED p rv=4")
					return
				}
				w.expect("MODIFIED p rv=3")
				if got := *pod.DeletionGracePeriodSeconds; got != c.stays || !pod.DeletionTimestamp.Equal(new(metav1.NewTime(time.Now().Add(time.Duration(c.stays)*time.Second)))) {
					t.Errorf("Terminating with %d s until %s", got, pod.DeletionTimestamp)
				}
				must(t, f.srv.DeleteGracefully(pod, 100)) // later than before: nothing happens
				must(t, f.srv.DeleteGracefully(pod, 0))
				w.expect("MODIFIED p rv=4", "DELETED p rv=5")
			})
		})
	}
}

// TestFinalizers: an object with finalizers is marked, and goes with the last.
func TestFinalizers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		pod := testPod("p", "node-a")
		pod.Finalizers = []string{"example.com/hold"}
		must(t, f.srv.Create(pod))
		w := f.watch("resourceVersion", "2")
		must(t, f.srv.DeleteGracefully(pod, 0))
		must(t, f.srv.DeleteGracefully(pod, 0)) // going already
		w.expect("MODIFIED p rv=3")
		pod.Finalizers = nil
		must(t, f.srv.Update(pod))
		w.expect("DELETED p rv=4")

		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Finalizers: []string{"example.com/hold"}}}
		must(t, f.srv.Create(node))
		must(t, f.srv.DeleteGracefully(node, -1))
		if node.DeletionTimestamp == nil {
			t.Error("a node with a finalizer is not marked")
		}
		must(t, f.srv.Delete(node)) // asks nobody
		if left, _ := f.srv.Snapshot(nodesGVR); len(left) != 0 {
			t.Errorf("%d nodes are left", len(left))
		}
	})
}

func TestFinishAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{FinishAfter: 10 * time.Second})
		pod, short, replaced := testPod("p", "node-a"), testPod("short", "node-a"), testPod("replaced", "node-a")
		for _, p := range []*corev1.Pod{pod, short, replaced} {
			must(t, f.srv.Create(p))
		}
		w := f.watch("resourceVersion", "4")
		start := time.Now()
		must(t, f.srv.DeleteGracefully(pod, -1))
		must(t, f.srv.DeleteGracefully(short, 4))
		must(t, f.srv.DeleteGracefully(replaced, -1))
		must(t, f.srv.Delete(replaced))
		must(t, f.srv.Create(testPod("replaced", "node-a"))) // must live
		w.expect("MODIFIED p rv=5", "MODIFIED short rv=6", "MODIFIED replaced rv=7", "DELETED replaced rv=8", "ADDED replaced rv=9")
		w.expect("MODIFIED short rv=10", "DELETED short rv=11")
		if after := time.Since(start); after != 4*time.Second {
			t.Errorf("removed after %s, want the grace period, which is shorter", after)
		}
		w.expect("MODIFIED p rv=12", "DELETED p rv=13")
		if after := time.Since(start); after != 10*time.Second {
			t.Errorf("removed after %s", after)
		}
		must(t, f.srv.Get(testPod("replaced", "")))
		// One that is pending when the server is closed must not leak.
		must(t, f.srv.DeleteGracefully(testPod("replaced", ""), -1))
	})
}

// step is a request of TestWritesOverHTTP.
type step struct {
	name, method, target, body string
	headers                    []string
	code                       int
	want                       string // is in the answer
}

func TestWritesOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Resources: []Resource{widgets()}})
	const widget = "/apis/example.com/v1/namespaces/default/widgets"
	merge, strategic := "Content-Type: application/merge-patch+json", "Content-Type: application/strategic-merge-patch+json"
	for _, s := range []step{
		{"create ignores status, uid and time", "POST", defaultPods,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"x"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`,
			nil, 201, `"phase":"Pending"`},
		{"create again", "POST", defaultPods, `{"metadata":{"name":"p"}}`, nil, 409, `"message":"pods \"p\" already exists"`},
		{"create in another namespace", "POST", defaultPods, `{"metadata":{"name":"q","namespace":"other"}}`, nil, 400,
			"the namespace of the provided object does not match the namespace sent on the request"},
		{"create another kind", "POST", defaultPods, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"q"}}`, nil, 400, `Node in version \"v1\" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion`},
		{"create garbage", "POST", defaultPods, `{"metadata":`, nil, 400,
			`the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"metadata\":)`},
		{"create text", "POST", defaultPods, "<html>", nil, 400, "(3c68746d6c3e)"},
		{"create nothing", "POST", defaultPods, "", nil, 400, "(\\u003cempty\\u003e)"},
		{"create a field of another type", "POST", defaultPods, `{"metadata":{"name":"q"},"spec":7}`, nil, 400, "Pod in version \\\"v1\\\" cannot be handled as a Pod: json: cannot unmarshal"},
		{"create YAML", "POST", defaultPods, "a: b", []string{"Content-Type: application/yaml"}, 415, "accepted media types include: application/json"},
		{"create for trial", "POST", defaultPods + "?dryRun=All", `{"metadata":{"name":"trial"}}`, nil, 201, `"name":"trial"`},
		{"it is not there", "GET", defaultPods + "/trial", "", nil, 404, "not found"},
		{"generateName", "POST", defaultPods, `{"metadata":{"generateName":"gen-"}}`, nil, 201, `"name":"gen-`},
		{"get", "GET", defaultPods + "/p", "", nil, 200, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"`},
		{"get metadata", "GET", defaultPods + "/p", "", []string{"Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}, 200, `"kind":"PartialObjectMetadata"`},
		{"update status", "PUT", defaultPods + "/p/status", `{"metadata":{"name":"p"},"spec":{"nodeName":"other"},"status":{"phase":"Running"}}`, nil, 200, `"nodeName":"n"`},
		{"update ignores status", "PUT", defaultPods + "/p", `{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`, nil, 200, `"phase":"Running"`},
		{"update an old version", "PUT", defaultPods + "/p", `{"metadata":{"name":"p","resourceVersion":"1"}}`, nil, 409, "the object has been modified"},
		{"update under another name", "PUT", defaultPods + "/p", `{"metadata":{"name":"q"}}`, nil, 400, "does not match the name on the URL"},
		{"merge patch", "PATCH", defaultPods + "/p", `{"metadata":{"labels":{"a":null,"c":"d"}}}`, []string{merge}, 200, `"labels":{"c":"d"}`},
		{"strategic merge patch", "PATCH", defaultPods + "/p", `{"spec":{"containers":[{"name":"c","image":"j"}]}}`, []string{strategic}, 200, `"image":"j"`},
		{"patch status", "PATCH", defaultPods + "/p/status", `{"status":{"phase":"Failed"}}`, []string{merge}, 200, `"phase":"Failed"`},
		{"json patch", "PATCH", defaultPods + "/p", `[{"op":"add","path":"/metadata/labels/e","value":"f"}]`, []string{"Content-Type: application/json-patch+json"}, 200, `"e":"f"`},
		{"json patch that fails", "PATCH", defaultPods + "/p", `[{"op":"remove","path":"/nowhere"}]`, []string{"Content-Type: application/json-patch+json"}, 422, "rejected our request"},
		{"garbage patch", "PATCH", defaultPods + "/p", `{`, []string{merge}, 400, "unexpected end of JSON input"},
		{"patch of an unknown kind", "PATCH", defaultPods + "/p", `[]`, []string{"Content-Type: application/apply-patch+yaml"}, 415, "415: Unsupported Media Type"},
		{"delete for trial", "DELETE", defaultPods + "/p?dryRun=All", "", nil, 200, `"deletionTimestamp"`},
		{"bind a pod that is bound", "POST", defaultPods + "/p/binding", `{"target":{"name":"m"}}`, nil, 409, `pod p is already assigned to node \"n\"`},
		{"get of a binding", "GET", defaultPods + "/p/binding", "", nil, 405, "does not allow this method"},
		{"a pod for a scheduler", "POST", defaultPods, `{"metadata":{"name":"free"}}`, nil, 201, `"name":"free"`},
		{"bind it", "POST", defaultPods + "/free/binding", `{"target":{"name":"m"}}`, nil, 201, `"status":"Success"`},
		{"it is bound", "GET", defaultPods + "/free", "", nil, 200, `"nodeName":"m"`},
		{"delete another uid", "DELETE", defaultPods + "/p", `{"preconditions":{"uid":"x"}}`, nil, 409, "Operation cannot be fulfilled on Pod \\\"p\\\": the UID in the precondition (x) does not match"},
		{"delete another version", "DELETE", defaultPods + "/p", `{"preconditions":{"resourceVersion":"1"}}`, nil, 409, "the ResourceVersion in the precondition (1) does not match"},
		{"delete a pod answers the pod", "DELETE", defaultPods + "/p", "", nil, 200, `"kind":"Pod"`},
		{"delete again", "DELETE", defaultPods + "/gone", "", nil, 404, `pods \"gone\" not found`},
		{"delete collection everywhere", "DELETE", podsPath, "", nil, 405, "does not allow this method"},
		{"delete collection", "DELETE", defaultPods + "?gracePeriodSeconds=0", "", nil, 200, `"kind":"PodList"`},
		{"nothing is left", "GET", defaultPods, "", nil, 200, `"items":[]`},

		{"create a widget", "POST", widget, `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"w"},"spec":{"size":1}}`, nil, 201, `"generation":1`},
		{"patch a widget", "PATCH", widget + "/w", `{"spec":{"size":2}}`, []string{merge}, 200, `"generation":2`},
		{"no strategic patch for it", "PATCH", widget + "/w", `{}`, []string{strategic}, 415, "application/merge-patch+json"},
		{"list widgets", "GET", widget, "", []string{"Accept: application/vnd.kubernetes.protobuf,application/json"}, 200, `"kind":"WidgetList"`},
		{"a list shows their kind", "GET", widget, "", nil, 200, `{"apiVersion":"example.com/v1","kind":"Widget","metadata"`},
		{"as a table", "GET", widget, "", []string{"Accept: application/json;as=Table;g=meta.k8s.io;v=v1"}, 200, `"cells":["w","`},
		{"no protobuf of a widget", "GET", widget, "", []string{"Accept: application/vnd.kubernetes.protobuf"}, 406, "only the following media types are accepted"},
		{"unknown field label of a widget", "GET", widget + "?fieldSelector=spec.size%3D1", "", nil, 400, `is not a known field selector: only \"metadata.name\", \"metadata.namespace\"`},
		{"delete a widget answers a Status", "DELETE", widget + "/w", "", nil, 200, `"status":"Success"`},

		{"no such subresource", "GET", defaultPods + "/p/log", "", nil, 404, "could not find the requested resource"},
		{"no such method", "POST", defaultPods + "/p", "{}", nil, 405, "the server does not allow this method on the requested resource"},
		{"nodes have no namespace", "GET", "/api/v1/namespaces/default/nodes", "", nil, 404, "could not find"},
		{"a namespace has a status", "GET", "/api/v1/namespaces/none/status", "", nil, 404, `namespaces \"none\" not found`},
	} {
		got := f.do(s.method, s.target, s.body, s.headers...)
		if got.code != s.code || !strings.Contains(string(got.body), s.want) {
			t.Errorf("%s: %d %s\nwant %d with %s", s.name, got.code, got.body, s.code, s.want)
		}
	}
}

func TestUnstructuredThroughTheGoAPI(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Resources: []Resource{widgets()}})
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": "w"},
		"spec": map[string]any{"size": int64(1)},
	}}
	must(t, f.srv.Create(w))
	must(t, unstructured.SetNestedField(w.Object, "ok", "status", "state"))
	must(t, unstructured.SetNestedField(w.Object, int64(9), "spec", "size"))
	must(t, f.srv.UpdateStatus(w))
	size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size")
	state, _, _ := unstructured.NestedString(w.Object, "status", "state")
	if size != 1 || state != "ok" || w.GetGeneration() != 1 || w.GetResourceVersion() != "3" {
		t.Errorf("after UpdateStatus: %v", w.Object)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	got := f.do(http.MethodPost, defaultPods, fmt.Sprintf(`{"metadata":{"name":%q}}`, strings.Repeat("x", maxBody)))
	if got.code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit is answered with %d", got.code)
	}
	var rest corev1.PodList
	must(t, json.Unmarshal(f.get(podsPath).body, &rest))
	if len(rest.Items) != 0 {
		t.Errorf("%d pods were stored", len(rest.Items))
	}
}
