package podsources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// told is one update without the barrier's pod.
type told struct {
	source, op string
	pods       []string // full name and UID, in order
}

func (u told) String() string { return u.op + " " + u.source + " " + strings.Join(u.pods, ", ") }

// reader keeps what a side said since the step before, and has the state that a
// reader of all updates has.
type reader struct {
	since []told
	state map[string]map[types.UID]*v1.Pod // by source; a source is there when it was seen
	marks map[string]string                // barriers by source
	// before is the state at the end of the step before.
	before map[string]map[types.UID]*v1.Pod
	wrong  error // an update that cannot be after those before it
}

func newReader() *reader {
	return &reader{state: map[string]map[types.UID]*v1.Pod{}, marks: map[string]string{}}
}

// read applies an update.
func (r *reader) read(source, op string, pods []*v1.Pod) {
	state := r.state[source]
	first := state == nil
	if first {
		state = map[types.UID]*v1.Pod{}
		r.state[source] = state
	}
	u := told{source: source, op: op}
	for _, pod := range pods {
		if (state[pod.UID] == nil) != (op == "ADD") && r.wrong == nil {
			r.wrong = fmt.Errorf("%s %s of %s %s, which is known: %t", op, source, pod.Name, pod.UID, state[pod.UID] != nil)
		}
		if op == "REMOVE" {
			delete(state, pod.UID)
		} else {
			state[pod.UID] = pod
		}
		if isBarrier(pod) {
			r.marks[source] = pod.Labels[barrierLabel]
			continue
		}
		u.pods = append(u.pods, pod.Namespace+"/"+pod.Name+"@"+string(pod.UID))
	}
	slices.Sort(u.pods) // the kubelet has no order within an update
	if len(u.pods) > 0 || first {
		r.since = append(r.since, u)
	}
}

// of are the updates of a source.
func (r *reader) of(source string) (us []told) {
	for _, u := range r.since {
		if u.source == source {
			us = append(us, u)
		}
	}
	return us
}

// next begins a step.
func (r *reader) next() {
	r.since = nil
	r.before = map[string]map[types.UID]*v1.Pod{}
	for source, state := range r.state {
		r.before[source] = maps.Clone(state)
	}
}

// The rules: what may be different although podconfig is KubeletCompatible. Each is a row of
// docs/podsources.md that has no switch back, or is there as a note.
const (
	// The kubelet reads a file on each event, and all of them periodically. Between the
	// two it may take a file that is renamed, half written or one of two of one name
	// for something that it is not the next moment.
	rulePassing = "files: a passing REMOVE or ADD of the kubelet"
	// After a relist the kubelet compares whole lists; here each changed pod is told as it comes.
	ruleGrouping = "api: one update of the kubelet is several after a relist"
	// Where a file that had one pod gets another one the kubelet adds that with the event, and removes
	// the first when all files are read again.
	ruleParts = "files: the kubelet tells in parts what is one change"
)

var rules = []string{rulePassing, ruleGrouping, ruleParts}

// compare compares what both said in a step, and what their readers have now.
func (w *world) compare(s step, counts map[string]int) error {
	defer w.theirs.next()
	defer w.mine.next()
	for _, r := range []struct {
		who string
		*reader
	}{{"the kubelet", w.theirs}, {"podconfig", w.mine}} {
		if r.wrong != nil {
			return fmt.Errorf("%s: %w", r.who, r.wrong)
		}
	}
	if d := w.differences(); len(d) > 0 {
		return fmt.Errorf("the readers have different pods:\n\t%s\n%s", strings.Join(d, "\n\t"), w.transcript())
	}
	if w.model != nil {
		return w.compareImproved(s)
	}
	for _, source := range sources {
		theirs, mine := w.theirs.of(source), w.mine.of(source)
		rule, ok := same(source, s, w.cause, theirs, mine)
		if !ok {
			return fmt.Errorf("source %s: the updates are different\n%s", source, w.transcript())
		}
		if rule != "" {
			counts[rule]++
		}
	}
	return nil
}

// same reports whether the updates of a source are the same, and the rule by which they are,
// if one was needed. What readers have in the end is known to be the same.
func same(source string, s step, cause string, theirs, mine []told) (rule string, ok bool) {
	equal := func(a, b told) bool { return a.op == b.op && slices.Equal(a.pods, b.pods) }
	if slices.EqualFunc(theirs, mine, equal) {
		return "", true
	}
	switch {
	case source == kubetypes.ApiserverSource && s.op == "relist":
		// The same operations on the same pods, in any grouping.
		return ruleGrouping, slices.Equal(single(theirs), single(mine))
	case source == kubetypes.FileSource && (s.source == kubetypes.FileSource || s.op == "start") && cause != "":
		if !once(mine) || !slices.IsSortedFunc(mine, byOperation) {
			return "", false
		}
		// What the kubelet has more has to be about pods that came and went in between,
		// or went and came.
		passing := passingPods(theirs)
		if len(passing) == 0 {
			return ruleParts, slices.Equal(single(theirs), single(mine))
		}
		return rulePassing, slices.Equal(without(theirs, passing), without(mine, passing))
	case source == kubetypes.FileSource && cause != "" && len(mine) == 0:
		// On a busy machine the kubelet comes to it only in a later step, of another source.
		return rulePassing, len(without(theirs, passingPods(theirs))) == 0
	}
	return "", false
}

// byOperation is the order within one change of a source.
func byOperation(a, b told) int {
	order := []string{"REMOVE", "ADD", "UPDATE", "DELETE", "RECONCILE"}
	return cmp.Compare(slices.Index(order, a.op), slices.Index(order, b.op))
}

// single are the operations on single pods, in any order.
func single(us []told) (ops []string) {
	for _, u := range us {
		for _, pod := range u.pods {
			ops = append(ops, u.op+" "+pod)
		}
	}
	slices.Sort(ops)
	return ops
}

// passingPods are those that were both added and removed.
func passingPods(us []told) map[string]bool {
	seen := map[string]int{}
	for _, u := range us {
		for _, pod := range u.pods {
			switch u.op {
			case "ADD":
				seen[pod] |= 1
			case "REMOVE":
				seen[pod] |= 2
			}
		}
	}
	maps.DeleteFunc(seen, func(_ string, n int) bool { return n != 3 })
	passing := map[string]bool{}
	for pod := range seen {
		passing[pod] = true
	}
	return passing
}

// without are the operations on single pods but for some.
func without(us []told, pods map[string]bool) []string {
	return slices.DeleteFunc(single(us), func(op string) bool {
		_, pod, _ := strings.Cut(op, " ")
		return pods[pod]
	})
}

// once reports whether no pod was told twice.
func once(us []told) bool {
	seen := map[string]bool{}
	for _, u := range us {
		for _, pod := range u.pods {
			if seen[pod] {
				return false
			}
			seen[pod] = true
		}
	}
	return true
}

// differences are those of what the readers have, by the rules of the mode.
func (w *world) differences() []string {
	if w.model != nil {
		return w.model.differences(w.theirs, w.mine)
	}
	return differences(w.theirs, w.mine)
}

// differences are those of the states, the barriers' too.
func differences(theirs, mine *reader) (lines []string) {
	for _, source := range sources {
		a, b := theirs.state[source], mine.state[source]
		if (a == nil) != (b == nil) {
			lines = append(lines, fmt.Sprintf("source %s was seen: by the kubelet's reader %t, by podconfig's %t", source, a != nil, b != nil))
		}
		all := maps.Clone(a)
		if all == nil {
			all = map[types.UID]*v1.Pod{}
		}
		maps.Copy(all, b)
		for _, uid := range slices.Sorted(maps.Keys(all)) {
			if x, y := comparable(a[uid]), comparable(b[uid]); x != y {
				lines = append(lines, fmt.Sprintf("%s %s: the kubelet's is %s\n\t\tpodconfig's is %s", source, uid,
					cmp.Or(x, "not there"), cmp.Or(y, "not there")))
			}
		}
	}
	return lines
}

// comparable is all of a pod but when it was seen, and what the types of a wire format
// may or may not fill in.
func comparable(pod *v1.Pod) string {
	if pod == nil {
		return ""
	}
	pod = pod.DeepCopy()
	delete(pod.Annotations, "kubernetes.io/config.seen")
	pod.APIVersion, pod.Kind = "", ""
	data, err := json.Marshal(pod)
	must(err)
	return string(data)
}

// transcript is what both said in a step.
func (w *world) transcript() string {
	var b strings.Builder
	for _, r := range []struct {
		who string
		*reader
	}{{"the kubelet said", w.theirs}, {"podconfig said", w.mine}} {
		fmt.Fprintf(&b, "%s\n", r.who)
		for _, u := range r.since {
			fmt.Fprintf(&b, "\t%s\n", u)
		}
	}
	return b.String()
}
