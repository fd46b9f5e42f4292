package codec

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// paired returns a pod whose volumes and mounts are its own. They fit into one variable if it has three and two.
func paired(name string, volumes, mounts int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name}, {Name: name + "-b"}}}}
	for i := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("%s-volume-%d", name, i)})
	}
	for i := range mounts {
		m := corev1.VolumeMount{Name: fmt.Sprintf("%s-volume-%d", name, i), MountPath: "/" + name}
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, m)
	}
	return pod
}

// adjacent tells whether the mounts stand behind the volumes.
func adjacent(pod *corev1.Pod) bool {
	v, m := pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts
	return uintptr(unsafe.Pointer(unsafe.SliceData(m)))-uintptr(unsafe.Pointer(unsafe.SliceData(v))) == uintptr(len(v))*unsafe.Sizeof(v[0])
}

// Two arrays that came together twice stand in one variable when they come for the third time. If the second does not
// come, the object is right and the next one is made of two; so it is with another length.
func TestPairs(t *testing.T) {
	for _, form := range forms {
		p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 4096})
		for i, step := range []struct {
			volumes, mounts int
			together        bool
		}{
			{3, 2, false}, {3, 2, false}, {3, 2, true}, {3, 2, true},
			{3, 1, false}, // in vain
			{3, 2, false}, {3, 2, false}, {3, 2, true},
			{2, 2, false}, {3, 2, true},
		} {
			want := paired(fmt.Sprintf("pod-%d", i), step.volumes, step.mounts)
			raw, err := form.encode(want)
			if err != nil {
				t.Fatal(err)
			}
			v, err := form.next(p, raw, version{})
			if err != nil {
				t.Fatal(err)
			}
			got := v.object(p).(*corev1.Pod)
			same(t, form.name, want, got)
			if adjacent(got) != step.together {
				t.Errorf("%s: step %d: one variable is %v, want %v", form.name, i, !step.together, step.together)
			}
			if m := got.Spec.Containers[0].VolumeMounts; cap(m) != len(m) || cap(got.Spec.Volumes) > len(got.Spec.Volumes)+1 {
				t.Errorf("%s: step %d: room for %d volumes and %d mounts", form.name, i, cap(got.Spec.Volumes), cap(m))
			}
		}
	}
}

// A Program makes no more types of pairs than it may: the runtime keeps each.
func TestPairsAreBounded(t *testing.T) {
	p := newPairs()
	byteOf := &node{typ: layout.TypeOf(reflect.TypeFor[*byte]())}
	n := &node{kind: aSlice, elem: byteOf}
	made := 0
	for i := range 2 * maxPairs {
		if typ, ok := p.typeOf(pairKey{n, i + 1, n, 1}); ok {
			made++
			if want := uintptr(i+2) * byteOf.typ.Size; typ.Size != want {
				t.Errorf("a pair of %d and 1 has %d bytes, want %d", i+1, typ.Size, want)
			}
		}
	}
	if made != maxPairs {
		t.Errorf("%d types, want %d", made, maxPairs)
	}
	if _, ok := p.typeOf(pairKey{n, 1, n, 1}); !ok {
		t.Error("a type that is there is not found")
	}
}

// What the runtime allocates is as pairs have it.
func TestAllocated(t *testing.T) {
	p := newPairs()
	for _, c := range []struct {
		size uintptr
		want int
	}{{1, 8}, {8, 8}, {9, 16}, {512, 512}, {513, 576}, {568, 576}, {569, 640}, {768, 896}, {1000, 1024}, {maxPaired - headerSize, maxPaired}} {
		if got := p.allocated(c.size); got != c.want {
			t.Errorf("%d bytes take %d, want %d", c.size, got, c.want)
		}
	}
}

// A pointer to a time that equals the object's first time points to that, in the object itself. Of an
// object with either of them twice each time is what apimachinery makes of it.
func TestTimesOfTheObject(t *testing.T) {
	for _, form := range forms {
		p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 4096})
		created := metav1.NewTime(time.Unix(1_780_000_000, 0))
		later := metav1.NewTime(created.Add(time.Second))
		var v version
		for i, started := range []metav1.Time{created, later, created} {
			want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: created}, Status: corev1.PodStatus{StartTime: &started}}
			raw, err := form.encode(want)
			if err != nil {
				t.Fatal(err)
			}
			if v, err = form.next(p, raw, v); err != nil {
				t.Fatal(err)
			}
			got := v.object(p).(*corev1.Pod)
			same(t, form.name, want, got)
			if one := got.Status.StartTime == &got.CreationTimestamp; one != (i != 1) {
				t.Errorf("%s: version %d: one variable is %v", form.name, i, one)
			}
		}
	}
	one, two := `"2026-03-01T08:00:00Z"`, `"2026-03-01T08:00:01Z"`
	p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 4096})
	for _, text := range []string{
		`{"metadata":{"creationTimestamp":` + one + `},"status":{"startTime":` + one + `},"metadata":{"creationTimestamp":` + two + `}}`,
		`{"metadata":{"creationTimestamp":` + one + `},"status":{"startTime":` + one + `},"metadata":{"creationTimestamp":null}}`,
		`{"metadata":{"creationTimestamp":` + one + `},"status":{"startTime":` + one + `,"startTime":` + two + `}}`,
		`{"metadata":{"creationTimestamp":` + one + `},"status":{"startTime":` + one + `,"startTime":null}}`,
		`{"metadata":{"creationTimestamp":null},"status":{"startTime":` + one + `},"metadata":{"creationTimestamp":` + one + `}}`,
	} {
		want, err := sigs(reflect.TypeFor[corev1.Pod]())([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := forms[1].fromShared(p)([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		same(t, text, want, got)
	}
}

// A map is shared by the second object that has it, if that comes soon. One that two places of one object have is not
// kept for others by that.
func TestMapsAreSharedSoon(t *testing.T) {
	for _, form := range forms {
		p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{Share: 4096})
		decode := func(labels, selector map[string]string) *corev1.Pod {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: selector}}
			return form.readShared(t, p, pod)
		}
		at := func(m map[string]string) uintptr { return reflect.ValueOf(m).Pointer() }
		a := decode(map[string]string{"app": "web"}, nil)
		b := decode(map[string]string{"app": "web"}, nil)
		if at(a.Labels) != at(b.Labels) {
			t.Errorf("%s: the second object has labels of its own", form.name)
		}
		for i := range 100 {
			decode(map[string]string{"app": fmt.Sprint(i)}, nil)
		}
		if c := decode(map[string]string{"app": "web"}, nil); at(c.Labels) != at(a.Labels) {
			t.Errorf("%s: what two objects had is not kept", form.name)
		}
	}
}
