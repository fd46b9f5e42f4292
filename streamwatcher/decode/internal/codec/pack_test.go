package codec

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pack packs in the encoding of f.
func (f form) pack(p *Program, raw []byte) (string, error) {
	if f.name == "json" {
		return p.PackJSON(raw)
	}
	return p.PackProtobuf(raw)
}

// packs tells how raw decodes as it is and packed: the same, or both not.
func (f form) packs(t testing.TB, p *Program, raw []byte) verdict {
	t.Helper()
	packed, err := f.pack(p, append([]byte(nil), raw...))
	if err == nil && len(packed) > len(raw) {
		t.Fatalf("%s: packed is %d bytes, %d before: %q of %q", f.name, len(packed), len(raw), packed, raw)
	}
	return agree(t, raw, func(raw []byte) (any, error) {
		if err != nil {
			return nil, err
		}
		return f.private(p, []byte(packed))
	}, func(raw []byte) (any, error) { return f.private(p, raw) })
}

// fewOf is a struct of the caller's own.
type fewOf struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
		Volumes  []struct {
			Name      string `json:"name"`
			Projected *struct {
				Sources []struct {
					ServiceAccountToken *corev1.ServiceAccountTokenProjection `json:"serviceAccountToken"`
				} `json:"sources"`
			} `json:"projected"`
		} `json:"volumes"`
	} `json:"spec"`
}

// What is packed decodes to the same as before, whatever is left out and whatever is damaged.
func TestPackedIsEqual(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	type sample struct {
		p    *Program
		fill reflect.Type
	}
	pod := reflect.TypeFor[corev1.Pod]()
	samples := []sample{
		{mustCompile(t, pod, Config{}), pod},
		{mustCompile(t, pod, Config{EmptyTypeMeta: true, Drop: []string{"metadata.managedFields", "metadata.annotations[a]", "spec.containers.env", "spec.volumes", "status"}}), pod},
		{mustCompile(t, reflect.TypeFor[fewOf](), Config{Like: pod, EmptyTypeMeta: true, Drop: []string{"metadata.labels"}}), pod},
		{mustCompile(t, reflect.TypeFor[corev1.Secret](), Config{Drop: []string{"data[a]", "data[b]"}}), reflect.TypeFor[corev1.Secret]()},
	}
	for i, typ := range allTypes() {
		if _, ok := reflect.New(typ).Interface().(metav1.Object); ok && i%8 == 0 {
			samples = append(samples, sample{mustCompile(t, typ, Config{Drop: []string{"metadata.managedFields", "metadata.finalizers"}}), typ})
		}
	}
	var count [verdicts]int
	for i, s := range samples {
		fill := filler(int64(i))
		for range 6 {
			obj := reflect.New(s.fill).Interface()
			fill.Fill(obj)
			meta := obj.(metav1.Object)
			meta.SetAnnotations(map[string]string{"a": `x"]}`, "b": "{"})
			if secret, ok := obj.(*corev1.Secret); ok {
				secret.Data = map[string][]byte{"a": {1}, "b": nil, "c": {2}}
			}
			for _, f := range forms {
				raw, err := f.encode(obj)
				if err != nil {
					continue
				}
				if v := f.packs(t, s.p, raw); v != equal {
					t.Fatalf("%v %s: verdict %d", s.fill, f.name, v)
				}
				for range 20 {
					count[f.packs(t, s.p, damage(r, raw))]++
				}
			}
		}
	}
	t.Logf("equal %d, both refuse %d, only packed %d, only whole %d", count[equal], count[bothRefuse], count[onlyOurs], count[onlyTheirs])
	if count[equal] < 500 || count[bothRefuse] < 500 || count[onlyTheirs] > 0 || count[onlyOurs] > 0 {
		t.Error("packed and whole are not taken alike")
	}
}

// What is passed over is not kept, and nothing else is lost.
func TestPackedText(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[fewOf](), Config{Like: reflect.TypeFor[corev1.Pod](), EmptyTypeMeta: true, Drop: []string{"metadata.labels", "metadata.annotations[a]"}})
	for text, want := range map[string]string{
		`{"kind":"Pod","spec":{"nodeName":"n","x":[1]},"status":{}}`:                                         `{"spec":{"nodeName":"n"}}`,
		` { "metadata" : { "labels" : {"a":"b"} , "name" : "x" , "y":1 } , "z" : "," } `:                     `{"metadata" : {"name" : "x"}}`,
		`{"metadata":{"annotations":{"a":"1","b":"2","\u0061":"3"},"name":"x"},"kind":5}`:                    `{"metadata":{"annotations":{"b":"2"},"name":"x"},"kind":5}`,
		`{"spec":{"volumes":[{"a":1},{"name":"v","b":[]},null,{"projected":{"x":1,"sources":[ {} , {}]}}]}}`: `{"spec":{"volumes":[{},{"name":"v"},null,{"projected":{"sources":[{},{}]}}]}}`,
		`{"spec":{},"spec":null,"metadata":"no"}`:                                                            `{"spec":{},"spec":null,"metadata":"no"}`,
		`{}`: `{}`,
	} {
		if got, err := p.PackJSON([]byte(text)); err != nil || got != want {
			t.Errorf("%s\nis  %s, %v\nnot %s", text, got, err, want)
		}
	}
	for _, text := range []string{``, `[]`, `null`, `{"x":1,}`, `{"x":1}}`, `{"x"}`, `{"x":1 "y":2}`, `{"spec":{"volumes":[{},]}}`, `{"spec":{"volumes":[{}`,
		strings.Repeat(`{"spec":`, 3) + "}"} {
		if got, err := p.PackJSON([]byte(text)); err == nil {
			t.Errorf("%s: packed to %s", text, got)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": strings.Repeat("long", 100), "b": "2"}},
		Spec: corev1.PodSpec{NodeName: "n", SchedulerName: "y"}, Status: corev1.PodStatus{Phase: "z"}}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.PackProtobuf(raw)
	if err != nil {
		t.Fatal(err)
	}
	var back corev1.Pod
	if err := back.Unmarshal([]byte(got)); err != nil {
		t.Fatal(err)
	}
	same(t, "packed", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"b": "2"}}, Spec: corev1.PodSpec{NodeName: "n"}}, &back)
}

// FuzzPack: what is packed is taken as the whole is.
func FuzzPack(f *testing.F) {
	p := mustCompile(f, reflect.TypeFor[fewOf](), Config{Like: reflect.TypeFor[corev1.Pod](), EmptyTypeMeta: true, Drop: []string{"metadata.managedFields", "metadata.annotations[a]"}})
	fill := filler(1)
	for range 4 {
		pod := &corev1.Pod{}
		fill.Fill(pod)
		pod.Annotations = map[string]string{"a": "1", "b": "2"}
		pb, _ := pod.Marshal()
		text, _ := json.Marshal(pod)
		f.Add(pb)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, form := range forms {
			if v := form.packs(t, p, raw); v > bothRefuse {
				t.Fatalf("%s: verdict %d on %q", form.name, v, raw)
			}
		}
	})
}
