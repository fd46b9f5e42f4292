package listwatch

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// wholeList is what apimachinery makes of a body.
func wholeList(t testing.TB, body []byte) *corev1.PodList {
	t.Helper()
	list := &corev1.PodList{}
	if bytes.HasPrefix(body, []byte(decode.Magic)) {
		obj, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, list)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*corev1.PodList)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestListOfARealServerEqualsAFullDecode(t *testing.T) {
	for _, name := range []string{"list-json", "list-compact-json", "list-proto", "list-page1-json", "list-shard", "list-empty-json"} {
		t.Run(name, func(t *testing.T) {
			_, body := specimen(t, name)
			want := wholeList(t, body)
			server := serveSpecimen(t, name)
			asked := metav1.ListOptions{}
			if want.ShardInfo != nil {
				asked.ShardSelector = want.ShardInfo.Selector
			}
			sink, meta, err := list[*corev1.Pod](t, server.addr, asked, nil)
			if err != nil {
				t.Fatal(err)
			}
			if name != "list-empty-json" && len(want.Items) < 2 {
				t.Fatalf("the specimen has only %d items", len(want.Items))
			}
			diff(t, "returned metadata", meta, want.ListMeta)
			diff(t, "metadata handed on", sink.meta, []metav1.ListMeta{want.ListMeta})
			if sink.calls[0] != "meta" {
				t.Errorf("calls are %v, want meta first", sink.calls)
			}
			if len(sink.items) != len(want.Items) {
				t.Fatalf("%d items, want %d", len(sink.items), len(want.Items))
			}
			for i := range want.Items {
				if sink.errs[i] != nil || !reflect.DeepEqual(sink.items[i], &want.Items[i]) {
					t.Errorf("item %d: error %v, %s", i, sink.errs[i], want.Items[i].Name)
					diff(t, "item", sink.items[i], &want.Items[i])
				}
				if h := sink.heads[i]; h.Kind != "Pod" || h.APIVersion != "v1" || h.Name != want.Items[i].Name ||
					h.UID != want.Items[i].UID || h.ResourceVersion != want.Items[i].ResourceVersion {
					t.Errorf("item %d: metadata %+v", i, h)
				}
			}
		})
	}
}

func TestListOfMetadataOnly(t *testing.T) {
	server := serveSpecimen(t, "list-metadata-only-json")
	_, body := specimen(t, "list-metadata-only-json")
	var want metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	sink, meta, err := list[*metav1.PartialObjectMetadata](t, server.addr, metav1.ListOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "metadata", meta, want.ListMeta)
	for i, item := range want.Items {
		item.TypeMeta = metav1.TypeMeta{} // as client-go does, decoding clears what the type says
		diff(t, "item", sink.items[i], &item)
		if sink.heads[i].Kind != "PartialObjectMetadata" {
			t.Errorf("kind of item %d is %q", i, sink.heads[i].Kind)
		}
	}
	if got := server.seen()[0].Header.Get("Accept"); !strings.Contains(got, "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1") {
		t.Errorf("Accept is %q", got)
	}
}

func TestListRefusesWhatIsNoList(t *testing.T) {
	_, protoStatus := specimen(t, "list-proto")
	status := &metav1.Status{Status: "Failure", Message: "no"}
	raw, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}
	message, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, contentType, body, says string }{
		{"table", "application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`, "a Table, not a list"},
		{"table by type", "application/json;as=Table;g=meta.k8s.io;v=v1", `{}`, "Table"},
		{"status with 200", "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure"}`, "a Status, not a list"},
		{"protobuf status", "application/vnd.kubernetes.protobuf", decode.Magic + string(message), "a Status, not a list"},
		{"one pod", "application/json", `{"kind":"Pod","metadata":{"name":"a"}}`, "a Pod, not a list"},
		{"list of another kind", "application/json", `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}`, "a NodeList, not a PodList"},
		{"vowel", "application/json", `{"kind":"Ingress"}`, "an Ingress, not a list"},
		{"kind behind", "application/json", `{"items":[],"kind":"Table"}`, "a Table, not a list"},
		{"items of no list", "application/json", `{"kind":"Table","items":[{"metadata":{"name":"a"}}]}`, "a Table, not a list"},
		{"nothing", "application/json", `{}`, "without kind and items"},
		{"array", "application/json", `[]`, "'{' should stand here"},
		{"login page", "text/html; charset=utf-8", "<html><head><title>Sign in</title></head></html>", `"text/html; charset=utf-8" is neither JSON nor protobuf: Sign in`},
		{"html as json", "application/json", "<html>", "'{' should stand here"},
		{"cbor", "application/cbor", "\xd9\xd9\xf7", `"application/cbor" is neither JSON nor protobuf`},
		{"json as protobuf", "application/vnd.kubernetes.protobuf", `{"kind":"PodList"}`, "protobuf magic"},
		{"protobuf as json", "application/json", string(protoStatus), "'{' should stand here"},
		{"bad content type", "application/;;", "x", "neither JSON nor protobuf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, answerWith(200, c.contentType, c.body))
			sink, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
			e := mustFail(t, err, reason.Decode)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %q, want it to say %q", err, c.says)
			}
			if e.Code != 200 || strings.Contains(err.Error(), "\n") {
				t.Errorf("code %d, error %q", e.Code, err)
			}
			if len(sink.items) > 0 {
				t.Errorf("%d items of what is no list", len(sink.items))
			}
		})
	}
	t.Run("real table and cbor", func(t *testing.T) {
		for name, says := range map[string]string{"list-table-json": "a Table, not a list", "list-cbor": "application/cbor"} {
			sink, _, err := list[*corev1.Pod](t, serveSpecimen(t, name).addr, metav1.ListOptions{}, nil)
			mustFail(t, err, reason.Decode)
			if !strings.Contains(err.Error(), says) || len(sink.items) > 0 {
				t.Errorf("%s: %d items, error %q", name, len(sink.items), err)
			}
		}
	})
}

func TestListInAnyShape(t *testing.T) {
	const a, b = `{"metadata":{"name":"a"}}`, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"b"}}`
	for _, c := range []struct {
		name, body string
		calls      []string
		kinds      []string
		rv         string
	}{
		{"as a server writes it", `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[` + a + `]}`, []string{"meta", "a"}, []string{"Pod"}, "5"},
		{"items: null (F6)", `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":null}`, []string{"meta"}, nil, "9"},
		{"no items (F6)", `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"}}`, []string{"meta"}, nil, "9"},
		{"no metadata (F6)", `{"kind":"PodList","items":[]}`, []string{"meta"}, nil, ""},
		{"metadata: null", `{"kind":"PodList","metadata":null,"items":[` + a + `]}`, []string{"meta", "a"}, []string{"Pod"}, ""},
		{"alphabetical, as of custom resources", `{"apiVersion":"v1","items":[` + a + `,` + b + `],"kind":"PodList","metadata":{"resourceVersion":"5"}}`, []string{"a", "b", "meta"}, []string{"Pod", "Node"}, "5"},
		{"a list of anything", `{"kind":"List","apiVersion":"v1","items":[` + a + `]}`, []string{"a", "meta"}, []string{""}, ""},
		{"items without a kind", `{"items":[` + a + `]}`, []string{"a", "meta"}, []string{"Pod"}, ""},
		{"unknown members", `{"x":[{"items":[1]}],"kind":"PodList","items":[` + a + `],"y":{"kind":"Table"},"z":1.5e3}`, []string{"a", "meta"}, []string{"Pod"}, ""},
		{"blanks", " \r\n\t{ \"kind\" : \"PodList\" ,\n\"items\" : [ " + a + " , " + b + " ] }\n\n ", []string{"a", "b", "meta"}, []string{"Pod", "Node"}, ""},
		{"escaped keys", `{"k\u0069nd":"Pod\u004cist","items":[` + a + `]}`, []string{"a", "meta"}, []string{"Pod"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, answerWith(200, "application/json", c.body))
			sink, meta, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "calls", sink.calls, c.calls)
			var kinds []string
			for _, h := range sink.heads {
				kinds = append(kinds, h.Kind)
			}
			diff(t, "kinds", kinds, c.kinds)
			if meta.ResourceVersion != c.rv || sink.meta[0].ResourceVersion != c.rv {
				t.Errorf("resourceVersion %q, handed on %q, want %q", meta.ResourceVersion, sink.meta[0].ResourceVersion, c.rv)
			}
		})
	}
}

func TestListOfUnstructured(t *testing.T) {
	server := serve(t, answerWith(200, "application/json",
		`{"apiVersion":"x.io/v1","kind":"GadgetList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}`))
	sink, _, err := list[*unstructured.Unstructured](t, server.URL, metav1.ListOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k := sink.items[0].GroupVersionKind().String(); k != "x.io/v1, Kind=Gadget" {
		t.Errorf("kind is %s", k)
	}
}

func TestListOfABodyThatIsDamaged(t *testing.T) {
	const whole = `{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
	_, proto := specimen(t, "list-proto")
	for _, c := range []struct {
		name, contentType, body string
		reason                  reason.Reason
		items                   int
		says                    string
	}{
		{"ends in an item", "application/json", whole[:len(whole)-15], reason.Transport, 1, "unexpected EOF"},
		{"ends between items", "application/json", whole[:strings.LastIndex(whole, ",")], reason.Transport, 1, "unexpected EOF"},
		{"ends before the brace", "application/json", whole[:len(whole)-1], reason.Transport, 2, "unexpected EOF"},
		{"empty", "application/json", "", reason.Transport, 0, "body at byte 0: unexpected EOF"},
		{"garbage behind", "application/json", whole + " {}", reason.Decode, 2, "more bytes behind the list"},
		{"items are an object", "application/json", `{"kind":"PodList","items":{}}`, reason.Decode, 0, "'[' should stand here, not '{' at byte 26"},
		{"items are a word", "application/json", `{"kind":"PodList","items":nil}`, reason.Decode, 0, "neither an array nor null"},
		{"items twice", "application/json", `{"kind":"PodList","items":[],"items":[]}`, reason.Decode, 0, `"items": the list has it twice`},
		{"metadata is a word", "application/json", `{"kind":"PodList","metadata":true}`, reason.Decode, 0, "metadata of the list"},
		{"a bracket too many", "application/json", `{"kind":"PodList","items":[{"metadata":{"name":"a"}}}]}`, reason.Decode, 1, "a comma or the end should stand here"},
		{"protobuf ends early", mediaProtobuf, string(proto[:len(proto)/2]), reason.Transport, 3, "unexpected EOF"},
		{"protobuf ends in the magic", mediaProtobuf, "k8", reason.Transport, 0, "unexpected EOF"},
		// "A length prefix is checked before anything is allocated."
		{"protobuf with a huge length", mediaProtobuf, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x12\xff\xff\xff\xff\x7f", reason.Decode, 0, "1 GiB"},
		{"protobuf item beyond its list", mediaProtobuf, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x02\x12\x7f", reason.Decode, 0, "beyond the end"},
		{"protobuf number beyond its list", mediaProtobuf, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x01\x18\x05", reason.Decode, 0, "beyond the end"},
		{"protobuf metadata twice", mediaProtobuf, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x04\x0a\x00\x0a\x00", reason.Decode, 0, "metadata: the list has it twice"},
		{"protobuf list twice", mediaProtobuf, "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x00\x12\x00", reason.Decode, 0, "content: the list has it twice"},
		{"protobuf without a type", mediaProtobuf, "k8s\x00\x12\x00", reason.Decode, 0, "before its type"},
		{"protobuf garbage", mediaProtobuf, "k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", reason.Decode, 0, "at byte 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, answerWith(200, c.contentType, c.body))
			sink, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
			e := mustFail(t, err, c.reason)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %q, want it to say %q", err, c.says)
			}
			if c.reason == reason.Transport && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v is not io.ErrUnexpectedEOF", err)
			}
			if body := new(BodyError); !errors.As(e, &body) {
				t.Errorf("%v has no offset", err)
			}
			if len(sink.items) != c.items {
				t.Errorf("%d items before the fault, want %d", len(sink.items), c.items)
			}
		})
	}
	t.Run("cut by the transport", func(t *testing.T) {
		wire, _ := specimen(t, "list-json")
		server := serveRaw(t, func(*http.Request) []byte { return wire[:len(wire)-len("0\r\n\r\n")] })
		_, _, err := list[*corev1.Pod](t, server.addr, metav1.ListOptions{}, nil)
		mustFail(t, err, reason.Transport)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error is %v", err)
		}
	})
}

// "A frame or item over the limit (default 32 MiB) costs that item, not the
// stream." It "is handed on as undecodable, with the metadata that stood at its beginning."
func TestListItemOverTheLimitCostsItselfOnly(t *testing.T) {
	pod := func(name string, size int) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u", ResourceVersion: "7"},
			Status:     corev1.PodStatus{Message: strings.Repeat("x", size)},
		}
	}
	whole := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		Items: []corev1.Pod{pod("a", 10), pod("big", 100_000), pod("c", 10), pod("d", 10)}}
	asJSON, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var asProtobuf bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&whole, &asProtobuf); err != nil {
		t.Fatal(err)
	}
	for contentType, body := range map[string]string{mediaJSON: string(asJSON), mediaProtobuf: asProtobuf.String()} {
		server := serve(t, answerWith(200, contentType, body))
		sink, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) { c.MaxItemBytes = 50_000 })
		if err != nil {
			t.Fatalf("%s: %v", contentType, err)
		}
		diff(t, contentType+" calls", sink.calls, []string{"meta", "a", "big", "c", "d"})
		var large *frame.TooLargeError
		if !errors.As(sink.errs[1], &large) || large.Limit != 50_000 || large.Size < 100_000 {
			t.Errorf("%s: error of the large item is %v", contentType, sink.errs[1])
		}
		if h := sink.heads[1]; h.Namespace != "default" || h.UID != "u" || h.ResourceVersion != "7" || h.Kind != "Pod" {
			t.Errorf("%s: metadata of the large item is %+v", contentType, h)
		}
		for _, i := range []int{0, 2, 3} {
			if sink.errs[i] != nil {
				t.Errorf("%s: item %d: %v", contentType, i, sink.errs[i])
			}
		}
	}
}

func TestListItemThatIsNoObjectCostsItselfOnly(t *testing.T) {
	nest := strings.Repeat("[", frame.MaxDepth) + strings.Repeat("]", frame.MaxDepth)
	server := serve(t, answerWith(200, mediaJSON, `{"kind":"PodList","items":[7,null,{"metadata":{"name":"bad"},"spec":{"restartPolicy":7}},`+
		`{"metadata":{"name":"deep"},"odd":`+nest+`},{"metadata":{"name":"good"}}]}`))
	sink, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "calls", sink.calls, []string{"", "", "bad", "deep", "good", "meta"})
	for i, wantErr := range []bool{true, true, true, true, false} {
		if (sink.errs[i] != nil) != wantErr {
			t.Errorf("item %d: error %v", i, sink.errs[i])
		}
	}
}

// "An error ends the list and is returned as it is."
func TestListEndsWithTheSinksError(t *testing.T) {
	server := serveSpecimen(t, "list-json")
	full := errors.New("full")
	for _, sink := range []*recorder[*corev1.Pod]{
		{onItem: func(*decode.Object[*corev1.Pod]) error { return full }},
		{onMeta: func(metav1.ListMeta) error { return full }},
	} {
		_, err := newFor[*corev1.Pod](t, server.addr, nil).List(t.Context(), metav1.ListOptions{}, sink)
		if err != full {
			t.Errorf("error is %v, want the sink's own", err)
		}
		if len(sink.items) > 1 {
			t.Errorf("%d items behind the error", len(sink.items)-1)
		}
	}
}

func TestListInGzip(t *testing.T) {
	_, body := specimen(t, "list-json")
	want := wholeList(t, body)
	members := func(pieces ...[]byte) []byte {
		var b bytes.Buffer
		for _, p := range pieces {
			z := gzip.NewWriter(&b)
			z.Write(p)
			z.Close()
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		name   string
		coding string
		body   []byte
		want   reason.Reason
	}{
		{"one member", "gzip", members(body), ""},
		{"upper case", "GZIP", members(body), ""},
		{"other name", "x-gzip", members(body), ""},
		{"members", "gzip", members(body[:10], body[10:5000], nil, body[5000:]), ""},
		{"cut", "gzip", members(body)[:200], reason.Transport},
		{"empty", "gzip", nil, reason.Transport},
		{"not gzip", "gzip", body, reason.Decode},
		{"garbage behind", "gzip", append(members(body), "garbage behind it"...), reason.Decode},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked string
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.Header.Get("Accept-Encoding")
				w.Header().Set("Content-Type", mediaJSON)
				w.Header().Set("Content-Encoding", c.coding)
				w.Write(c.body)
			})
			lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) { c.Compression = CompressionOn })
			sink := &recorder[*corev1.Pod]{}
			_, err := lw.List(t.Context(), metav1.ListOptions{}, sink)
			if asked != "gzip" {
				t.Errorf("Accept-Encoding is %q", asked)
			}
			if c.want != "" {
				mustFail(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(sink.items) != len(want.Items) {
				t.Errorf("%d items, want %d", len(sink.items), len(want.Items))
			}
			if w, d := lw.Transfer().WireBytes(), lw.Transfer().DecodedBytes(); w != uint64(len(c.body)) || d != uint64(len(body)) {
				t.Errorf("counted %d bytes on the wire and %d decoded, want %d and %d", w, d, len(c.body), len(body))
			}
		})
	}
}

// "What kept UID and RV is untouched (no event, no decode, no allocation)": on the way to
// whoever finds that out, an item costs the one string of its name, UID and resourceVersion.
func TestAllocationsOfAnItem(t *testing.T) {
	const items = 1000
	var list corev1.PodList
	list.Kind, list.APIVersion, list.ResourceVersion = "PodList", "v1", "7"
	for i := range items {
		var pod corev1.Pod
		pod.Name, pod.Namespace, pod.ResourceVersion = fmt.Sprintf("pod-%d", i), "default", fmt.Sprint(1000+i)
		pod.UID = types.UID(fmt.Sprintf("uid-%d", i))
		pod.Spec.NodeName = "node"
		list.Items = append(list.Items, pod)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	message, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	lw := newFor[*corev1.Pod](t, "http://api.example", nil)
	sink := new(dropper)
	for name, read := range map[string]func() error{
		"JSON": func() error { return lw.newListReader(&attempt{}, sink, bytes.NewReader(text)).json() },
		"protobuf": func() error {
			return lw.newListReader(&attempt{}, sink, strings.NewReader(decode.Magic+string(message))).protobuf()
		},
	} {
		n := testing.AllocsPerRun(5, func() {
			*sink = 0
			if err := read(); err != nil || *sink != items {
				t.Fatalf("%d items, %v", *sink, err)
			}
		})
		const perList = 50 // the reader, its windows, the list's metadata
		if n > items+perList {
			t.Errorf("%s: %.2f allocations an item, want 1", name, (n-perList)/items)
		}
	}
}

// dropper is a Sink that drops what it gets.
type dropper int

func (*dropper) Meta(metav1.ListMeta) error               { return nil }
func (c *dropper) Item(*decode.Object[*corev1.Pod]) error { *c++; return nil }
