package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

func TestPeekSaysWhatDecodeSays(t *testing.T) {
	var peeker Peeker
	for _, name := range []string{"watch-churn-json", "watchlist-json"} {
		for _, raw := range wire(t, name) {
			pod := clientGo(t, "application/json", raw).(*corev1.Pod)
			want := metaOf(pod, "v1", "Pod")
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, raw, "", "  "); err != nil {
				t.Fatal(err)
			}
			for _, text := range [][]byte{raw, pretty.Bytes()} {
				if got, err := peeker.Peek(JSON, text); err != nil || got != want {
					t.Errorf("JSON: %v\n%s", err, cmp.Diff(want, got))
				}
			}
			e, err := Unwrap(enveloped(t, "v1", "Pod", pod))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := peeker.PeekEnvelope(e); err != nil || got != want {
				t.Errorf("protobuf: %v\n%s", err, cmp.Diff(want, got))
			}
		}
	}
}

func TestPeekJSON(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"order free", `{"spec":{"metadata":{"name":"no"}},"metadata":{"labels":{"name":"no"},"uid":"u","name":"p"},"kind":"Pod","apiVersion":"v1"}`, "v1 Pod p u"},
		{"stops early", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},` + "\x00", "v1 Pod p"},
		{"case-sensitive", `{"Kind":"no","kind":"Pod","METADATA":{"name":"no"},"metadata":{"Name":"no","name":"p"}}`, "Pod p"},
		{"last wins", `{"kind":"no","kind":"Pod","metadata":{"name":"no","name":"p","uid":"u"}}`, "Pod p u"},
		{"twice metadata", `{"metadata":{"name":"no","uid":"u"},"metadata":{"name":"p"}}`, "p u"},
		{"nulls", `{"kind":null,"apiVersion":null,"metadata":null}`, ""},
		{"nulls inside", `{"metadata":{"name":"p","name":null,"annotations":null,"namespace":null}}`, "p"},
		{"escapes", `{"\u006bind":"\u0050od","metadata":{"na\u006de":"\ud83d\ude00\n\ud83d"}}`, "Pod \U0001f600\n\ufffd"},
		{"bookmark of a pod", `{"type":"x","kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"a":"b","k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}`, "Pod 9 end"},
		{"mark not true", `{"metadata":{"annotations":{"k8s.io/initial-events-end":"true","k8s.io/initial-events-end":"false"}}}`, ""},
		{"mark taken away", `{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"annotations":null}}`, ""},
		{"mark added to", `{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"annotations":{"a":"b"}}}`, "end"},
		{"nothing", `{}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := Peek(JSON, []byte(c.text))
			if got := line(m); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func line(m Meta) string {
	var words []string
	for _, w := range []string{m.APIVersion, m.Kind, m.Namespace, m.Name, string(m.UID), m.ResourceVersion} {
		if w != "" {
			words = append(words, w)
		}
	}
	if m.InitialEventsEnd {
		words = append(words, "end")
	}
	return strings.Join(words, " ")
}

func TestPeekRefuses(t *testing.T) {
	for _, text := range []string{`null`, `[]`, `7`, `"x"`, `<html>`, `{"kind":7}`, `{"metadata":[]}`, `{"metadata":{"name":{}}}`,
		`{"metadata":{"annotations":"x"}}`, `{"metadata":{"annotations":{"k8s.io/initial-events-end":true}}}`} {
		if m, err := Peek(JSON, []byte(text)); err == nil {
			t.Errorf("%s: %+v and no error", text, m)
		}
	}
	for _, b := range []string{"\x08\x01", "\x0a\x02\x08\x01", "\x0a\x04\x62\x02\x08\x01", "\xff"} {
		if m, err := Peek(Protobuf, []byte(b)); err == nil {
			t.Errorf("%q: %+v and no error", b, m)
		}
	}
	if _, err := Peek(0, []byte(`{}`)); err == nil {
		t.Error("encoding 0: no error")
	}
}

// "On error Meta holds what was read before it": the head of an object is enough,
// and a string that was cut off is not taken for a whole one.
func TestPeekOfAHead(t *testing.T) {
	pod := clientGo(t, "application/json", wire(t, "watch-churn-json")[0]).(*corev1.Pod)
	full := metaOf(pod, "v1", "Pod")
	text := wire(t, "watch-churn-json")[0]
	pb := enveloped(t, "v1", "Pod", pod)
	var jsonKnown, pbKnown int
	for i := 1; i < len(text); i++ {
		m, err := Peek(JSON, text[:i])
		if m == full {
			jsonKnown++
		} else if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("JSON cut at %d: %v", i, err)
		}
		partOf(t, m, full)
	}
	for i := len(Magic); i < len(pb); i++ {
		e, err := Unwrap(pb[:i])
		// Behind the object an envelope has two empty fields of two bytes.
		if err == nil && e.Raw != nil && i < len(pb)-4 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("protobuf cut at %d: %v", i, err)
		}
		m, _ := new(Peeker).PeekEnvelope(e)
		if m == full {
			pbKnown++
		}
		partOf(t, m, full)
	}
	if jsonKnown < len(text)/3 || pbKnown < len(pb)/2 {
		t.Errorf("all is known from %d of %d JSON heads and %d of %d protobuf heads", jsonKnown, len(text), pbKnown, len(pb))
	}
}

// partOf checks that m says nothing that full does not say.
func partOf(t *testing.T, m, full Meta) {
	t.Helper()
	for _, pair := range [][2]string{{m.APIVersion, full.APIVersion}, {m.Kind, full.Kind}, {m.Name, full.Name}, {m.Namespace, full.Namespace},
		{string(m.UID), string(full.UID)}, {m.ResourceVersion, full.ResourceVersion}} {
		if pair[0] != "" && pair[0] != pair[1] {
			t.Fatalf("%q instead of %q", pair[0], pair[1])
		}
	}
}

// Identify does not look behind the identity; Peek does.
func TestIdentifyStopsEarly(t *testing.T) {
	const head = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"7"`
	want := Meta{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "p", UID: "u", ResourceVersion: "7"}
	marked := want
	marked.InitialEventsEnd = true
	var p Peeker
	for text, full := range map[string]Meta{
		head + `,"annotations":{"k8s.io/initial-events-end":"true"}}}`: marked,
		head + `,"annotations":7}}`:                                    {},
		head + `,"name":"q"}}`:                                         {APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "q", UID: "u", ResourceVersion: "7"},
		head + "\x00":                                                  {},
		head:                                                           {},
	} {
		if m, err := p.Identify(JSON, []byte(text)); err != nil || m != want {
			t.Errorf("Identify(%s): %+v, %v", text, m, err)
		}
		m, err := p.Peek(JSON, []byte(text))
		if full == (Meta{}) && err == nil || full != (Meta{}) && (err != nil || m != full) {
			t.Errorf("Peek(%s): %+v, %v, want %+v", text, m, err, full)
		}
	}
	// Where something of it is missing, all is read to find it.
	for _, text := range []string{
		`{"kind":"Node","apiVersion":"v1","metadata":{"name":"no","uid":"u","resourceVersion":"7","labels":{},"name":"n"}}`,
		`{"metadata":{"name":"n","namespace":"","uid":"u","resourceVersion":"7"},"kind":"Node","spec":{},"apiVersion":"v1"}`,
	} {
		m, err := p.Identify(JSON, []byte(text))
		if want := (Meta{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u", ResourceVersion: "7"}); err != nil || m != want {
			t.Errorf("Identify(%s): %+v, %v", text, m, err)
		}
	}
}

// The same in protobuf: what comes behind the identity is for a bookmark, and the identity is read from wherever it stands.
func TestIdentifyProtobuf(t *testing.T) {
	field := func(n int, text string) string { return string([]byte{byte(n<<3 | 2), byte(len(text))}) + text }
	const mark = "k8s.io/initial-events-end"
	name, namespace, uid, version := field(1, "p"), field(3, "n"), field(5, "u"), field(6, "7")
	marked := field(12, field(1, mark)+field(2, "true"))
	want := Meta{Namespace: "n", Name: "p", UID: "u", ResourceVersion: "7"}
	clusterWide, end := want, want
	clusterWide.Namespace, end.InitialEventsEnd = "", true
	var p Peeker
	for what, tc := range map[string]struct {
		metadata       string
		identity, full Meta // the zero Meta is an error
	}{
		"in order":             {name + namespace + uid + version + marked, want, end},
		"damaged behind":       {name + namespace + uid + version + "\x60\x01", want, Meta{}},
		"name again behind":    {name + namespace + uid + version + field(1, "q"), want, Meta{Namespace: "n", Name: "q", UID: "u", ResourceVersion: "7"}},
		"other order":          {version + marked + uid + field(11, "") + name + namespace, end, end},
		"empty namespace":      {name + field(3, "") + uid + version + "\x60\x01", clusterWide, Meta{}},
		"no namespace":         {name + uid + version + marked, Meta{Name: "p", UID: "u", ResourceVersion: "7", InitialEventsEnd: true}, Meta{Name: "p", UID: "u", ResourceVersion: "7", InitialEventsEnd: true}},
		"damaged in front":     {name + "\x18\x01" + uid + version, Meta{}, Meta{}},
		"no namespace, damage": {name + uid + version + "\x60\x01", Meta{}, Meta{}},
	} {
		raw := []byte(field(1, tc.metadata))
		if m, err := p.Identify(Protobuf, raw); (err != nil) != (tc.identity == Meta{}) || err == nil && m != tc.identity {
			t.Errorf("%s: Identify: %+v, %v, want %+v", what, m, err, tc.identity)
		}
		if m, err := p.Peek(Protobuf, raw); (err != nil) != (tc.full == Meta{}) || err == nil && m != tc.full {
			t.Errorf("%s: Peek: %+v, %v, want %+v", what, m, err, tc.full)
		}
		e := Envelope{APIVersion: []byte("v1"), Kind: []byte("Pod"), Raw: raw, Encoding: Protobuf}
		if m, err := p.IdentifyEnvelope(e); err == nil && (m.Kind != "Pod" || m.Name != tc.identity.Name || m.InitialEventsEnd != tc.identity.InitialEventsEnd) {
			t.Errorf("%s: IdentifyEnvelope: %+v", what, m)
		}
	}
}

// PeekJSON says where the object ends.
func TestPeekToTheEnd(t *testing.T) {
	var p Peeker
	for _, raw := range wire(t, "watch-churn-json") {
		want, err := p.Peek(JSON, raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, behind := range []string{"", ",", "}", " {\"metadata\":{\"name\":\"no\"}}"} {
			m, end, err := p.PeekJSON([]byte(string(raw) + behind))
			if m != want || end != len(raw) || err != nil {
				t.Fatalf("%+v, %d, %v, want %+v, %d", m, end, err, want, len(raw))
			}
		}
		for cut := 0; cut < len(raw); cut += 97 {
			if m, end, err := p.PeekJSON(raw[:cut]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("cut at %d: %+v, %d, %v", cut, m, end, err)
			}
		}
	}
}

// A Meta is parts of what was peeked; a Clone is not.
func TestMetaIsOfTheBytes(t *testing.T) {
	for _, enc := range []Encoding{JSON, Protobuf} {
		raw := []byte(`{"kind":"Pod","metadata":{"name":"p"}}`)
		if enc == Protobuf {
			raw = []byte("\x0a\x03\x0a\x01p")
		}
		m, err := Peek(enc, raw)
		if err != nil {
			t.Fatal(err)
		}
		kept := m.Clone()
		clear(raw)
		if m.Name != "\x00" || kept.Name != "p" {
			t.Errorf("%v: after the bytes were overwritten the name is %q, and %q in the clone", enc, m.Name, kept.Name)
		}
	}
}

// "Peeker peeks many objects, one after another, without an allocation."
func TestPeekAllocations(t *testing.T) {
	text := wire(t, "watch-churn-json")[0]
	pod := clientGo(t, "application/json", text).(*corev1.Pod)
	e, err := Unwrap(enveloped(t, "v1", "Pod", pod))
	if err != nil {
		t.Fatal(err)
	}
	var p Peeker
	for name, peek := range map[string]func() (Meta, error){
		"JSON":     func() (Meta, error) { return p.Peek(JSON, text) },
		"identity": func() (Meta, error) { return p.Identify(JSON, text) },
		"end":      func() (Meta, error) { m, _, err := p.PeekJSON(text); return m, err },
		"protobuf": func() (Meta, error) { return p.PeekEnvelope(e) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if m, err := peek(); err != nil || m.Name != pod.Name {
				t.Fatal(m, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// FuzzPeek: what Peek says of bytes, a full decode says too, when both accept them.
func FuzzPeek(f *testing.F) {
	for _, raw := range wire(f, "watchlist-sharded") {
		pod := clientGo(f, "application/json", raw).(*corev1.Pod)
		b, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(raw))
		f.Add(b)
	}
	for _, s := range []string{`{"metadata":{"name":"a","annotations":{"k8s.io/initial-events-end":"true"}},"kind":"K"}`,
		`{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"annotations":null}}`, `{"kind":null}`, "\x0a\x05\x0a\x03abc"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		depthsAgree(t, raw)
		if m, err := Peek(Protobuf, raw); err == nil {
			var full metav1.PartialObjectMetadata
			if full.Unmarshal(raw) == nil {
				if want := metaOf(&full, "", ""); m != want {
					t.Fatalf("protobuf:\n%s", cmp.Diff(want, m))
				}
			}
		}
		if m, err := Peek(JSON, raw); err == nil && !repeats(raw) {
			var full metav1.PartialObjectMetadata
			if kjson.UnmarshalCaseSensitivePreserveInts(raw, &full) == nil {
				if want := metaOf(&full, full.APIVersion, full.Kind); m != want {
					t.Fatalf("JSON:\n%s", cmp.Diff(want, m))
				}
			}
		}
	})
}

// repeats tells whether a key of the object itself is there twice: Peek does not
// look behind where it has seen one of each.
func repeats(raw []byte) bool {
	strict, err := kjson.UnmarshalStrict(raw, &map[string]json.RawMessage{})
	return err != nil || len(strict) > 0
}

// depthsAgree: what is peeked less deeply is the same, and the end is where framing finds it.
func depthsAgree(t *testing.T, raw []byte) {
	t.Helper()
	var p Peeker
	whole, end, err := p.PeekJSON(raw)
	if err != nil {
		return
	}
	object := bytes.TrimLeft(raw, " \t\r\n")
	if size, err := frame.ValueEnd(object); err != nil || len(raw)-len(object)+size != end {
		t.Fatalf("ends at %d, framing says behind %d bytes, %v", end, size, err)
	}
	if repeatsAnywhere(raw[:end]) {
		return
	}
	full, err := p.Peek(JSON, raw)
	if err != nil || full != whole {
		t.Fatalf("to the end %+v, to the metadata %+v, %v", whole, full, err)
	}
	full.InitialEventsEnd = false
	identity, err := p.Identify(JSON, raw)
	identity.InitialEventsEnd = false
	if err != nil || identity != full {
		t.Fatalf("to the identity %+v, to the metadata %+v, %v", identity, full, err)
	}
}

// repeatsAnywhere tells whether a key of the object or of its metadata is there twice.
func repeatsAnywhere(raw []byte) bool {
	var members map[string]json.RawMessage
	if repeats(raw) || kjson.UnmarshalCaseSensitivePreserveInts(raw, &members) != nil {
		return true
	}
	return members["metadata"] != nil && repeats(members["metadata"])
}
