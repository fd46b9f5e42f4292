package codec

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects that share parts are equal to those that do not, whatever came before
// and whatever is damaged; and what came before stays as it was.
func TestSharedPartsAreEqual(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	var count [verdicts]int
	for i, typ := range allTypes() {
		if i%12 != 0 && typ != reflect.TypeFor[corev1.Pod]() {
			continue // each takes its time
		}
		// Few places, so that parts displace one another.
		p := mustCompile(t, typ, Config{Share: 64, Intern: 64})
		fill := filler(int64(i))
		var encoded [2][][]byte
		for range 3 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			pb, err := obj.(protoObject).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) < 50_000 {
				encoded[0], encoded[1] = append(encoded[0], pb), append(encoded[1], text)
			}
		}
		var kept []any
		var asTheyWere []any
		decoders := []func(raw []byte) (any, error){
			forms[0].fromShared(p), forms[1].fromShared(p),
		}
		theirs := []func(raw []byte) (any, error){full(gogo(typ)), full(sigs(typ))}
		for round := range 5 {
			for form, raws := range encoded {
				for _, raw := range raws {
					got, err := decoders[form](raw)
					if err != nil {
						t.Fatal(typ, err)
					}
					want, _ := theirs[form](raw)
					same(t, typ.String(), want, got)
					kept, asTheyWere = append(kept, got), append(asTheyWere, want)
					for range 6 {
						v := agree(t, damage(r, raw), decoders[form], theirs[form])
						count[v]++
						if v == onlyTheirs && form == 1 {
							t.Errorf("refused only by ours")
						}
					}
					if round == 0 { // the same twice over: fields in two places
						count[agree(t, append(append([]byte{}, raw...), raw...), decoders[0], theirs[0])]++
					}
				}
			}
		}
		for j := range kept {
			same(t, "kept "+typ.String(), asTheyWere[j], kept[j])
		}
	}
	if count[equal] < 500 || count[bothRefuse] < 500 {
		t.Errorf("counts: %v", count)
	}
}

// What is equal is there once. Of two parts that fall on one place this does not hold; three programs in which that is
// so, each with so many places, do not occur.
func TestPartsAreShared(t *testing.T) {
	for _, form := range forms {
		var faults []string
		for range 3 {
			p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 1 << 18})
			raw, err := form.encode(&corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := form.fromShared(p)(raw); err != nil { // which makes the tables
				t.Fatal(err)
			}
			for p.shares.size() < p.shares.max {
				p.shares.grow(p.shares.current.Load())
			}
			if faults = notShared(t, form.name, form.encode, form.fromShared(p)); len(faults) == 0 {
				break
			}
		}
		if len(faults) > 0 {
			t.Errorf("%s: not as it should be: %q", form.name, faults)
		}
	}
}

// notShared decodes four pods and returns which parts of them are not shared, or too early.
func notShared(t *testing.T, name string, encode func(any) ([]byte, error), decode func([]byte) (any, error)) (faults []string) {
	pod := func(name string) *corev1.Pod {
		yes := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{Name: "rs", Controller: &yes}}},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", SecurityContext: &corev1.SecurityContext{Privileged: &yes}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}}}
	}
	var pods []*corev1.Pod
	for _, called := range []string{"a", "b", "c", "d"} {
		raw, err := encode(pod(called))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, pod(called), got)
		pods = append(pods, got.(*corev1.Pod))
	}
	c, d := pods[2], pods[3]
	if reflect.ValueOf(c.Labels).Pointer() != reflect.ValueOf(d.Labels).Pointer() {
		faults = append(faults, "the labels are not shared")
	}
	if &c.OwnerReferences[0] != &d.OwnerReferences[0] {
		faults = append(faults, "the owners are not shared")
	}
	if &c.Spec.Containers[0] != &d.Spec.Containers[0] {
		faults = append(faults, "the containers are not shared")
	}
	if pods[0].Spec.Containers[0].SecurityContext == d.Spec.Containers[0].SecurityContext {
		faults = append(faults, "what came first is shared, which should wait for the second")
	}
	return faults
}

// One Program for several goroutines, with all that they share.
func TestGoroutinesShareAProgram(t *testing.T) {
	typ := reflect.TypeFor[corev1.Pod]()
	few, many := mustCompile(t, typ, Config{Share: 32, Intern: 32}), mustCompile(t, typ, Config{Share: 1 << 12, Intern: 1 << 12}) // which grows
	fill := filler(5)
	type sample struct {
		pb, text         []byte
		fromPB, fromText any
	}
	// Encoded once beforehand: Marshal writes the cached text of a Quantity.
	var samples []sample
	for range 8 {
		pod := &corev1.Pod{}
		fill.Fill(pod)
		var s sample
		s.pb, _ = pod.Marshal()
		s.text, _ = json.Marshal(pod)
		s.fromPB, _ = full(gogo(typ))(s.pb)
		s.fromText, _ = full(sigs(typ))(s.text)
		samples = append(samples, s)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 60 {
				s, p := samples[(i+g)%len(samples)], few
				if i%2 == 0 {
					p = many
				}
				if got, err := forms[0].fromShared(p)(s.pb); err != nil || !reflect.DeepEqual(got, s.fromPB) {
					t.Errorf("protobuf: %v", err)
				}
				if got, err := forms[1].fromShared(p)(s.text); err != nil || !reflect.DeepEqual(got, s.fromText) {
					t.Errorf("JSON: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
