package listwatchtest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// These tests compare answers with those of a real kube-apiserver 1.37.2, byte
// for byte: testdata/wire has them as they came over the connection.

// curl is the User-Agent of most specimens; with it answers are pretty.
const curl = "User-Agent: curl/8"

// sameAnswer compares status, headers and body. Values that are random or a
// time are not compared, but must be there.
func sameAnswer(t *testing.T, got, want answer) {
	t.Helper()
	if got.code != want.code {
		t.Errorf("status %d, a real server says %d", got.code, want.code)
	}
	for _, header := range []http.Header{got.header, want.header} {
		for _, name := range []string{"Date", "Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"} {
			if header.Get(name) != "" {
				header.Set(name, "*")
			}
		}
	}
	if diff := gocmp.Diff(want.header, got.header); diff != "" {
		t.Errorf("headers differ from a real server's (-real +got):\n%s", diff)
	}
	if got.length != want.length {
		t.Errorf("Content-Length %d (-1: chunked), a real server says %d", got.length, want.length)
	}
	if !bytes.Equal(got.body, want.body) {
		t.Errorf("body differs from a real server's (-real +got):\n%s", gocmp.Diff(string(want.body), string(got.body)))
	}
}

func TestErrorsAreWordedAsARealServersAre(t *testing.T) {
	t.Parallel()
	open := Config{FreshWait: -1}
	for _, c := range []struct {
		specimen string
		config   Config
		target   string
		headers  []string
		setup    func(f *fixture)
	}{
		{specimen: "error-bad-continue", config: open, target: query(podsPath, "continue", "garbage"), headers: []string{curl}},
		{specimen: "error-forbidden", headers: []string{curl, "Authorization: Bearer t"}, target: podsPath, config: Config{
			Tokens: map[string]string{"t": "weak"}, Authorize: func(Access) bool { return false },
		}},
		{specimen: "error-unauthorized", config: Config{Tokens: map[string]string{"t": "weak"}}, target: podsPath, headers: []string{curl, "Authorization: Bearer other"}},
		{specimen: "error-invalid-field-selector", config: open, target: query(podsPath, "fieldSelector", "spec.bogus=1"), headers: []string{curl}},
		{specimen: "error-list-rv-exact-expired", config: open, target: query(podsPath, "resourceVersion", "220", "resourceVersionMatch", "Exact"),
			setup: func(f *fixture) { f.reach(367); f.srv.Compact(367) }},
		{specimen: "error-list-rv-too-large", config: open, target: query(podsPath, "resourceVersion", "99999999"), headers: []string{curl},
			setup: func(f *fixture) { f.reach(343) }},
		{specimen: "error-not-acceptable", config: open, target: podsPath, headers: []string{curl, "Accept: text/xml"}},
		{specimen: "watch-cbor", config: open, target: query(podsPath, "watch", "true"), headers: []string{curl, "Accept: application/yaml"}},
		{specimen: "error-not-found-resource", config: open, target: "/api/v1/bogus", headers: []string{curl}},
		{specimen: "error-watch-rv-garbage", config: open, target: query(podsPath, "watch", "true", "resourceVersion", "abc"), headers: []string{curl}},
		{specimen: "list-empty-json", config: open, target: podsPath, headers: []string{curl}, setup: func(f *fixture) { f.reach(343) }},
		{specimen: "watch-expired-json", config: open, target: query(podsPath, "watch", "true", "resourceVersion", "220"),
			setup: func(f *fixture) { f.reach(367); f.srv.Compact(367) }},
		{specimen: "watch-expired-proto", config: open, target: query(podsPath, "watch", "true", "resourceVersion", "220"),
			headers: []string{"Accept: application/vnd.kubernetes.protobuf"}, setup: func(f *fixture) { f.reach(367); f.srv.Compact(367) }},
	} {
		t.Run(c.specimen, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, c.config)
			if c.setup != nil {
				c.setup(f)
			}
			want := specimen(t, c.specimen)
			if want.code == http.StatusNotAcceptable {
				// The specimens are of a server with the CBOR feature gate on.
				want.body = bytes.ReplaceAll(want.body, []byte(", application/cbor-seq"), nil)
				want.body = bytes.ReplaceAll(want.body, []byte(", application/cbor"), nil)
				want.length = int64(len(want.body))
				want.header.Set("Content-Length", strconv.Itoa(len(want.body)))
			}
			sameAnswer(t, f.get(c.target, c.headers...), want)
		})
	}
}

func TestExpiredContinueTokenIsAnsweredWithAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	for _, name := range []string{"cart-0", "cart-1", "cart-2"} {
		must(t, f.srv.Create(testPod(name, "node-a")))
	}
	token := f.get(query(podsPath, "limit", "2")).podList(t).Continue
	must(t, f.srv.Delete(testPod("cart-0", "")))
	must(t, f.srv.Create(testPod("cart-9", "node-a")))
	f.srv.Compact(f.srv.ResourceVersion())
	expired := f.get(query(podsPath, "limit", "2", "continue", token))
	sameAnswer(t, expired, specimen(t, "error-continue-expired"))

	rest := f.get(query(podsPath, "limit", "2", "continue", expired.status(t).Continue)).podList(t)
	if got := names(rest); got != "cart-2 cart-9" {
		t.Errorf("the second token goes on with %q, want the latest state after cart-1", got)
	}
}

// load puts the objects of a specimen into the server, at their versions.
func (f *fixture) load(pods []corev1.Pod) {
	f.t.Helper()
	rv := func(p corev1.Pod) uint64 {
		n, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
		must(f.t, err)
		return n
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(rv(a), rv(b)) })
	for _, pod := range pods {
		f.reach(rv(pod) - 1)
		pod.ResourceVersion = ""
		must(f.t, f.srv.Create(&pod))
	}
}

// loadOthers adds the two pods that were there when a real server was asked for
// pages, and are in no specimen, and reaches the version of that moment.
func (f *fixture) loadOthers() {
	f.t.Helper()
	must(f.t, f.srv.Create(testPod("zz-0", "node-b")))
	must(f.t, f.srv.Create(testPod("zz-1", "node-b")))
	f.reach(343)
}

// realPods are the pods of the specimens other than list-compact-json.
func realPods(t *testing.T) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	dec := json.NewDecoder(bytes.NewReader(specimen(t, "watchlist-json").body))
	for {
		var ev struct {
			Type   string
			Object corev1.Pod
		}
		switch err := dec.Decode(&ev); {
		case err == io.EOF:
			return pods
		case err != nil:
			t.Fatal(err)
		case ev.Type == "ADDED":
			pods = append(pods, ev.Object)
		}
	}
}

func TestListsAreThoseOfARealServer(t *testing.T) {
	t.Parallel()
	compact := specimen(t, "list-compact-json").podList(t)
	f := newFixture(t, Config{})
	f.load(compact.Items)
	f.reach(367)
	t.Run("list-compact-json", func(t *testing.T) {
		sameAnswer(t, f.get(podsPath), specimen(t, "list-compact-json"))
	})

	f = newFixture(t, Config{})
	f.load(realPods(t))
	t.Run("list-proto", func(t *testing.T) {
		f.reach(338)
		want := specimen(t, "list-proto")
		got := f.get(podsPath, "Accept: application/vnd.kubernetes.protobuf")
		sameAnswer(t, got, want)
	})
	f.loadOthers()
	for name, accept := range map[string]string{
		"list-page1-json":         "application/json",
		"list-metadata-only-json": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	} {
		t.Run(name, func(t *testing.T) {
			sameAnswer(t, f.get(query(podsPath, "limit", "2"), curl, "Accept: "+accept), specimen(t, name))
		})
	}
}

func TestTableIsThatOfARealServer(t *testing.T) {
	t.Parallel()
	pods := realPods(t)
	want := specimen(t, "list-table-json")
	date, err := http.ParseTime(want.header.Get("Date"))
	must(t, err)
	// Virtual time, so that ages are those of the moment of the specimen.
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.load(pods)
		f.loadOthers()
		time.Sleep(time.Until(date))
		got := f.get(query(podsPath, "limit", "2"), curl, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1")
		sameAnswer(t, got, want)
	})
}

func TestWatchListsAreThoseOfARealServer(t *testing.T) {
	t.Parallel()
	pods := realPods(t)
	params := []string{
		"watch", "true", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan", "allowWatchBookmarks", "true", "timeoutSeconds", "1",
	}
	for name, headers := range map[string][]string{
		"watchlist-json":      nil,
		"watchlist-proto":     {"Accept: application/vnd.kubernetes.protobuf"},
		"watchlist-json-gzip": {"Accept-Encoding: gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := specimen(t, name)
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{})
				f.load(pods)
				f.reach(343)
				got := f.get(query(podsPath, params...), headers...)
				sameAnswer(t, got, want)
			})
		})
	}
}

func TestWatchFromTheFutureIsSilent(t *testing.T) {
	t.Parallel()
	want := specimen(t, "watch-future-rv-json")
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		must(t, f.srv.Create(testPod("p", "node-a")))
		got := f.get(query(podsPath, "watch", "true", "resourceVersion", "99999999", "timeoutSeconds", "2"))
		sameAnswer(t, got, want)
	})
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	out, err := io.ReadAll(r)
	must(t, err)
	return out
}
