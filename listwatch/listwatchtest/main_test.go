package listwatchtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) {
	// After a body that was too large, net/http waits for half a second before it closes the connection.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var (
	podsGVR  = corev1.SchemeGroupVersion.WithResource("pods")
	nodesGVR = corev1.SchemeGroupVersion.WithResource("nodes")
)

const podsPath = "/api/v1/pods"

// fixture is a server and a raw client for it, over in-memory pipes: it works
// inside a synctest bubble and outside.
type fixture struct {
	t      *testing.T
	srv    *Server
	client *http.Client
}

func newFixture(t *testing.T, c Config) *fixture {
	t.Helper()
	srv := New(c)
	// The transport must not add Accept-Encoding on its own.
	transport := &http.Transport{DialContext: srv.Dial, DisableCompression: true}
	t.Cleanup(func() {
		srv.Close()
		transport.CloseIdleConnections()
	})
	return &fixture{t: t, srv: srv, client: &http.Client{Transport: transport}}
}

// answer is a response that was read to its end.
type answer struct {
	code   int
	header http.Header
	body   []byte
	length int64
}

func (a answer) status(t *testing.T) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(a.body, &s); err != nil {
		t.Fatalf("the answer %d is no Status: %v\n%s", a.code, err, a.body)
	}
	return s
}

func (a answer) podList(t *testing.T) *corev1.PodList {
	t.Helper()
	list := &corev1.PodList{}
	if err := json.Unmarshal(a.body, list); err != nil || list.Kind != "PodList" {
		t.Fatalf("the answer %d is no PodList (%v): %.300s", a.code, err, a.body)
	}
	return list
}

// names returns the names of the items, in order.
func names(list *corev1.PodList) string {
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return strings.Join(out, " ")
}

// open makes a request and returns when the head is there. headers are "Name: value".
func (f *fixture) open(ctx context.Context, method, target, body string, headers ...string) *http.Response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://listwatchtest"+target, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "test")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp
}

func (f *fixture) do(method, target, body string, headers ...string) answer {
	f.t.Helper()
	return finish(f.t, f.open(f.t.Context(), method, target, body, headers...))
}

func (f *fixture) get(target string, headers ...string) answer {
	f.t.Helper()
	return f.do(http.MethodGet, target, "", headers...)
}

func finish(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v (so far %q)", err, body)
	}
	return answer{code: resp.StatusCode, header: resp.Header, body: body, length: resp.ContentLength}
}

// query builds a target: query("/api/v1/pods", "limit", "2").
func query(path string, params ...string) string {
	values := url.Values{}
	for i := 0; i < len(params); i += 2 {
		values.Set(params[i], params[i+1])
	}
	return path + "?" + values.Encode()
}

// specimen reads an answer that a real kube-apiserver 1.37.2 gave.
func specimen(t *testing.T, name string) answer {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "wire", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return finish(t, resp)
}

func testPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "registry.example/x:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// createPods creates pods p-0 and so on, and returns the version after each.
func (f *fixture) createPods(n int) []uint64 {
	f.t.Helper()
	var rvs []uint64
	for i := range n {
		must(f.t, f.srv.Create(testPod("p-"+strconv.Itoa(i), "node-a")))
		rvs = append(rvs, f.srv.ResourceVersion())
	}
	return rvs
}

// reach moves the server's version up to rv.
func (f *fixture) reach(rv uint64) {
	f.t.Helper()
	now := f.srv.ResourceVersion()
	if now > rv {
		f.t.Fatalf("the server is at version %d, past %d", now, rv)
	}
	f.srv.AdvanceResourceVersion(rv - now)
}

// watchStream reads JSON events of an open watch.
type watchStream struct {
	t    *testing.T
	resp *http.Response
	dec  *json.Decoder
}

// watchEvent is an event as a test writes it down: "ADDED p-0 rv=2".
type watchEvent struct {
	Type   string
	Object struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
		Message  string
		Code     int
	}
}

func (e watchEvent) String() string {
	s := e.Type
	if e.Object.Metadata.Name != "" {
		s += " " + e.Object.Metadata.Name
	}
	if e.Object.Kind == "Status" {
		return fmt.Sprintf("%s %d %s", s, e.Object.Code, e.Object.Message)
	}
	s += " rv=" + e.Object.Metadata.ResourceVersion
	if e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		s += " end"
	}
	return s
}

func (f *fixture) watch(params ...string) *watchStream {
	f.t.Helper()
	resp := f.open(f.t.Context(), http.MethodGet, query(podsPath, append(params, "watch", "true")...), "")
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("the watch is answered with %d: %s", resp.StatusCode, finish(f.t, resp).body)
	}
	f.t.Cleanup(func() { resp.Body.Close() })
	return &watchStream{t: f.t, resp: resp, dec: json.NewDecoder(resp.Body)}
}

// next returns the next event, or "end" for a clean end of the stream.
func (w *watchStream) next() string {
	w.t.Helper()
	var ev watchEvent
	switch err := w.dec.Decode(&ev); err {
	case nil:
		return ev.String()
	case io.EOF:
		return "end"
	default:
		w.t.Fatalf("reading an event: %v", err)
		return ""
	}
}

// expect reads as many events as there are lines in want and compares.
func (w *watchStream) expect(want ...string) {
	w.t.Helper()
	for i, line := range want {
		if got := w.next(); got != line {
			w.t.Fatalf("event %d is %q, want %q", i, got, line)
		}
	}
}

func widgets() Resource {
	return Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true, ShortNames: []string{"wd"},
	}
}
