package syncloop

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// hashAnnotation has the hash of a static pod; its mirror pod repeats it in
// kubernetes.io/config.mirror.
const hashAnnotation = "kubernetes.io/config.hash"

// PodManager is the pods that a node should run: what the updates so far say. It
// tells the pods to run from the mirror pods, which stand in the API server for
// static ones, and translates between the two, which have a full name in common.
//
// It can be read from any goroutine. Its zero value is empty and ready.
type PodManager struct {
	mu   sync.RWMutex
	pods map[types.UID]*managed
	// names has the pods of a full name, mirror pods too, in the order in which
	// they came. There is one to run, unless two sources have one of the same name.
	names map[types.NamespacedName][]*managed
}

type managed struct {
	pod    *corev1.Pod
	source podconfig.Source
}

// mirror: only in the API server can a pod stand for another one.
func (m *managed) mirror() bool {
	return m.source == podconfig.APIServerSource && podconfig.IsMirrorPod(m.pod)
}

func (m *managed) static() bool { return m.source != podconfig.APIServerSource }

// Apply takes an update in. A Loop does it for its own manager.
func (m *PodManager) Apply(u podconfig.PodUpdate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.UID]*managed{}
		m.names = map[types.NamespacedName][]*managed{}
	}
	for _, p := range u.Pods {
		old := m.pods[p.UID]
		if u.Op == podconfig.Remove {
			if old != nil && old.source == u.Source {
				m.remove(old)
			}
			continue
		}
		if old != nil && old.source == u.Source && nameOf(old.pod) == nameOf(p) {
			old.pod = p
			continue
		}
		if old != nil {
			m.remove(old)
		}
		added := &managed{pod: p, source: u.Source}
		m.pods[p.UID] = added
		m.names[nameOf(p)] = append(m.names[nameOf(p)], added)
	}
}

func (m *PodManager) remove(old *managed) {
	delete(m.pods, old.pod.UID)
	name := nameOf(old.pod)
	rest := slices.DeleteFunc(m.names[name], func(o *managed) bool { return o == old })
	if len(rest) == 0 {
		delete(m.names, name)
	} else {
		m.names[name] = rest
	}
}

// Pod returns the pod to run with the UID. A mirror pod is none.
func (m *PodManager) Pod(uid types.UID) (*corev1.Pod, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if e := m.pods[uid]; e != nil && !e.mirror() {
		return e.pod, true
	}
	return nil, false
}

// PodByName returns the pod to run with the full name; of several the one that
// came last. When that one goes, the other is found again.
func (m *PodManager) PodByName(namespace, name string) (*corev1.Pod, bool) {
	return m.named(types.NamespacedName{Namespace: namespace, Name: name}, func(e *managed) bool { return !e.mirror() })
}

// MirrorOf returns the mirror pod of a static pod.
func (m *PodManager) MirrorOf(static *corev1.Pod) (*corev1.Pod, bool) {
	return m.named(nameOf(static), (*managed).mirror)
}

// StaticOf returns the static pod of a mirror pod.
func (m *PodManager) StaticOf(mirror *corev1.Pod) (*corev1.Pod, bool) {
	return m.named(nameOf(mirror), (*managed).static)
}

func (m *PodManager) named(name types.NamespacedName, is func(*managed) bool) (*corev1.Pod, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, e := range slices.Backward(m.names[name]) {
		if is(e) {
			return e.pod, true
		}
	}
	return nil, false
}

// Source returns the source that the pod, or mirror pod, with the UID is from.
func (m *PodManager) Source(uid types.UID) (podconfig.Source, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if e := m.pods[uid]; e != nil {
		return e.source, true
	}
	return "", false
}

// Translate returns the UID of the static pod where uid is that of its mirror
// pod, and else uid itself. Whoever takes UIDs from users has to: they see the
// mirror pod, and a runtime knows only the static one.
func (m *PodManager) Translate(uid types.UID) types.UID {
	m.mu.RLock()
	e := m.pods[uid]
	m.mu.RUnlock()
	if e == nil || !e.mirror() {
		return uid
	}
	if static, ok := m.StaticOf(e.pod); ok {
		return static.UID
	}
	return uid
}

// Pods returns the pods to run, ordered by namespace, name and UID.
func (m *PodManager) Pods() []*corev1.Pod {
	return m.all(func(e *managed) bool { return !e.mirror() })
}

// StaticPods returns the static pods, in the order of Pods.
func (m *PodManager) StaticPods() []*corev1.Pod { return m.all((*managed).static) }

// MirrorPods returns the mirror pods, in the order of Pods.
func (m *PodManager) MirrorPods() []*corev1.Pod { return m.all((*managed).mirror) }

// OrphanedMirrorPods returns the mirror pods whose static pod is gone: they
// should be deleted from the API server, once all sources were seen.
func (m *PodManager) OrphanedMirrorPods() []*corev1.Pod {
	return slices.DeleteFunc(m.MirrorPods(), func(p *corev1.Pod) bool {
		_, ok := m.StaticOf(p)
		return ok
	})
}

func (m *PodManager) all(is func(*managed) bool) []*corev1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []*corev1.Pod
	for _, e := range m.pods {
		if is(e) {
			out = append(out, e.pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// IsMirrorPodOf reports whether mirror stands for this very version of the static
// pod: they have the full name in common, and the mirror has the hash of its
// manifest. One that does not is outdated and should be made anew.
func IsMirrorPodOf(mirror, static *corev1.Pod) bool {
	hash, ok := mirror.Annotations[corev1.MirrorPodAnnotationKey]
	return ok && hash == static.Annotations[hashAnnotation] && nameOf(mirror) == nameOf(static)
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}
