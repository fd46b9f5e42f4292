package listwatchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestAuthorization(t *testing.T) {
	t.Parallel()
	var asked []Access
	f := newFixture(t, Config{
		Tokens: map[string]string{"good": "alice"},
		Authorize: func(a Access) bool {
			asked = append(asked, a)
			return a.Verb == "watch"
		},
	})
	bearer := "Authorization: Bearer good"
	for _, c := range []struct {
		method, target, message string
		code                    int
	}{
		{"GET", query(defaultPods, "fieldSelector", "spec.nodeName=n"), `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`, 403},
		{"PUT", defaultPods + "/p/status", `pods "p" is forbidden: User "alice" cannot update resource "pods/status" in API group "" in the namespace "default"`, 403},
		{"DELETE", "/api/v1/nodes", `nodes is forbidden: User "alice" cannot deletecollection resource "nodes" in API group "" at the cluster scope`, 403},
	} {
		got := f.do(c.method, c.target, "", bearer)
		if got.code != c.code || got.status(t).Message != c.message {
			t.Errorf("%s %s: %d %s", c.method, c.target, got.code, got.body)
		}
	}
	if got := f.get(query(podsPath, "watch", "true", "resourceVersion", "abc"), bearer); got.code != 500 {
		t.Errorf("what is allowed is answered with %d", got.code)
	}
	if got := f.get(podsPath); got.code != 401 {
		t.Errorf("no token: %d", got.code)
	}
	if got := f.get("/version", bearer); got.code != 200 {
		t.Errorf("discovery needs no right: %d", got.code)
	}
	want := Access{User: "alice", Verb: "list", Resource: "pods", Namespace: "default", FieldSelector: "spec.nodeName=n"}
	if asked[0] != want {
		t.Errorf("the authorizer was asked for %+v, want %+v", asked[0], want)
	}
	for _, r := range f.srv.Requests() {
		if text := fmt.Sprintf("%+v", r); strings.Contains(text, "good") {
			t.Errorf("the log of requests holds the token: %s", text)
		}
	}
}

func TestRequestLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.createPods(1)
	f.get(query(podsPath, "resourceVersion", "0"))
	f.get(query(podsPath, "watch", "true", "resourceVersion", "abc"))
	f.get(query(podsPath, "watch", "1", "resourceVersion", "abc", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan"))
	f.get(defaultPods + "/p-0")
	f.do(http.MethodPost, "/api/v1/nodes", `{"metadata":{"name":"n"}}`)
	f.get("/version")
	var got []string
	for _, r := range f.srv.Requests() {
		got = append(got, r.String())
	}
	want := "list pods rv=0, watch pods rv=abc, watchlist pods rv=abc, get pods default/p-0, create nodes, get /version"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestRequestLogIsBounded(t *testing.T) {
	t.Parallel()
	var log requestLog
	r := httptest.NewRequest(http.MethodGet, podsPath, nil)
	for range maxRequests + 5 {
		log.add(r, parseRequest(r))
	}
	if n := len(log.all()); n > maxRequests || n < maxRequests/2 {
		t.Errorf("%d requests are kept", n)
	}
}

func TestIntercept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Query().Get("watch") == "true" {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		next.ServeHTTP(w, r)
	}})
	if got := f.get(query(podsPath, "watch", "true")); got.code != http.StatusTeapot {
		t.Errorf("the watch is answered with %d", got.code)
	}
	if got := f.get(podsPath); got.code != http.StatusOK {
		t.Errorf("the list is answered with %d", got.code)
	}
	if n := len(f.srv.Requests()); n != 2 {
		t.Errorf("%d requests are logged, want both", n)
	}
}

func TestPauseHoldsBothDirections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch("resourceVersion", "1")
		f.srv.Pause()
		must(t, f.srv.Create(testPod("p", "node-a")))
		start := time.Now()
		go func() {
			time.Sleep(time.Minute)
			f.srv.Resume()
		}()
		listed := make(chan time.Duration)
		go func() {
			resp, err := f.client.Get("http://listwatchtest" + podsPath)
			if err == nil {
				resp.Body.Close()
			}
			listed <- time.Since(start)
		}()
		w.expect("ADDED p rv=2")
		if after := time.Since(start); after != time.Minute {
			t.Errorf("the event came after %s", after)
		}
		if after := <-listed; after != time.Minute {
			t.Errorf("the list was answered after %s", after)
		}
	})
}

func TestCloseWhilePaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.watch("resourceVersion", "1")
		f.srv.Pause()
		f.createPods(1)
		start := time.Now()
		f.srv.Close()
		f.srv.Close()
		if time.Since(start) != 0 {
			t.Errorf("Close took %s", time.Since(start))
		}
		if _, err := f.srv.Dial(t.Context(), "", ""); err == nil {
			t.Error("a closed server can be dialed")
		}
	})
}

func TestStartServesOverTCP(t *testing.T) {
	t.Parallel()
	srv := Start(Config{})
	defer srv.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	if host := srv.RESTConfig().Host; host != srv.URL() || !strings.HasPrefix(host, "http://127.0.0.1:") {
		t.Errorf("the server is at %q", host)
	}
	resp, err := client.Get(srv.URL() + query(podsPath, "watch", "true"))
	must(t, err)
	defer resp.Body.Close()
	must(t, srv.Create(testPod("p", "node-a")))
	line := make([]byte, 16)
	if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != `{"type":"ADDED",` {
		t.Errorf("the watch begins with %q, %v", line, err)
	}
	srv.CloseConnections()
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("closing connections is a clean end of a watch")
	}
	second, err := client.Get(srv.URL() + "/healthz")
	must(t, err)
	if got := finish(t, second); string(got.body) != "ok" {
		t.Errorf("a new connection gets %q", got.body)
	}
}

func TestServeEndsWithClose(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := New(Config{})
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/readyz")
	must(t, err)
	finish(t, resp)
	http.DefaultClient.CloseIdleConnections()
	srv.Close()
	if err := <-done; err != nil {
		t.Errorf("Serve returns %v after Close", err)
	}
	again, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if err := srv.Serve(again); err == nil {
		t.Error("a closed server serves")
	}
}

func TestHandlerOnAnotherServer(t *testing.T) {
	t.Parallel()
	srv := New(Config{})
	web := httptest.NewServer(srv.Handler())
	defer web.Close()
	resp, err := web.Client().Get(web.URL + query(podsPath, "watch", "true"))
	must(t, err)
	defer resp.Body.Close()
	srv.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Errorf("Close ends a watch with %q, %v", rest, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	err := Config{Window: -1, WatchQueue: -1, FinishAfter: -1, Resources: []Resource{{Kind: "X"}}}.validate()
	for _, want := range []string{"Window is -1", "WatchQueue is -1", "FinishAfter is -1ns", "Resources[0]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("New takes a bad Config")
		}
	}()
	New(Config{Window: -1})
}

func TestLargeListsAreCompressedWhenAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	pod := testPod("small", "node-a")
	must(t, f.srv.Create(pod))
	if got := f.get(podsPath, "Accept-Encoding: gzip"); got.header.Get("Content-Encoding") != "" {
		t.Error("a small list is compressed")
	}
	large := testPod("large", "node-a")
	large.Annotations = map[string]string{"filler": strings.Repeat("abcdefgh", gzipThreshold/8)}
	must(t, f.srv.Create(large))
	plain := f.get(podsPath)
	if plain.header.Get("Content-Encoding") != "" {
		t.Error("compressed without being asked to")
	}
	zipped := f.get(podsPath, "Accept-Encoding: deflate, gzip")
	if zipped.header.Get("Content-Encoding") != "gzip" || zipped.header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("a large list is not compressed: %v", zipped.header)
	}
	if len(zipped.body) > len(plain.body)/10 || !bytes.Equal(gunzip(t, zipped.body), plain.body) {
		t.Errorf("%d bytes compressed are not the %d bytes plain", len(zipped.body), len(plain.body))
	}
}

func TestNegotiation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	f.createPods(1)
	for _, c := range []struct {
		accept, query string
		code          int
		media, kind   string
	}{
		{"", "", 200, "application/json", "PodList"},
		{"*/*", "", 200, "application/json", "PodList"},
		{"application/*", "", 406, "application/json", "Status"},
		{"application/vnd.kubernetes.protobuf, application/json", "", 200, "application/vnd.kubernetes.protobuf", "PodList"},
		{"application/json;q=0.1, application/vnd.kubernetes.protobuf", "", 200, "application/vnd.kubernetes.protobuf", "PodList"},
		{"text/html, application/json;q=0.9", "", 200, "application/json", "PodList"},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "", 200, "application/json", "Table"},
		{"application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "", 200, "application/json", "PodList"},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", "", 406, "application/json", "Status"},
		{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "", 200, "application/vnd.kubernetes.protobuf", "PartialObjectMetadataList"},
		{"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "", 406, "application/json", "Status"},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", "includeObject=Nothing", 400, "application/json", "Status"},
		{"application/json;stream=other", "", 406, "application/json", "Status"},
		// An error comes in the encoding that was asked for.
		{"application/vnd.kubernetes.protobuf", "resourceVersion=abc", 400, "application/vnd.kubernetes.protobuf", "Status"},
	} {
		got := f.get(podsPath+"?"+c.query, "Accept: "+c.accept)
		kind := kindOf(t, got)
		if got.code != c.code || got.header.Get("Content-Type") != c.media || kind != c.kind {
			t.Errorf("%q: %d %s %s, want %d %s %s", c.accept, got.code, got.header.Get("Content-Type"), kind, c.code, c.media, c.kind)
		}
	}
	for target, pretty := range map[string]bool{
		podsPath: false, podsPath + "?pretty=true": true, podsPath + "?pretty=0": false,
	} {
		if got := f.get(target); bytes.Contains(got.body, []byte("\n  ")) != pretty {
			t.Errorf("%s: pretty is not %v: %.80s", target, pretty, got.body)
		}
	}
	if got := f.get(podsPath+"?pretty=false", curl); bytes.Contains(got.body, []byte("\n  ")) {
		t.Error("pretty=false is not heeded for curl")
	}
}

func kindOf(t *testing.T, a answer) string {
	t.Helper()
	if raw, ok := bytes.CutPrefix(a.body, []byte("k8s\x00")); ok {
		var u runtime.Unknown
		must(t, u.Unmarshal(raw))
		return u.Kind
	}
	var m metav1.TypeMeta
	must(t, json.Unmarshal(a.body, &m))
	return m.Kind
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Resources: []Resource{widgets()}})
	for target, want := range map[string]string{
		"/version":                        `"minor": "37"`,
		"/livez":                          "ok",
		"/api":                            `"v1"`,
		"/api/v1":                         `"name": "pods/status"`,
		"/apis":                           `"groupVersion": "example.com/v1"`,
		"/apis/example.com":               `"kind": "APIGroup"`,
		"/apis/example.com/v1":            `"name": "widgets"`,
		"/openapi/v3":                     `"/openapi/v3/apis/example.com/v1"`,
		"/openapi/v3/apis/example.com/v1": `"fieldValidation"`,
		"/openapi/v3/api/v1":              `"kind": "Pod"`,
	} {
		if got := f.get(target); got.code != 200 || !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %d %s, want %s", target, got.code, got.body, want)
		}
	}
	for target, media := range map[string]string{
		"/": "text/plain", "/metrics": "text/plain", "/apis/none": "text/plain", "/apis/none/v1": "text/plain",
		"/apis/none/v1/things": "text/plain", "/openapi/v2": "text/plain", "/api/v9": mediaJSON, "/apis/example.com/v1/things": mediaJSON,
	} {
		if got := f.get(target); got.code != 404 || !strings.HasPrefix(got.header.Get("Content-Type"), media) {
			t.Errorf("%s: %d %s, want 404 as %s", target, got.code, got.header.Get("Content-Type"), media)
		}
	}
	if got := f.get("/api", "Accept: text/html"); got.code != 406 {
		t.Errorf("discovery as HTML: %d", got.code)
	}
	if got := f.do(http.MethodPost, "/api/v1", "{}"); got.code != 405 {
		t.Errorf("POST to discovery: %d", got.code)
	}
}

func TestTablesOfOtherKinds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	must(t, f.srv.Create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/etcd": ""}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", KernelVersion: "6.1", Architecture: "amd64"},
		},
	}))
	must(t, f.srv.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}))
	must(t, f.srv.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"}, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": nil}}))
	must(t, f.srv.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}))
	for resource, want := range map[string]string{
		"nodes":      "[n Ready,SchedulingDisabled etcd,worker * v1.37.2 10.0.0.1 <none> <unknown> 6.1 (amd64) <unknown>]",
		"namespaces": "[ns Active *]",
		"configmaps": "[cm 2 *]",
		"secrets":    "[s *]",
	} {
		var table metav1.Table
		got := f.get("/api/v1/"+resource+"?includeObject=None", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
		must(t, json.Unmarshal(got.body, &table))
		row := table.Rows[0]
		for i, column := range table.ColumnDefinitions {
			if column.Name == "Age" {
				row.Cells[i] = "*"
			}
		}
		if cells := fmt.Sprint(row.Cells); cells != want || len(row.Cells) != len(table.ColumnDefinitions) || row.Object.Raw != nil {
			t.Errorf("%s: %s with %d columns and object %s, want %s", resource, cells, len(table.ColumnDefinitions), row.Object.Raw, want)
		}
	}
}
