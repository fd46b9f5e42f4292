package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The pods of a real server are the same to us and to client-go, in both
// encodings, and share no memory with the bytes.
func TestPodsAreWhatClientGoDecodes(t *testing.T) {
	d := mustNew[*corev1.Pod](t)
	pods := 0
	for _, name := range []string{"watch-churn-json", "watchlist-json", "watchlist-sharded"} {
		for _, raw := range wire(t, name) {
			pods++
			want := clientGo(t, "application/json", raw).(*corev1.Pod)
			text := bytes.Clone(raw)
			fromJSON, err := d.Decode(JSON, text)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(text)
			if !reflect.DeepEqual(want, fromJSON) {
				t.Errorf("%s: JSON (-client-go +ours):\n%s", want.Name, cmp.Diff(want, fromJSON))
			}

			wire := enveloped(t, "v1", "Pod", want)
			want = clientGo(t, "application/vnd.kubernetes.protobuf", wire).(*corev1.Pod)
			e, err := Unwrap(wire)
			if err != nil {
				t.Fatal(err)
			}
			fromPB, err := d.Decode(e.Encoding, e.Raw)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(wire)
			if !reflect.DeepEqual(want, fromPB) {
				t.Errorf("%s: protobuf (-client-go +ours):\n%s", want.Name, cmp.Diff(want, fromPB))
			}
		}
	}
	if pods < 20 {
		t.Errorf("only %d pods compared", pods)
	}
}

func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// Fields whose two forms differ most: times, quantities, bytes, int-or-string.
func TestOtherTypes(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", Namespace: "n", CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0)),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}}}
	compareType(t, "v1", "Secret", &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": {0, 1, 255}}})
	compareType(t, "v1", "Node", &corev1.Node{ObjectMeta: meta, Status: corev1.NodeStatus{
		Capacity: corev1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("7Gi")}}})
	port := intstr.FromString("http")
	compareType(t, "v1", "Service", &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: port}, {Port: 81, TargetPort: intstr.FromInt32(8081)}}}})
	replicas := int32(3)
	compareType(t, "apps/v1", "Deployment", &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas}})
}

type apiObject interface {
	metav1.Object
	Marshal() ([]byte, error)
}

func compareType[T apiObject](t *testing.T, apiVersion, kind string, obj T) {
	t.Run(kind, func(t *testing.T) {
		d := mustNew[T](t)
		if got, want := d.Encodings(), []Encoding{Protobuf, JSON}; !reflect.DeepEqual(got, want) {
			t.Errorf("Encodings() = %v, want %v", got, want)
		}
		wire := enveloped(t, apiVersion, kind, obj)
		want := clientGo(t, "application/vnd.kubernetes.protobuf", wire)
		e, err := Unwrap(wire)
		if err != nil || string(e.Kind) != kind || string(e.APIVersion) != apiVersion {
			t.Fatalf("%q %q, %v", e.APIVersion, e.Kind, err)
		}
		if got, err := d.Decode(Protobuf, e.Raw); err != nil || !reflect.DeepEqual(any(got), any(want)) {
			t.Errorf("protobuf: %v\n%s", err, cmp.Diff(any(want), any(got)))
		}
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte(`{"apiVersion":"`+apiVersion+`","kind":"`+kind+`",`), text[1:]...)
		want = clientGo(t, "application/json", text)
		if got, err := d.Decode(JSON, text); err != nil || !reflect.DeepEqual(any(got), any(want)) {
			t.Errorf("JSON: %v\n%s", err, cmp.Diff(any(want), any(got)))
		}
	})
}

func TestUnstructuredKeepsItsKind(t *testing.T) {
	d := mustNew[*unstructured.Unstructured](t)
	if got, want := d.Encodings(), []Encoding{JSON}; !reflect.DeepEqual(got, want) {
		t.Errorf("Encodings() = %v, want %v", got, want)
	}
	u, err := d.Decode(JSON, []byte(`{"kind":"Widget","apiVersion":"x/v1","metadata":{"name":"w"},"spec":{"n":9007199254740993,"f":1.5}}`))
	if err != nil {
		t.Fatal(err)
	}
	if u.GetKind() != "Widget" || u.GetAPIVersion() != "x/v1" || u.GetName() != "w" {
		t.Errorf("got %v", u.Object)
	}
	if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "n"); n != 9007199254740993 {
		t.Errorf("a large integer became %d", n)
	}
	if _, err := d.Decode(Protobuf, nil); err == nil {
		t.Error("unstructured content was read from protobuf")
	}

	// An item of a list of built-in types does not say its kind; Meta does.
	o := NewObject(Meta{APIVersion: "v1", Kind: "Pod"}, JSON, []byte(`{"metadata":{"name":"p"}}`), d)
	if u, err = o.Decode(); err != nil || u.GetKind() != "Pod" || u.GetAPIVersion() != "v1" {
		t.Errorf("got %v, %v", u, err)
	}
}

func TestPartialObjectMetadataReadsAnyKind(t *testing.T) {
	d := mustNew[*metav1.PartialObjectMetadata](t)
	for _, raw := range wire(t, "watchlist-json") {
		pod := clientGo(t, "application/json", raw).(*corev1.Pod)
		p, err := d.Decode(JSON, raw)
		if err != nil || !reflect.DeepEqual(p.ObjectMeta, pod.ObjectMeta) {
			t.Errorf("JSON: %v\n%s", err, cmp.Diff(pod.ObjectMeta, p.ObjectMeta))
		}
		b, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		p, err = d.Decode(Protobuf, b)
		if err != nil || p.Name != pod.Name || p.UID != pod.UID || !reflect.DeepEqual(p.Labels, pod.Labels) {
			t.Errorf("protobuf: %v, %v", p, err)
		}
	}
}

// slim has ObjectMeta's Unmarshal, which reads something else than slim's protobuf.
type slim struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct{ NodeName string } `json:"spec"`
}

func TestSlimStruct(t *testing.T) {
	d := mustNew[*slim](t)
	if got, want := d.Encodings(), []Encoding{JSON}; !reflect.DeepEqual(got, want) {
		t.Fatalf("Encodings() = %v, want %v: the embedded Unmarshal was taken for the struct's", got, want)
	}
	s, err := d.Decode(JSON, []byte(`{"kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"no","NodeName":"n1"}}`))
	if err != nil || s.Name != "p" || s.Spec.NodeName != "n1" {
		t.Errorf("%+v, %v: keys should be case-sensitive", s, err)
	}
	if _, err := d.Decode(Protobuf, []byte{}); err == nil {
		t.Error("a slim struct was read from protobuf")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, make := range map[string]func() (any, error){
		"struct":    func() (any, error) { return New[corev1.Pod]() },
		"interface": func() (any, error) { return New[metav1.Object]() },
		"map":       func() (any, error) { return New[map[string]any]() },
		"pointer":   func() (any, error) { return New[**corev1.Pod]() },
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), "pointer to a struct") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	d := mustNew[*corev1.Pod](t)
	u := mustNew[*unstructured.Unstructured](t)
	for _, text := range []string{``, ` `, `null`, `[]`, `"x"`, `7`, `{`, `{} {}`, `{"a":}`} {
		if p, err := d.Decode(JSON, []byte(text)); err == nil || p != nil {
			t.Errorf("%q as a Pod: %v, %v", text, p, err)
		}
		if p, err := u.Decode(JSON, []byte(text)); err == nil || p != nil {
			t.Errorf("%q unstructured: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{`{"metadata":[]}`, `{"spec":{"restartPolicy":7}}`, `{"metadata":{"creationTimestamp":"x"}}`} {
		if p, err := d.Decode(JSON, []byte(text)); err == nil || p != nil {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for _, b := range []string{"\x0a", "\x0a\x05ab", "\x08\x01", "\x0c"} {
		if p, err := d.Decode(Protobuf, []byte(b)); err == nil || p != nil {
			t.Errorf("%q: %v, %v", b, p, err)
		}
	}
	if p, err := d.Decode(0, []byte(`{}`)); err == nil || p != nil {
		t.Errorf("encoding 0: %v, %v", p, err)
	}
}

type explosive struct{ metav1.TypeMeta }

func (*explosive) UnmarshalJSON([]byte) error { panic("boom") }

func TestPanicIsAnError(t *testing.T) {
	p, err := mustNew[*explosive](t).Decode(JSON, []byte(`{}`))
	if err == nil || p != nil || !strings.Contains(err.Error(), "panicked: boom") {
		t.Errorf("%v, %v", p, err)
	}
}

func TestUndecodable(t *testing.T) {
	boom := errors.New("boom")
	o := Undecodable[*corev1.Pod](Meta{Name: "p"}, boom)
	if p, err := o.Decode(); p != nil || err != boom {
		t.Errorf("%v, %v", p, err)
	}
	if o.Meta.Key().String() != "p" || (Key{"n", "p"}).String() != "n/p" {
		t.Error("keys")
	}
}

func TestEncodingNames(t *testing.T) {
	if JSON.String() != "json" || Protobuf.String() != "protobuf" || Encoding(0).String() != "unknown" {
		t.Error(JSON, Protobuf, Encoding(0))
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range [][2]string{
		{KindOf[*corev1.Pod](), "Pod"}, {KindOf[appsv1.Deployment](), "Deployment"},
		{KindOf[*unstructured.Unstructured](), ""}, {KindOf[*metav1.PartialObjectMetadata](), "PartialObjectMetadata"}, {KindOf[*slim](), ""}, {KindOf[any](), ""},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
}
