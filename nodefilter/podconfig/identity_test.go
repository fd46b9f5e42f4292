package podconfig

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// uidOf is what the scheme makes of a manifest.
func uidOf(t *testing.T, source Source, where, text string) types.UID {
	t.Helper()
	m, err := manifestParser{}.pod([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return manifestUID(m.tree, source, "n1", where)
}

// wantsPod checks the only pod of a Change, and which pod is gone with it ("" for none).
func wantsPod(t *testing.T, what string, c Change, uid, hash, gone types.UID) *corev1.Pod {
	t.Helper()
	var left types.UID
	if len(c.Gone) > 0 {
		left = c.Gone[0].UID
	}
	if len(c.Pods) != 1 || len(c.Gone) > 1 || left != gone {
		t.Fatalf("%s: %d pods and %v gone, want one, and %q gone", what, len(c.Pods), c.Gone, gone)
	}
	p := c.Pods[0]
	if got := types.UID(p.Annotations[hashAnnotation]); p.UID != uid || got != hash {
		t.Errorf("%s: UID %s and hash %s, want %s and %s", what, p.UID, got, uid, hash)
	}
	return p
}

func withUID(uid, text string) string {
	return strings.Replace(text, "metadata:\n", "metadata:\n  uid: "+uid+"\n", 1)
}

// TestEditKeepsTheUID: "A manifest that is edited is the same pod, with the UID that it
// had, as long as its file stays and says the same name and namespace", and every "otherwise".
func TestEditKeepsTheUID(t *testing.T) {
	dir := t.TempDir()
	var last string
	inFileWorld(t, FileConfig{}, dir, func(w *fileWorld) {
		hash := func(text string) types.UID { return uidOf(t, FileSource, w.path("a.yaml"), text) }
		one, two, three := manifestText("a", "one:1"), manifestText("a", "two:2"), manifestText("a", "three:3")
		w.put("a.yaml", one)
		first := wantsPod(t, "at first", w.last(), hash(one), hash(one), "")
		time.Sleep(time.Minute)
		w.put("a.yaml", two)
		p := wantsPod(t, "an edit", w.last(), first.UID, hash(two), "")
		if got := p.Annotations[firstSeenAnnotation]; got != first.Annotations[firstSeenAnnotation] {
			t.Errorf("it was first seen at %s, want the time of the first version", got)
		}
		// What is there is not changed in place: somebody may have it.
		if first.Spec.Containers[0].Image != "one:1" || first.Annotations[hashAnnotation] != string(hash(one)) {
			t.Errorf("the version before became %v", first)
		}
		w.put("a.yaml", "kind: [")
		w.put("a.yaml", three)
		wantsPod(t, "mended", w.last(), first.UID, hash(three), "")
		w.put("a.yaml", one)
		wantsPod(t, "as at first", w.last(), first.UID, hash(one), "")
		w.put("a.yaml", two)

		w.remove("a.yaml")
		w.put("a.yaml", three)
		wantsPod(t, "deleted, and back later", w.last(), hash(three), hash(three), "")
		w.put("a.yaml", two)
		w.write("a.yaml.new", one)
		if err := os.Rename(w.path("a.yaml.new"), w.path("a.yaml")); err != nil {
			t.Fatal(err)
		}
		w.event("a.yaml")
		wantsPod(t, "saved by a rename", w.last(), hash(three), hash(one), "")

		other := manifestText("b", "one:1")
		w.put("a.yaml", other)
		wantsPod(t, "another name", w.last(), hash(other), hash(other), hash(three))
		elsewhere := strings.Replace(other, "metadata:\n", "metadata:\n  namespace: x\n", 1)
		w.put("a.yaml", elsewhere)
		wantsPod(t, "another namespace", w.last(), hash(elsewhere), hash(elsewhere), hash(other))
		explicit := strings.Replace(other, "metadata:\n", "metadata:\n  namespace: default\n", 1)
		w.put("a.yaml", explicit)
		w.put("a.yaml", other)
		wantsPod(t, "the same namespace, not said", w.last(), hash(explicit), hash(other), "")

		named := withUID("given", other)
		w.put("a.yaml", named)
		wantsPod(t, "a UID is named", w.last(), "given", hash(named), hash(explicit))
		renamed := withUID("given-2", other)
		w.put("a.yaml", renamed)
		wantsPod(t, "another one is named", w.last(), "given-2", hash(renamed), "given")
		w.put("a.yaml", one)
		wantsPod(t, "another name, and none is named", w.last(), hash(one), hash(one), "given-2")
		w.put("a.yaml", withUID("given", one))
		w.put("a.yaml", one)
		wantsPod(t, "none is named any more", w.last(), "given", hash(one), "")
		last = one
	})
	// Another process knows nothing of what was.
	inFileWorld(t, FileConfig{}, dir, func(w *fileWorld) {
		want := uidOf(t, FileSource, w.path("a.yaml"), last)
		wantsPod(t, "after a restart", w.last(), want, want, "")
	})
}

// TestEditKubeletCompatible: an edit is another pod, whose UID is its hash, as with the
// kubelet; where the UID is named the hash is that.
func TestEditKubeletCompatible(t *testing.T) {
	inFileWorld(t, FileConfig{Behaviour: KubeletCompatible}, t.TempDir(), func(w *fileWorld) {
		w.put("a.yaml", manifestText("a", "one:1"))
		first := w.last().Pods[0]
		w.put("a.yaml", manifestText("a", "two:2"))
		second := w.last().Pods[0]
		wantsPod(t, "an edit", w.last(), second.UID, second.UID, first.UID)
		if second.UID == first.UID {
			t.Error("two contents have one UID")
		}
		w.put("a.yaml", withUID("given", manifestText("a", "two:2")))
		wantsPod(t, "named", w.last(), "given", "given", second.UID)
		w.put("a.yaml", withUID("given", manifestText("a", "three:3")))
		wantsPod(t, "an edit of it", w.last(), "given", "given", "")
	})
}

// TestReadInTheMiddleOfASave: a periodic reading that meets a save between the two renames,
// with events or without, takes the file for gone only when it is so after the time in which changes settle.
func TestReadInTheMiddleOfASave(t *testing.T) {
	for name, c := range map[string]FileConfig{
		"rescan": {},
		"poll":   {Rescan: time.Hour, watch: (&fakeOpener{}).open}, // it has no inotify for the first minutes
	} {
		inFileWorld(t, c, t.TempDir(), func(w *fileWorld) {
			t, start := w.t, time.Now()
			period := DefaultRescan
			if name == "poll" {
				period = pollPeriod
			}
			before := func() { time.Sleep(period - time.Since(start)%period - settle/4) }
			w.write("a.yaml", manifestText("a", "one:1"))
			time.Sleep(period + 2*settle)
			synctest.Wait()
			first := w.last().Pods[0]
			before()
			if err := os.Rename(w.path("a.yaml"), w.path("a.yaml~")); err != nil {
				t.Fatal(err)
			}
			w.write("b.yaml", manifestText("b", "one:1")) // nor is half a state told
			time.Sleep(settle / 2)
			synctest.Wait()
			w.write("a.yaml", manifestText("a", "two:2"))
			time.Sleep(2 * settle)
			synctest.Wait()
			w.wants(3, "a-n1=two:2 b-n1=one:1")
			if c := w.last(); len(c.Gone) != 0 || !slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool { return p.UID == first.UID }) {
				t.Errorf("%s: the save is %d pods and %v gone, want the pod as it was known", name, len(c.Pods), c.Gone)
			}
			before()
			if err := os.Remove(w.path("a.yaml")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(settle / 2)
			synctest.Wait()
			w.wants(3, "a-n1=two:2 b-n1=one:1")
			time.Sleep(settle)
			synctest.Wait()
			w.wants(4, "b-n1=one:1")
		})
	}
}

// TestURLEditKeepsTheUID: the place of a pod of a URL is its full name in the answer.
func TestURLEditKeepsTheUID(t *testing.T) {
	item := func(name, image, more string) string {
		return `{"metadata":{"name":"` + name + `"` + more + `},"spec":{"containers":[{"name":"app","image":"` + image + `"}]}}`
	}
	list := func(items ...string) string {
		return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
	}
	a, b := item("a", "one:1", ""), item("b", "one:1", "")
	inURLWorld(t, URLConfig{}, body(list(a, b)), func(w *urlWorld) {
		t := w.t
		hash := func(item string) types.UID {
			return uidOf(t, HTTPSource, "https://config.example/pods?token=secret", `{"apiVersion":"v1","kind":"Pod",`+item[1:])
		}
		uids := func() (a, b types.UID) {
			w.listener.mu.Lock()
			defer w.listener.mu.Unlock()
			for _, p := range w.pods {
				switch p.Name {
				case "a-n1":
					a = p.UID
				case "b-n1":
					b = p.UID
				}
			}
			return a, b
		}
		if x, y := uids(); x != hash(a) || y != hash(b) {
			t.Fatalf("at first the UIDs are %s and %s, want %s and %s", x, y, hash(a), hash(b))
		}
		say := func(text string) {
			t.Helper()
			w.says(body(text))
			w.period(1)
		}
		edited := item("a", "two:2", "")
		say(list(b, edited)) // in another order
		wantsPod(t, "an edit", w.last(), hash(a), hash(edited), "")
		say("kind: [")
		say(list(item("a", "", ""), b)) // an invalid item
		again := item("a", "three:3", "")
		say(list(again, b))
		wantsPod(t, "an edit after a fault", w.last(), hash(a), hash(again), "")
		say(list(b))
		if c := w.last(); len(c.Gone) != 1 || c.Gone[0].UID != hash(a) {
			t.Errorf("the item has left: %v gone", c.Gone)
		}
		say(list(again, b))
		wantsPod(t, "it is back", w.last(), hash(again), hash(again), "")
		named := item("a", "three:3", `,"uid":"given"`)
		say(list(named, b))
		wantsPod(t, "a UID is named", w.last(), "given", hash(named), hash(again))
		moved := item("a", "three:3", `,"namespace":"x"`)
		say(list(moved, b))
		wantsPod(t, "another namespace", w.last(), hash(moved), hash(moved), "given")
		// A pod alone is the pod of its name.
		text := manifestText("b", "two:2")
		say(text)
		wantsPod(t, "no list any more", w.last(), hash(b), uidOf(t, HTTPSource, "https://config.example/pods?token=secret", text), hash(moved))
	})
	inURLWorld(t, URLConfig{Behaviour: KubeletCompatible}, body(list(a)), func(w *urlWorld) {
		first := w.last().Pods[0]
		w.says(body(list(item("a", "two:2", ""))))
		w.period(1)
		second := w.last().Pods[0]
		wantsPod(w.t, "as the kubelet", w.last(), second.UID, second.UID, cmp.Or(first.UID, "?"))
		if second.UID == first.UID {
			w.t.Error("two contents have one UID")
		}
	})
}
