package listwatch

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// requests serves handler and notes each request.
type requests struct {
	*httptest.Server
	mu  sync.Mutex
	all []*http.Request
}

func note(t testing.TB, handler http.HandlerFunc) *requests {
	r := &requests{}
	r.Server = serve(t, func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.all = append(r.all, req)
		r.mu.Unlock()
		handler(w, req)
	})
	return r
}

func (r *requests) seen() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

const emptyList = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`

// All of metav1.ListOptions reaches the server, as client-go would write it. A
// field that a later apimachinery adds fails this test.
func TestRequestHasAllOfListOptions(t *testing.T) {
	yes, seconds := true, int64(300)
	opts := metav1.ListOptions{
		TypeMeta:             metav1.TypeMeta{Kind: "ListOptions", APIVersion: "v1"},
		LabelSelector:        "app in (a,b),!x",
		FieldSelector:        "spec.nodeName=node-a",
		Watch:                true,
		AllowWatchBookmarks:  true,
		ResourceVersion:      "42",
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		TimeoutSeconds:       &seconds,
		Limit:                500,
		Continue:             "a/b+c=",
		SendInitialEvents:    &yes,
		ShardSelector:        "shardRange(object.metadata.uid, '0x0', '0x8')",
	}
	for i := range reflect.TypeOf(opts).NumField() {
		if reflect.ValueOf(opts).Field(i).IsZero() {
			t.Fatalf("this test does not set %s", reflect.TypeOf(opts).Field(i).Name)
		}
	}
	want := url.Values{
		"labelSelector": {"app in (a,b),!x"}, "fieldSelector": {"spec.nodeName=node-a"}, "allowWatchBookmarks": {"true"},
		"resourceVersion": {"42"}, "resourceVersionMatch": {"NotOlderThan"}, "timeoutSeconds": {"300"}, "limit": {"500"},
		"continue": {"a/b+c="}, "sendInitialEvents": {"true"}, "shardSelector": {"shardRange(object.metadata.uid, '0x0', '0x8')"},
	}
	server := note(t, answerWith(200, mediaJSON, emptyList))
	lw := newFor[*corev1.Pod](t, server.URL, nil)
	if _, err := lw.List(t.Context(), opts, &recorder[*corev1.Pod]{}); err != nil {
		t.Fatal(err)
	}
	opts.Watch = false
	stream, err := lw.Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	stream.Stop()
	diff(t, "query of a LIST", server.seen()[0].URL.Query(), want) // no watch
	want["watch"] = []string{"true"}
	diff(t, "query of a WATCH", server.seen()[1].URL.Query(), want)
	if m, p := server.seen()[0].Method, server.seen()[0].URL.Path; m != "GET" || p != "/api/v1/pods" {
		t.Errorf("request is %s %s", m, p)
	}
	shown := publicURL(&url.URL{Scheme: "http", Host: "h", Path: "/p", RawQuery: want.Encode() + "&token=secret", User: url.UserPassword("u", "p")})
	if u, err := url.Parse(shown); err != nil || len(u.Query()) != len(want) || strings.Contains(shown, "secret") || strings.Contains(shown, "a%2Fb") || u.User != nil {
		t.Errorf("public URL is %s", shown)
	}
}

func TestSelectorsAreANDed(t *testing.T) {
	for _, c := range []struct {
		label labels.Selector
		field fields.Selector
		opts  metav1.ListOptions
		want  url.Values
	}{
		{nil, nil, metav1.ListOptions{}, url.Values{}},
		{labels.Everything(), fields.Everything(), metav1.ListOptions{}, url.Values{}},
		{labels.SelectorFromSet(labels.Set{"a": "b"}), fields.OneTermEqualSelector("spec.nodeName", "n"), metav1.ListOptions{},
			url.Values{"labelSelector": {"a=b"}, "fieldSelector": {"spec.nodeName=n"}}},
		{labels.SelectorFromSet(labels.Set{"a": "b"}), fields.OneTermEqualSelector("spec.nodeName", "n"),
			metav1.ListOptions{LabelSelector: "c", FieldSelector: "status.phase!=Failed"},
			url.Values{"labelSelector": {"a=b,c"}, "fieldSelector": {"spec.nodeName=n,status.phase!=Failed"}}},
		{nil, fields.OneTermEqualSelector("spec.nodeName", "n"), metav1.ListOptions{LabelSelector: "c", FieldSelector: "spec.nodeName=n"},
			url.Values{"labelSelector": {"c"}, "fieldSelector": {"spec.nodeName=n"}}},
	} {
		server := note(t, answerWith(200, mediaJSON, emptyList))
		if _, _, err := list[*corev1.Pod](t, server.URL, c.opts, func(conf *Config) { conf.LabelSelector, conf.FieldSelector = c.label, c.field }); err != nil {
			t.Fatal(err)
		}
		diff(t, "query", server.seen()[0].URL.Query(), c.want)
	}
}

func TestPathOfTheCollection(t *testing.T) {
	apps := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for _, c := range []struct {
		suffix, namespace string
		resource          schema.GroupVersionResource
		want              string
	}{
		{"", "", pods, "/api/v1/pods"},
		{"/", "kube-system", pods, "/api/v1/namespaces/kube-system/pods"},
		{"", "", apps, "/apis/apps/v1/deployments"},
		{"/k8s/clusters/c-1/", "x", apps, "/k8s/clusters/c-1/apis/apps/v1/namespaces/x/deployments"},
	} {
		server := note(t, answerWith(200, mediaJSON, emptyList))
		_, _, err := list[*corev1.Pod](t, server.URL+c.suffix, metav1.ListOptions{}, func(conf *Config) { conf.Namespace, conf.Resource = c.namespace, c.resource })
		if err != nil {
			t.Fatal(err)
		}
		if got := server.seen()[0].URL.Path; got != c.want {
			t.Errorf("path is %s, want %s", got, c.want)
		}
	}
}

func TestAcceptHeader(t *testing.T) {
	const both = "application/vnd.kubernetes.protobuf, application/json"
	for _, c := range []struct {
		encoding EncodingPolicy
		want     string
	}{
		{EncodingAuto, both}, {EncodingJSON, mediaJSON}, {EncodingProtobuf, mediaProtobuf},
	} {
		server := note(t, answerWith(200, mediaJSON, emptyList))
		if _, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(conf *Config) { conf.Encoding = c.encoding }); err != nil {
			t.Fatal(err)
		}
		if got := server.seen()[0].Header.Get("Accept"); got != c.want {
			t.Errorf("Accept is %q, want %q", got, c.want)
		}
	}
	server := note(t, answerWith(200, mediaJSON, emptyList))
	if _, _, err := list[*unstructured.Unstructured](t, server.URL, metav1.ListOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := server.seen()[0].Header.Get("Accept"); got != mediaJSON {
		t.Errorf("Accept for a type without protobuf is %q", got)
	}
}

// "A server that answers 406 or 415 to that gets the same request once more
// with JSON alone, and the ListerWatcher asks for JSON alone from then on."
func TestFallsBackToJSON(t *testing.T) {
	for _, code := range []int{406, 415} {
		server := note(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept"), "protobuf") {
				answerWith(code, mediaProtobuf, "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x09\x12\x07Failure")(w, r)
				return
			}
			answerWith(200, mediaJSON, emptyList)(w, r)
		})
		lw := newFor[*corev1.Pod](t, server.URL, nil)
		for range 2 {
			if _, err := lw.List(t.Context(), metav1.ListOptions{ResourceVersion: "7"}, &recorder[*corev1.Pod]{}); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := lw.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stream.Stop()
		var accepts []string
		for _, r := range server.seen() {
			accepts = append(accepts, r.Header.Get("Accept"))
		}
		diff(t, "Accept headers", accepts, []string{"application/vnd.kubernetes.protobuf, application/json", mediaJSON, mediaJSON, mediaJSON})
		if first, second := server.seen()[0].URL.String(), server.seen()[1].URL.String(); first != second {
			t.Errorf("asked %s, then %s", first, second)
		}
	}
}

func TestFallBackIsNotForEverything(t *testing.T) {
	refuse := answerWith(406, mediaJSON, `{"kind":"Status","message":"no","reason":"NotAcceptable"}`)
	for encoding, want := range map[EncodingPolicy]int{EncodingAuto: 2, EncodingProtobuf: 1, EncodingJSON: 1} {
		server := note(t, refuse)
		lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) { c.Encoding = encoding })
		_, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
		mustFail(t, err, reason.Rejected)
		if n := len(server.seen()); n != want {
			t.Errorf("encoding %d: %d requests, want %d", encoding, n, want)
		}
		if lw.jsonOnly.Load() {
			t.Error("a server that refuses JSON too is remembered as one that has no protobuf")
		}
	}
}

func TestCompressionIsASetting(t *testing.T) {
	for _, c := range []struct {
		policy  Compression
		host    string
		disable bool
		want    bool
	}{
		{CompressionAuto, "https://10.0.0.1:6443", false, true},
		{CompressionAuto, "https://api.example", false, true},
		{CompressionAuto, "https://api.example", true, false},
		{CompressionAuto, "http://127.0.0.1:8001", false, false},
		{CompressionAuto, "http://127.8.0.1", false, false},
		{CompressionAuto, "http://[::1]:8001", false, false},
		{CompressionAuto, "http://localhost:8001", false, false},
		{CompressionOn, "http://localhost", true, true},
		{CompressionOff, "https://api.example", false, false},
	} {
		lw, err := New[*corev1.Pod](Config{REST: &rest.Config{Host: c.host, DisableCompression: c.disable}, Resource: pods, Compression: c.policy})
		if err != nil {
			t.Fatal(err)
		}
		if lw.gzip != c.want {
			t.Errorf("%+v: asks for gzip: %t", c, lw.gzip)
		}
	}
	server := note(t, answerWith(200, mediaJSON, emptyList))
	if _, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if got, sent := server.seen()[0].Header["Accept-Encoding"]; sent {
		t.Errorf("Accept-Encoding on loopback is %q", got)
	}
}
