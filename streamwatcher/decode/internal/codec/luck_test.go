package codec

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is looked for in vain is looked for each time at first, then once in a pause, and each time again
// when it was found.
func TestLuck(t *testing.T) {
	l, f := make(luck, 2), &protoField{id: 1}
	// tried tells how many of n values are looked for, none of which is there.
	tried := func(n int) (tried int) {
		for range n {
			if l.try(f) {
				tried++
				l.note(f, false)
			}
		}
		return tried
	}
	for round := range 3 {
		if got := tried(patience); got != patience {
			t.Fatalf("round %d: %d of the first %d are looked for", round, got, patience)
		}
		if got := tried(10 * pause); got != 10 {
			t.Fatalf("round %d: then %d of %d are, want 10", round, got, 10*pause)
		}
		for !l.try(f) {
		}
		l.note(f, true)
	}
	if l[0] != 0 {
		t.Error("another field has its luck")
	}
}

// A field without luck does not spoil others, and shares again when there is something to share.
func TestLuckOfFields(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 1 << 10})
	decode := func(i int, hostname string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Namespace: "default"}, Spec: corev1.PodSpec{Hostname: hostname}}
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := forms[0].fromShared(p)(raw)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "protobuf", pod, got)
		return got.(*corev1.Pod)
	}
	one := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	var last *corev1.Pod
	for i := range 2 * patience {
		last = decode(i, fmt.Sprint("host-", i))
	}
	if again := decode(-1, "host"); !one(again.Namespace, last.Namespace) {
		t.Error("a namespace that all have is not shared")
	}
	shared := 0
	for i := range 10 * pause {
		if pod := decode(i, "host"); one(pod.Spec.Hostname, last.Spec.Hostname) {
			shared++
		} else {
			last = pod
		}
	}
	// It is seen, and then kept, in two of the pauses.
	if shared < 7*pause {
		t.Errorf("%d of %d host names are shared", shared, 10*pause)
	}
}

// An empty string overrides the one before, wherever that stands: a field is in two places of a message, or
// its message is.
func TestEmptyStringsOverride(t *testing.T) {
	const name, generateName, namespace = "\x0a\x01n", "\x12\x01g", "\x1a\x01s" // the fields 1, 2 and 3
	const noName, noGenerateName = "\x0a\x00", "\x12\x00"
	meta := func(s string) string { return "\x0a" + string(rune(len(s))) + s }
	for _, of := range []string{
		meta(name + noName),
		meta(generateName + noGenerateName),
		meta(generateName + name + noGenerateName),
		meta(namespace + generateName + name + noGenerateName),
		meta(name+generateName) + meta(noGenerateName),
		meta(name+generateName) + meta(noName+namespace) + meta(noGenerateName),
		meta(noName + name + noName),
	} {
		raw := []byte(of)
		want, err := full(gogo(reflect.TypeFor[corev1.Pod]()))(raw)
		if err != nil {
			t.Fatalf("%q: %v", of, err)
		}
		for share := range 2 {
			p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: share})
			for form, decode := range map[string]func([]byte) (any, error){
				"private": func(raw []byte) (any, error) { return protobuf(p, raw) }, "shared": forms[0].fromShared(p),
			} {
				got, err := decode(raw)
				if err != nil {
					t.Fatalf("%s %q: %v", form, of, err)
				}
				same(t, fmt.Sprintf("%s %q", form, of), want, got)
			}
		}
	}
}
