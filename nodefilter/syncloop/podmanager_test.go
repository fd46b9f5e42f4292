package syncloop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

const (
	mirrorKey = corev1.MirrorPodAnnotationKey
	api       = podconfig.APIServerSource
	file      = podconfig.FileSource
)

func uids(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, string(p.UID))
	}
	return strings.Join(out, " ")
}

// TestPodManagerMirrors: static and mirror pods are told apart and translated.
func TestPodManagerMirrors(t *testing.T) {
	t.Parallel()
	var m PodManager
	static := testPod("web-node-a", "s", hashAnnotation, "h1")
	mirror := testPod("web-node-a", "m", mirrorKey, "h1", "kubernetes.io/config.source", "file")
	orphan := testPod("old-node-a", "o", mirrorKey, "h0")
	plain := testPod("plain", "p", "kubernetes.io/config.source", "file") // says so itself
	liar := testPod("liar-node-a", "l", mirrorKey, "h9")                  // a file with the annotation
	m.Apply(update(podconfig.Add, api, mirror, orphan, plain))
	if _, ok := m.StaticOf(mirror); ok || m.Translate("m") != "m" {
		t.Error("a static pod before there is one")
	}
	if got := uids(m.OrphanedMirrorPods()); got != "o m" {
		t.Errorf("orphans %q", got)
	}
	m.Apply(update(podconfig.Add, file, static, liar))
	for what, c := range map[string]struct{ got, want string }{
		"pods":    {uids(m.Pods()), "l p s"},
		"static":  {uids(m.StaticPods()), "l s"},
		"mirrors": {uids(m.MirrorPods()), "o m"},
		"orphans": {uids(m.OrphanedMirrorPods()), "o"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	if p, ok := m.MirrorOf(static); !ok || p != mirror {
		t.Error("MirrorOf")
	}
	if p, ok := m.StaticOf(mirror); !ok || p != static {
		t.Error("StaticOf")
	}
	if _, ok := m.MirrorOf(plain); ok {
		t.Error("a pod of the API server has a mirror")
	}
	for uid, want := range map[types.UID]types.UID{"m": "s", "s": "s", "o": "o", "p": "p", "x": "x", "": ""} {
		if got := m.Translate(uid); got != want {
			t.Errorf("Translate(%q) is %q, want %q", uid, got, want)
		}
	}
	if _, ok := m.Pod("m"); ok {
		t.Error("a mirror pod is one to run")
	}
	if p, ok := m.PodByName("default", "web-node-a"); !ok || p != static {
		t.Error("PodByName")
	}
	if s, ok := m.Source("m"); !ok || s != api {
		t.Errorf("Source(m) is %q", s)
	}
	if !IsMirrorPodOf(mirror, static) || IsMirrorPodOf(orphan, static) || IsMirrorPodOf(static, static) ||
		IsMirrorPodOf(mirror, testPod("web-node-a", "s", hashAnnotation, "h2")) {
		t.Error("IsMirrorPodOf")
	}
	// Its manifest was edited: it is the same pod, and the mirror pod that of an older version.
	edited := testPod("web-node-a", "s", hashAnnotation, "h2")
	m.Apply(update(podconfig.Update, file, edited))
	if p, ok := m.StaticOf(mirror); !ok || p != edited || IsMirrorPodOf(mirror, edited) {
		t.Errorf("the static pod of an outdated mirror pod: %v", p)
	}
	if got := m.Translate("m") + " " + types.UID(uids(m.OrphanedMirrorPods())); got != "s o" {
		t.Errorf("translated, and orphans: %q", got)
	}
	// The static pod is made anew: another UID under the name.
	m.Apply(update(podconfig.Remove, file, static))
	m.Apply(update(podconfig.Add, file, testPod("web-node-a", "s2", hashAnnotation, "h2")))
	if got := m.Translate("m"); got != "s2" {
		t.Errorf("Translate(m) is %q", got)
	}
	m.Apply(update(podconfig.Remove, api, mirror))
	if _, ok := m.MirrorOf(static); ok {
		t.Error("the mirror pod is gone")
	}
}

// TestPodManagerOneName: of two pods of one name the later counts, and the other
// is found again when that goes.
func TestPodManagerOneName(t *testing.T) {
	t.Parallel()
	var m PodManager
	a, b := testPod("x", "a"), testPod("x", "b")
	m.Apply(update(podconfig.Add, file, a))
	m.Apply(update(podconfig.Add, api, b))
	if p, _ := m.PodByName("default", "x"); p != b || len(m.Pods()) != 2 {
		t.Errorf("%v of %d", p.UID, len(m.Pods()))
	}
	m.Apply(update(podconfig.Remove, file, b)) // not its source
	if _, ok := m.Pod("b"); !ok {
		t.Error("another source removed it")
	}
	m.Apply(update(podconfig.Remove, api, b))
	if p, ok := m.PodByName("default", "x"); !ok || p != a {
		t.Error("the pod that is left is not found")
	}
	m.Apply(update(podconfig.Remove, file, a))
	if _, ok := m.PodByName("default", "x"); ok || len(m.names) != 0 || len(m.pods) != 0 {
		t.Errorf("%d names, %d pods left", len(m.names), len(m.pods))
	}
}

// TestPodManagerRandom: what is found by name and by UID is what a list of all
// pods says, after any updates.
func TestPodManagerRandom(t *testing.T) {
	t.Parallel()
	type known struct {
		pod    *corev1.Pod
		source podconfig.Source
	}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var m PodManager
		var all []known // in the order in which they came
		for step := range 100 {
			source := []podconfig.Source{api, file}[rnd.IntN(2)]
			p := testPod(fmt.Sprint("n", rnd.IntN(4)), fmt.Sprint(source, rnd.IntN(8)))
			if source == api && rnd.IntN(3) == 0 {
				p.Annotations = map[string]string{mirrorKey: "h"}
			}
			at := -1
			for i, k := range all {
				if k.pod.UID == p.UID {
					at = i
				}
			}
			switch {
			case rnd.IntN(3) == 0:
				m.Apply(update(podconfig.Remove, source, p))
				if at >= 0 {
					all = append(all[:at:at], all[at+1:]...)
				}
			case at >= 0 && all[at].pod.Name == p.Name:
				m.Apply(update(podconfig.Update, source, p))
				all[at].pod = p
			default:
				m.Apply(update(podconfig.Add, source, p))
				if at >= 0 {
					all = append(all[:at:at], all[at+1:]...)
				}
				all = append(all, known{p, source})
			}
			for n := range 4 {
				var want *corev1.Pod
				for _, k := range all {
					if k.pod.Name == fmt.Sprint("n", n) && !(k.source == api && podconfig.IsMirrorPod(k.pod)) {
						want = k.pod
					}
				}
				if got, _ := m.PodByName("default", fmt.Sprint("n", n)); got != want {
					t.Fatalf("seed %d, step %d: n%d is %v, want %v", seed, step, n, got, want)
				}
			}
			for _, k := range all {
				if s, ok := m.Source(k.pod.UID); !ok || s != k.source {
					t.Fatalf("seed %d, step %d: source of %s is %q", seed, step, k.pod.UID, s)
				}
			}
			if n := len(m.Pods()) + len(m.MirrorPods()); n != len(all) {
				t.Fatalf("seed %d, step %d: %d pods, want %d", seed, step, n, len(all))
			}
		}
	}
}
