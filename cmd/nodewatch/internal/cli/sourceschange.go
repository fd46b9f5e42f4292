package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// podChange is one field that differs between two versions of a pod. Old or New
// is missing where the field is.
type podChange struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// String is path: old -> new.
func (c podChange) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Path, brief(c.Old), brief(c.New))
}

// brief is a value in a few characters.
func brief(v any) string {
	const most = 40
	text := "(none)"
	switch v := v.(type) {
	case nil:
	case string:
		if text = v; v == "" {
			text = `""`
		}
	default:
		if b, err := json.Marshal(v); err == nil {
			text = string(b)
		}
	}
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-3]) + "..."
	}
	return text
}

// podChanges lists what a node may care for, what says most first. Fields that
// say little (times of transitions, managedFields, the resourceVersion, the hash of a
// manifest) are left out unless there are no others.
func podChanges(old, new *corev1.Pod) []podChange {
	a, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return nil
	}
	b, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new)
	if err != nil {
		return nil
	}
	var all []podChange
	compareTrees("", a, b, &all)
	telling := slices.DeleteFunc(slices.Clone(all), func(c podChange) bool { return saysLittle(c.Path) })
	if len(telling) == 0 {
		telling = all
	}
	slices.SortStableFunc(telling, func(x, y podChange) int { return cmp.Compare(rank(x.Path), rank(y.Path)) })
	return telling
}

// rank puts first what a reader of three changes should see.
func rank(path string) int {
	for i, prefix := range []string{"metadata.deletion", "spec", "metadata", "status.phase", "status.reason", "status.containerStatuses"} {
		if strings.HasPrefix(path, prefix) {
			return i
		}
	}
	return 10
}

func saysLittle(path string) bool {
	switch path {
	case "metadata.resourceVersion", "metadata.managedFields", "metadata.generation", "metadata.annotations[kubernetes.io/config.seen]",
		"metadata.annotations[kubernetes.io/config.hash]":
		return true
	}
	return strings.HasSuffix(path, "Time") || strings.HasSuffix(path, "At") || strings.HasSuffix(path, "observedGeneration")
}

// compareTrees adds the leaves that differ. Elements of lists are named as the
// API merges them: by name, type, containerPort or ip, else by their number.
func compareTrees(path string, a, b any, out *[]podChange) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			compareMaps(path, x, y, out)
			return
		}
	case []any:
		if y, ok := b.([]any); ok && path != "metadata.managedFields" {
			if m, ok := byKey(x); ok {
				if n, ok := byKey(y); ok {
					compareMaps(path, m, n, out)
					return
				}
			}
		}
	}
	if !reflect.DeepEqual(a, b) {
		*out = append(*out, podChange{Path: path, Old: a, New: b})
	}
}

func compareMaps(path string, a, b map[string]any, out *[]podChange) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		at := path + "." + k
		switch {
		case path == "":
			at = k
		case strings.HasPrefix(k, "[") || strings.ContainsAny(k, "./"):
			at = path + "[" + strings.Trim(k, "[]") + "]"
		}
		compareTrees(at, a[k], b[k], out)
	}
}

// byKey makes a map of a list of objects; false for another list.
func byKey(list []any) (map[string]any, bool) {
	m := make(map[string]any, len(list))
	for i, e := range list {
		o, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		key := strconv.Itoa(i)
		for _, name := range []string{"name", "type", "containerPort", "ip", "mountPath", "key"} {
			if v, ok := o[name]; ok {
				key = fmt.Sprint(v)
				break
			}
		}
		if _, twice := m["["+key+"]"]; twice {
			key = strconv.Itoa(i)
		}
		m["["+key+"]"] = o
	}
	return m, true
}

// ofInstance reports whether a field is different in any two pods of one name, and says
// nothing of what they are made of.
func ofInstance(c podChange) bool {
	switch {
	case strings.HasPrefix(c.Path, "metadata.annotations[kubernetes.io/config."):
		return true
	case strings.HasPrefix(c.Path, "spec."), strings.HasPrefix(c.Path, "metadata.labels"), strings.HasPrefix(c.Path, "metadata.annotations"):
		return false
	}
	return true
}
