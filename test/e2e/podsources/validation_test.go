package podsources

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/yaml"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// accepted are the faults that the kubelet's validation finds and podconfig does not, by the
// field that it names, without indices. Each has its reason.
var accepted = map[string]string{
	"metadata.finalizers": "a name without a domain: only an API server looks at finalizers, and a mirror pod has none",
}

// TestValidation: what the kubelet refuses of a manifest is refused here, with what is listed as the
// only exception, and nothing else is. Each manifest is a valid one in which one value is spoilt.
func TestValidation(t *testing.T) {
	manifests := map[string][]byte{}
	for _, name := range []string{"full", "host"} {
		data, err := os.ReadFile("testdata/" + name + ".yaml")
		must(err)
		var good map[string]any
		must(yaml.Unmarshal(data, &good))
		manifests[name] = must1(json.Marshal(good))
		if fault := kubeletRefuses(manifests[name]); fault != "" {
			t.Fatalf("the kubelet refuses %s.yaml itself: %s", name, fault)
		}
		spoil(good, "", func(what string) { manifests[name+what] = must1(json.Marshal(good)) })
	}
	names := slices.Sorted(maps.Keys(manifests))
	dir := t.TempDir()
	for i, name := range names {
		// Each has a name of its own: two pods of one name would be a fault of another kind.
		text := strings.Replace(string(manifests[name]), `"name":"full"`, fmt.Sprintf(`"name":"full-%d"`, i), 1)
		must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", i)), []byte(text), 0o644))
	}
	ours := refusedHere(t, dir)

	used := map[string]bool{}
	refused := 0
	for i, name := range names {
		fault := kubeletRefuses(manifests[name])
		here := ours[fmt.Sprintf("%d.json", i)]
		if fault != "" {
			refused++
		}
		switch {
		case (fault == "") == (here == ""):
		case fault == "":
			t.Errorf("%s: refused here (%s), but the kubelet takes it", name, here)
		case accepted[fieldOf(fault)] != "":
			used[fieldOf(fault)] = true
		default:
			t.Errorf("%s: taken here, but the kubelet says %s", name, fault)
		}
	}
	for f := range accepted {
		if !used[f] {
			t.Errorf("%q is listed as accepted, and no manifest needs it", f)
		}
	}
	t.Logf("%d manifests, of which the kubelet refuses %d", len(names), refused)
	if refused < len(names)/4 {
		t.Errorf("the kubelet refuses %d of %d manifests: too few are spoilt", refused, len(names))
	}
}

// refusedHere has what podconfig says about each file of a directory that it does not take.
func refusedHere(t *testing.T, dir string) map[string]string {
	files, err := podconfig.NewFiles(podconfig.FileConfig{Behaviour: podconfig.KubeletCompatible, Paths: []string{dir}, Node: node, Rescan: time.Hour})
	must(err)
	merge, stop := runSources(t, files)
	defer stop()
	<-merge.Updates()
	refused := map[string]string{}
	for _, e := range merge.Status().Sources[0].Own.Errors {
		refused[filepath.Base(e.Where)] = e.Message
	}
	return refused
}

// kubeletRefuses is what the kubelet does with a manifest but for the UID (pkg/kubelet/config, common.go).
func kubeletRefuses(manifest []byte) string {
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), manifest)
	if err != nil {
		return "(decode) " + err.Error()
	}
	pod, ok := obj.(*core.Pod)
	if !ok || pod.Name == "" {
		return "metadata.name: it is no pod, or has no name"
	}
	pod.UID, pod.Name, pod.Spec.NodeName, pod.Status.Phase = "u", pod.Name+"-"+node, node, core.PodPending
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	if errs := validation.ValidatePodCreate(pod, opts); len(errs) > 0 {
		return errs[0].Error()
	}
	if _, resource, err := podutil.HasAPIObjectReference(pod); err != nil || resource != "" {
		return fmt.Sprintf("(reference) %s %v", resource, err)
	}
	return ""
}

// fieldOf is the field that a fault of the kubelet names, without indices and keys.
func fieldOf(fault string) string {
	f, _, _ := strings.Cut(fault, ": ")
	for {
		before, rest, found := strings.Cut(f, "[")
		if !found {
			return f
		}
		_, after, _ := strings.Cut(rest, "]")
		f = before + after
	}
}

// spoil changes one thing of a value at a time, calls with for each, and puts it back.
func spoil(value any, at string, with func(what string)) {
	each := func(at string, v any, set func(any), remove func()) {
		for _, bad := range spoilt(v) {
			set(bad)
			with(fmt.Sprintf("%s = %s", at, must1(json.Marshal(bad))))
		}
		if remove != nil {
			remove()
			with(at + " is not there")
		}
		set(v)
		spoil(v, at, with)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if at == "" && key != "spec" && key != "metadata" {
				continue
			}
			each(at+"."+key, value[key], func(v any) { value[key] = v }, func() { delete(value, key) })
			old := value[key]
			if _, text := old.(string); text {
				delete(value, key)
				value["-"+key+" !"] = old
				with(at + "." + key + " has another key")
				delete(value, "-"+key+" !")
				value[key] = old
			}
		}
	case []any:
		for i := range value {
			each(fmt.Sprintf("%s[%d]", at, i), value[i], func(v any) { value[i] = v }, nil)
		}
	}
}

// spoilt are values of the same type that may be bad in its place.
func spoilt(v any) (bad []any) {
	switch v := v.(type) {
	case string:
		return []any{"", "-a b-", "net.core.somaxconn", "net/core/somaxconn", "kernel/sem", "Other_Value", "../up", strings.Repeat("x", 300), v + "-", "/" + v, "-5", "1"}
	case float64:
		return []any{-1.0, 0.0, 1.0, 70000.0, 2_200_000_000.0}
	case bool:
		return []any{!v}
	case []any:
		bad = []any{[]any{}}
		if len(v) > 0 {
			bad = append(bad, append(slices.Clone(v), v[0]))
		}
		return bad
	case map[string]any:
		return []any{map[string]any{}}
	}
	return nil
}

func must1[T any](v T, err error) T {
	must(err)
	return v
}
