package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
	"github.com/nodewatch-go/nodewatch/internal/podtable"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// sourcePrinter writes updates, one line for each pod. It remembers the pods
// that it wrote, to say what changed.
type sourcePrinter struct {
	json  bool
	grid  *output.Grid
	known map[knownPod]*corev1.Pod
	// removed are the pods of a source's last update if that was a REMOVE: the ADD that
	// follows says what is different in a pod of the same name, as one has that was made anew.
	removed map[podconfig.Source]map[types.NamespacedName]*corev1.Pod
}

type knownPod struct {
	source podconfig.Source
	uid    types.UID
}

func newSourcePrinter(format string) *sourcePrinter {
	return &sourcePrinter{
		json: format == "json",
		// The widest words of a column that would otherwise grow.
		grid:    output.NewGrid(map[string]int{"OP": len("RECONCILE"), "NAMESPACE": len("kube-system"), "NAME": 30}, "OP", "SOURCE", "NAMESPACE", "NAME", "CHANGE"),
		known:   map[knownPod]*corev1.Pod{},
		removed: map[podconfig.Source]map[types.NamespacedName]*corev1.Pod{},
	}
}

// sourceLine is a line of -o json.
type sourceLine struct {
	Op      podconfig.Op     `json:"op"`
	Source  podconfig.Source `json:"source"`
	Initial bool             `json:"initial,omitempty"`
	// Replaces is the UID of the pod whose name an added one has taken over.
	Replaces types.UID   `json:"replaces,omitempty"`
	Changed  []podChange `json:"changed,omitempty"`
	Pod      *corev1.Pod `json:"pod,omitempty"`

	old *corev1.Pod // what was written before, of an update
}

func (p *sourcePrinter) print(buf *bytes.Buffer, u podconfig.PodUpdate) error {
	lines := []sourceLine{{Op: u.Op, Source: u.Source, Initial: u.Initial}}
	if len(u.Pods) > 0 {
		lines = lines[:0]
	}
	removed := p.removed[u.Source]
	delete(p.removed, u.Source)
	if u.Op == podconfig.Remove {
		p.removed[u.Source] = map[types.NamespacedName]*corev1.Pod{}
	}
	for _, pod := range u.Pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		key := knownPod{u.Source, pod.UID}
		l := sourceLine{Op: u.Op, Source: u.Source, Initial: u.Initial, Pod: pod}
		if old := p.known[key]; old != nil && u.Op != podconfig.Remove {
			l.old, l.Changed = old, podChanges(old, pod)
		} else if old := removed[name]; old != nil && u.Op == podconfig.Add {
			l.Replaces, l.Changed = old.UID, slices.DeleteFunc(podChanges(old, pod), ofInstance)
		}
		if p.known[key] = pod; u.Op == podconfig.Remove {
			delete(p.known, key)
			p.removed[u.Source][name] = pod
		}
		lines = append(lines, l)
	}
	if !p.json {
		rows := make([][]string, len(lines))
		for i, l := range lines {
			rows[i] = l.row()
		}
		p.grid.Write(buf, rows)
		return nil
	}
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			return err
		}
		buf.Write(b)
		buf.WriteByte('\n')
	}
	return nil
}

// row is the line of a table.
func (l sourceLine) row() []string {
	if l.Pod == nil {
		return []string{l.Op.String(), string(l.Source), "-", "-", "no pods, initial"}
	}
	return []string{l.Op.String(), string(l.Source), l.Pod.Namespace, l.Pod.Name, l.change()}
}

// shownChanges is how many changes a row of a table tells.
const shownChanges = 3

// change is what a person wants to know: the pod's state in the words of kubectl
// get pods where that says it, else the fields.
func (l sourceLine) change() string {
	var words []string
	switch now := state(l.Pod); {
	case l.Op == podconfig.Add || l.Op == podconfig.Remove:
		words = append(words, now)
		if l.Replaces != "" {
			words = append(words, l.fields()...)
		}
	case l.Op == podconfig.Reconcile && state(l.old) != now:
		words = append(words, state(l.old)+" -> "+now)
	case l.Op == podconfig.Delete && l.old.DeletionTimestamp == nil:
		words = append(words, now)
		if grace := l.Pod.DeletionGracePeriodSeconds; grace != nil {
			words = append(words, fmt.Sprintf("grace %d s", *grace))
		}
	default:
		words = append(words, l.fields()...)
	}
	if l.Initial {
		words = append(words, "initial")
	}
	if podconfig.IsMirrorPod(l.Pod) && l.Source == podconfig.APIServerSource {
		words = append(words, "mirror")
	}
	return strings.Join(words, ", ")
}

// fields are the first changes.
func (l sourceLine) fields() (words []string) {
	for i, c := range l.Changed {
		if i == shownChanges {
			return append(words, "...")
		}
		words = append(words, c.String())
	}
	return words
}

// state is readiness, status and restarts, as kubectl shows them.
func state(pod *corev1.Pod) string {
	cells := podtable.Cells(pod, time.Now())
	ready, status, restarts := cells[1], cells[2], cells[3]
	if n, _, _ := strings.Cut(restarts, " "); n != "0" {
		return fmt.Sprintf("%s %s, restarts %s", ready, status, n)
	}
	return ready + " " + status
}
