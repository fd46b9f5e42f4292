package podsources

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// apply does a step.
func (w *world) apply(s step) {
	switch s.source {
	case "api":
		w.applyAPI(s)
	case "file":
		w.cause = s.op
		w.applyFile(s)
	case "http":
		w.applyURL(s)
	}
	if w.model != nil {
		w.model.after(w.place, s)
	}
}

// applyAPI changes the pods of the API server.
func (w *world) applyAPI(s step) {
	switch s.op {
	case "relist":
		w.relist(s)
	case "burst":
		// Nobody reads meanwhile. It is less than the kubelet's channel holds: after that it would
		// wait for its reader, and so would this.
		ops := operations[kubetypes.ApiserverSource]
		for i := range burst {
			if op := ops[(s.value*7+i*5)%len(ops)]; op != "relist" && op != "burst" {
				w.change(step{"api", op, (s.slot + i/2) % 4, (s.value + i) % 6})
			}
		}
	default:
		w.change(s)
	}
}

// burst is how many changes a slow reader has missed.
const burst = 24

// relist is an outage after which the server has forgotten what happened in it.
func (w *world) relist(s step) {
	w.api.Pause()
	w.away = true
	ops := []string{"status", "spec", "delete", "recreate", "label", "terminate"}
	for slot := range 4 {
		// What is there is changed, and what is not is made.
		w.change(step{"api", "add", slot, s.value})
		w.change(step{"api", ops[(s.slot+slot*(1+s.value))%len(ops)], slot, s.value + slot})
	}
	w.away = false
	w.api.AdvanceResourceVersion(1)
	w.api.Compact(w.api.ResourceVersion())
	w.api.CloseConnections()
	w.api.Resume()
	var list []any
	for _, o := range w.pods() {
		list = append(list, o)
	}
	must(w.undelta.Replace(list, ""))
}

// change is one write to the API server, and the event that the kubelet has of it.
func (w *world) change(s step) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", s.slot)}}
	there := w.api.Get(pod) == nil
	if there == (s.op == "add") {
		return
	}
	text := fmt.Sprint(s.value)
	update := func() {
		pod.ResourceVersion = ""
		must(w.api.Update(pod))
		w.event(pod)
	}
	switch s.op {
	case "add":
		w.create(pod, text)
	case "status":
		pod.Status.Phase = []v1.PodPhase{v1.PodPending, v1.PodRunning}[s.value%2]
		pod.Status.Message = text
		pod.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1_700_000_000+s.value/2), 0)}
		must(w.api.UpdateStatus(pod))
		w.event(pod)
	case "label":
		pod.Labels = map[string]string{"v": text}
		if s.value == 0 {
			pod.Labels = nil
		}
		update()
	case "annotate":
		pod.Annotations = map[string]string{"v": text}
		if s.value == 0 {
			pod.Annotations = nil
		}
		update()
	case "spec":
		pod.Spec.Containers[0].Image = "image:" + text
		update()
	case "local":
		// The kubelet's own annotations, written by somebody else.
		keys := []string{"kubernetes.io/config.source", "kubernetes.io/config.seen", "kubernetes.io/config.mirror"}
		pod.Annotations = map[string]string{keys[s.value%3]: "x"}
		update()
	case "meta":
		pod.Finalizers = []string{"example.com/f" + text}
		update()
	case "terminate":
		must(w.api.DeleteGracefully(pod, int64(30+s.value)))
		if w.api.Get(pod) != nil {
			w.goneEvent(pod)
			return
		}
		w.event(pod)
	case "delete", "recreate":
		must(w.api.Delete(pod))
		w.goneEvent(pod)
		if s.op == "recreate" {
			w.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.Name}}, text)
		}
	}
}

func (w *world) create(pod *v1.Pod, text string) {
	w.uids++
	pod.UID = types.UID(fmt.Sprintf("uid-%d", w.uids))
	pod.Spec = v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: "image:" + text}}}
	pod.Status.Phase = v1.PodPending
	must(w.api.Create(pod))
	w.event(pod)
}

// event is what a watch tells the kubelet's reflector, which puts it into its store.
func (w *world) event(pod *v1.Pod) {
	if !w.away {
		must(w.undelta.Update(asWatched(pod)))
	}
}

func (w *world) goneEvent(pod *v1.Pod) {
	if !w.away {
		must(w.undelta.Delete(pod))
	}
}

// asWatched is a pod as it comes from the wire: nobody else has it.
func asWatched(pod *v1.Pod) *v1.Pod {
	data, err := json.Marshal(pod)
	must(err)
	fresh := new(v1.Pod)
	must(json.Unmarshal(data, fresh))
	return fresh
}

// manifest is what a file says. Some contents name a UID, and then another content
// is the same pod.
func manifest(name string, value int) string {
	uid := ""
	if value >= 4 {
		uid = "  uid: given-" + name + "\n"
	}
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\n" + uid +
		fmt.Sprintf("spec:\n  containers:\n  - name: main\n    image: image:%d\n", value)
}

// applyFile does something to a file.
func (w *world) applyFile(s step) {
	name := string(rune('a' + s.slot))
	path := filepath.Join(w.place.dir, name+".yaml")
	write := func(path, text string) { must(os.WriteFile(path, []byte(text), 0o644)) }
	data, err := os.ReadFile(path)
	there := err == nil
	switch s.op {
	case "write":
		write(path, manifest(name, s.value))
	case "dup": // the pod of another file
		write(path, manifest(string(rune('a'+(s.slot+1)%4)), s.value))
	case "invalid":
		write(path, strings.Replace(manifest(name, s.value), "image:", "image: [", 1))
	case "hidden":
		write(filepath.Join(w.place.dir, "."+name+".yaml"), manifest(name+"-hidden", s.value))
	case "save": // as editors do
		write(filepath.Join(w.place.dir, ".save"), manifest(name, s.value))
		must(os.Rename(filepath.Join(w.place.dir, ".save"), path))
	}
	if !there {
		return
	}
	switch s.op {
	case "again":
		write(path, string(data))
	case "touch":
		now := time.Now()
		must(os.Chtimes(path, now, now))
	case "half":
		write(path, string(data[:len(data)/2]))
	case "remove":
		must(os.Remove(path))
	case "rename":
		must(os.Rename(path, filepath.Join(w.place.dir, string(rune('a'+(s.slot+1+s.value%3)%4))+".yaml")))
	case "backup":
		write(path+"~", string(data))
	}
}

// applyURL changes what the URL answers.
func (w *world) applyURL(s step) {
	pod := func(i int) string {
		name := fmt.Sprintf("web-%d", i)
		uid := ""
		if s.value >= 4 {
			uid = `,"uid":"given-` + name + `"`
		}
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q%s},"spec":{"containers":[{"name":"main","image":"image:%d"}]}}`, name, uid, s.value)
	}
	item := pod
	if s.value%2 == 0 {
		// An item of a list may leave out its kind.
		item = func(i int) string { return strings.Replace(pod(i), `"apiVersion":"v1","kind":"Pod",`, "", 1) }
	}
	list := func(items ...string) string {
		return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
	}
	var body string
	switch s.op {
	case "pod":
		body = pod(s.slot)
	case "list":
		for i := range s.slot {
			body += "," + item((i+s.value)%4)
		}
		body = list(strings.TrimPrefix(body, ","))
	case "dup":
		body = list(item(s.slot), strings.ReplaceAll(item(s.slot), "image:", "other:"))
	case "invalid":
		body = list(item(s.slot), strings.Replace(item(s.slot+1), `"image:`, `" image:`, 1))
	case "garbage":
		body = pod(s.slot)[:40]
	case "none":
		body = list()
	case "same":
		// The last one, to the byte: the kubelet takes it for nothing new.
		if w.body != "" {
			w.sayURL(http.StatusOK, w.body)
		}
		return
	case "refused": // and the answer before it stays that which "same" repeats
		w.sayURL(http.StatusOK, pod(s.slot)[:40]+strings.Repeat(" ", w.place.used))
		return
	case "nothing":
		w.sayURL(http.StatusOK, "")
		return
	case "gone":
		w.sayURL(http.StatusNotFound, "")
		return
	}
	// No two histories have the same bytes, since the kubelet's source remembers those of the
	// history before.
	w.body = body + strings.Repeat(" ", w.place.used)
	w.sayURL(http.StatusOK, w.body)
}

func (w *world) sayURL(code int, body string) {
	w.place.say(code, body)
	w.said = true
}
