package codec

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is looked for in vain is looked for each time at first, then for some neighbours of a round, and each time again
// when it was found.
func TestLuck(t *testing.T) {
	l := make(luck, 2)
	// tried tells how many of n values are looked for, none of which is there.
	tried := func(n int) (tried int) {
		for range n {
			if l.try(1) {
				tried++
				l.note(1, false)
			}
		}
		return tried
	}
	for time := range 3 {
		if got := tried(patience); got != patience {
			t.Fatalf("time %d: %d of the first %d are looked for", time, got, patience)
		}
		if got := tried(5 * round); got != 5*tries {
			t.Fatalf("time %d: then %d of %d are, want %d", time, got, 5*round, 5*tries)
		}
		for neighbours := 0; neighbours < 2; {
			if neighbours++; !l.try(1) {
				neighbours = 0
			}
		}
		l.note(1, true)
		l.note(1, true)
	}
	if l[0] != (odds{}) {
		t.Error("another field has its luck")
	}
}

// What few neighbours have in common is shared, and what is in one object twice is there once, also when for long nothing
// was.
func TestLuckOfNeighbours(t *testing.T) {
	for _, form := range forms {
		p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 1 << 10})
		decode := func(of string, containers int) *corev1.Pod {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Name: of, UID: "u"}}}}
			for range containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: of, MountPath: "/"}}})
			}
			return form.readShared(t, p, pod)
		}
		for i := range 2 * patience {
			decode(fmt.Sprint("job-", i), 1)
		}
		owners, mounts := 0, 0
		for set := range 2 * round {
			var pods []*corev1.Pod
			for range 3 {
				pods = append(pods, decode(fmt.Sprint("set-", set), 2))
			}
			if set < round {
				continue
			}
			if last := pods[2]; &last.OwnerReferences[0] == &pods[1].OwnerReferences[0] {
				owners++
			}
			for _, pod := range pods {
				if c := pod.Spec.Containers; &c[0].VolumeMounts[0] == &c[1].VolumeMounts[0] {
					mounts++
				}
			}
		}
		// Some fall on the places of others, and take turns with them.
		if owners < round*3/4 || mounts < 3*round*3/4 {
			t.Errorf("%s: of %d sets %d share their owner, of %d pods %d their mounts", form.name, round, owners, 3*round, mounts)
		}
	}
}

// A field without luck does not spoil others, and shares again when there is something to share.
func TestLuckOfFields(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) { testLuck(t, form) })
	}
}

func testLuck(t *testing.T, form form) {
	p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 1 << 10})
	decode := func(i int, hostname string, secrets ...corev1.LocalObjectReference) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Namespace: "default"},
			Spec: corev1.PodSpec{Hostname: hostname, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: corev1.PodConditionType(hostname)}},
				ImagePullSecrets: secrets},
		}
		return form.readShared(t, p, pod)
	}
	one := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	registry := corev1.LocalObjectReference{Name: "registry"}
	var last *corev1.Pod
	for i := range 2 * patience {
		last = decode(i, fmt.Sprint("host-", i), registry)
	}
	if again := decode(-1, "host", registry); !one(again.Namespace, last.Namespace) || &again.Spec.ImagePullSecrets[0] != &last.Spec.ImagePullSecrets[0] {
		t.Error("what all have is not shared")
	}
	names, gates := 0, 0 // alone from here on: what falls on one place with them would take turns with them
	for i := range 2 * round {
		pod := decode(i, "host")
		if one(pod.Spec.Hostname, last.Spec.Hostname) {
			names++
		}
		if &pod.Spec.ReadinessGates[0] == &last.Spec.ReadinessGates[0] {
			gates++
		}
		last = pod
	}
	// They are seen, and then kept, in one of the rounds.
	if names < round/2 || gates < round/2 {
		t.Errorf("of %d host names %d are shared, of as many gates %d", 2*round, names, gates)
	}
}

// An empty string overrides the one before, wherever that stands: a field is in two places of a message, or
// its message is.
func TestEmptyStringsOverride(t *testing.T) {
	const name, generateName, namespace = "\x0a\x01n", "\x12\x01g", "\x1a\x01s" // the fields 1, 2 and 3
	const noName, noGenerateName = "\x0a\x00", "\x12\x00"
	field := func(number int, s string) string {
		return string([]byte{byte(number<<3 | wireBytes), byte(len(s))}) + s
	}
	meta := func(s string) string { return field(1, s) }
	for _, of := range []string{
		meta(name + noName),
		meta(generateName + noGenerateName),
		meta(generateName + name + noGenerateName),
		meta(namespace + generateName + name + noGenerateName),
		meta(name+generateName) + meta(noGenerateName),
		meta(name+generateName) + meta(noName+namespace) + meta(noGenerateName),
		meta(noName + name + noName),
		// spec.securityContext.seLinuxOptions.user, by pointers that stand twice
		field(2, field(14, field(1, field(1, "u")))+field(14, field(1, field(1, "")))),
		field(2, field(14, field(1, field(1, "u"))+field(1, field(1, "")))),
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
