package decode

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func unknown(t testing.TB, u runtime.Unknown) []byte {
	t.Helper()
	b, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(Magic), b...)
}

func TestUnwrap(t *testing.T) {
	typeMeta := runtime.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	for contentType, want := range map[string]Encoding{
		"": Protobuf, "application/vnd.kubernetes.protobuf": Protobuf, "application/json": JSON, "application/json; charset=utf-8": JSON,
	} {
		e, err := Unwrap(unknown(t, runtime.Unknown{TypeMeta: typeMeta, Raw: []byte("abc"), ContentType: contentType}))
		if err != nil || string(e.APIVersion) != "apps/v1" || string(e.Kind) != "Deployment" || string(e.Raw) != "abc" || e.Encoding != want {
			t.Errorf("%q: %+v, %v", contentType, e, err)
		}
	}
	for name, b := range map[string][]byte{
		"no prefix":             []byte("abc"),
		"half a prefix":         []byte("k8s"),
		"JSON":                  []byte(`{"kind":"Pod"}`),
		"unknown content type":  unknown(t, runtime.Unknown{ContentType: "text/html"}),
		"compressed":            unknown(t, runtime.Unknown{ContentEncoding: "gzip"}),
		"number instead of raw": []byte(Magic + "\x10\x01"),
		"number in the type":    []byte(Magic + "\x0a\x02\x08\x01"),
		"garbage":               []byte(Magic + "\xff\xff"),
	} {
		if e, err := Unwrap(b); err == nil {
			t.Errorf("%s: %+v and no error", name, e)
		}
	}
}

// FuzzUnwrap: an envelope says what apimachinery's runtime.Unknown says.
func FuzzUnwrap(f *testing.F) {
	f.Add(unknown(f, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: []byte("abc")}))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Unwrap(b)
		if err != nil {
			return
		}
		var want runtime.Unknown
		if want.Unmarshal(b[len(Magic):]) != nil {
			return
		}
		// The last typeMeta counts here, apimachinery merges two.
		if strings.Count(string(b), "\x0a") > 1 {
			return
		}
		if string(e.APIVersion) != want.APIVersion || string(e.Kind) != want.Kind || string(e.Raw) != string(want.Raw) {
			t.Fatalf("%+v, apimachinery says %+v", e, want)
		}
	})
}

func TestStatus(t *testing.T) {
	text := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`
	want := clientGo(t, "application/json", []byte(text)).(*metav1.Status)
	fromJSON, err := Status(JSON, []byte(text))
	if err != nil || !reflect.DeepEqual(fromJSON, want) {
		t.Errorf("JSON: %+v, %v", fromJSON, err)
	}
	fromPB, err := Status(Protobuf, enveloped(t, "v1", "Status", want))
	if err != nil || !reflect.DeepEqual(fromPB, want) {
		t.Errorf("protobuf: %+v, %v", fromPB, err)
	}
	// Its kind is not asked for.
	if s, err := Status(JSON, []byte(strings.Replace(text, `"Status"`, `"Pod"`, 1))); err != nil || s.Code != 410 {
		t.Errorf("%+v, %v", s, err)
	}
	pod := enveloped(t, "v1", "Pod", &metav1.PartialObjectMetadata{})
	for name, body := range map[string]struct {
		enc Encoding
		b   string
	}{
		"empty":               {JSON, ""},
		"not a Status":        {JSON, `{"kind":"Pod","metadata":{"name":"p"}}`},
		"a pod":               {JSON, `{"kind":"Pod","status":{"phase":"Running"}}`},
		"html":                {JSON, `<html>`},
		"null":                {JSON, `null`},
		"no envelope":         {Protobuf, "\x0a\x00"},
		"JSON as protobuf":    {Protobuf, text},
		"protobuf, no Status": {Protobuf, string(pod)},
	} {
		if s, err := Status(body.enc, []byte(body.b)); err == nil || s != nil {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}
