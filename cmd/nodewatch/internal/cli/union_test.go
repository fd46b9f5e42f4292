package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
)

// change is the item of a pod's change: "ADDED web-0 uid-1 7", with a question
// mark behind it where the final state is unknown.
func change(t *testing.T, text string) item {
	t.Helper()
	if text == "SYNCED" {
		return item{synced: true, initial: true}
	}
	words := strings.Fields(text)
	if len(words) != 4 {
		t.Fatalf("%q is not EVENT NAME UID VERSION", text)
	}
	rv, unknown := strings.CutSuffix(words[3], "?")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: words[1], UID: types.UID(words[2]), ResourceVersion: rv}}
	return item{event: output.Event{Type: watch.EventType(words[0]), Pod: pod, FinalStateUnknown: unknown}}
}

func changeText(it item) string {
	if it.synced {
		return "SYNCED"
	}
	text := fmt.Sprintf("%s %s %s %s", it.event.Type, it.event.Pod.Name, it.event.Pod.UID, it.event.Pod.ResourceVersion)
	if it.event.FinalStateUnknown {
		text += "?"
	}
	return text
}

// TestUnion: "a changed UID under one name is DELETED(old) then ADDED(new)",
// also when the two are on different nodes and come in the other order.
func TestUnion(t *testing.T) {
	for _, c := range []struct {
		name string
		// in are "SOURCE CHANGE"; a change with a question mark has finalStateUnknown.
		in, want []string
	}{
		{
			"in order",
			[]string{"0 ADDED web u1 1", "0 MODIFIED web u1 2", "0 DELETED web u1 3", "1 ADDED web u2 4"},
			[]string{"ADDED web u1 1", "MODIFIED web u1 2", "DELETED web u1 3", "ADDED web u2 4"},
		},
		{
			"the new one first; all that comes late of the old one is swallowed",
			[]string{"0 ADDED web u1 1", "1 ADDED web u2 4", "0 MODIFIED web u1 2", "1 MODIFIED web u2 5", "0 DELETED web u1 3", "1 MODIFIED web u2 6"},
			[]string{"ADDED web u1 1", "DELETED web u1 1?", "ADDED web u2 4", "MODIFIED web u2 5", "MODIFIED web u2 6"},
		},
		{
			"the old one is seen first when the new one is known",
			[]string{"1 ADDED web u2 4", "0 ADDED web u1 1", "0 DELETED web u1 3"},
			[]string{"ADDED web u2 4"},
		},
		{
			"there and back again",
			[]string{"0 ADDED web u1 1", "1 ADDED web u2 4", "0 DELETED web u1 3", "0 ADDED web u3 7", "1 DELETED web u2 6", "0 MODIFIED web u3 8"},
			[]string{"ADDED web u1 1", "DELETED web u1 1?", "ADDED web u2 4", "DELETED web u2 4?", "ADDED web u3 7", "MODIFIED web u3 8"},
		},
		{
			"one source that misses the delete",
			[]string{"0 ADDED web u1 1", "0 MODIFIED web u2 9"},
			[]string{"ADDED web u1 1", "DELETED web u1 1?", "ADDED web u2 9"},
		},
		{
			"a restored server: the new one has the lower version, and stays when the other goes",
			[]string{"1 ADDED web u2 40", "0 ADDED web u3 5", "1 DELETED web u2 40?", "0 MODIFIED web u3 6"},
			[]string{"ADDED web u2 40", "DELETED web u2 40?", "ADDED web u3 5", "MODIFIED web u3 6"},
		},
		{
			"the old one does not come back when the new one goes before its end is known",
			[]string{"0 ADDED web u1 1", "1 ADDED web u2 4", "1 DELETED web u2 6", "0 MODIFIED web u1 2", "0 DELETED web u1 3", "0 ADDED web u3 8"},
			[]string{"ADDED web u1 1", "DELETED web u1 1?", "ADDED web u2 4", "DELETED web u2 6", "ADDED web u3 8"},
		},
		{
			"nor when a list found that the new one had gone",
			[]string{"0 ADDED web u1 1", "1 ADDED web u2 4", "1 DELETED web u2 4?", "0 DELETED web u1 3"},
			[]string{"ADDED web u1 1", "DELETED web u1 1?", "ADDED web u2 4", "DELETED web u2 4?"},
		},
		{
			"an old one that was never shown is not when the new one goes",
			[]string{"1 ADDED web u2 4", "0 ADDED web u1 1", "1 DELETED web u2 6", "0 DELETED web u1 3"},
			[]string{"ADDED web u2 4", "DELETED web u2 6"},
		},
		{
			"versions that are no numbers: the source that was heard last",
			[]string{"0 ADDED web u1 a", "1 ADDED web u2 b", "0 DELETED web u1 a"},
			[]string{"ADDED web u1 a", "DELETED web u1 a?", "ADDED web u2 b"},
		},
		{
			"names do not meet",
			[]string{"0 ADDED web u1 1", "1 ADDED db u2 2", "0 DELETED web u1 3"},
			[]string{"ADDED web u1 1", "ADDED db u2 2", "DELETED web u1 3"},
		},
		{
			"synced with the last source",
			[]string{"0 ADDED web u1 1", "0 SYNCED", "1 SYNCED", "0 DELETED web u1 3"},
			[]string{"ADDED web u1 1", "SYNCED", "DELETED web u1 3"},
		},
	} {
		u := newUnion(2)
		var got []string
		for _, in := range c.in {
			source, text, _ := strings.Cut(in, " ")
			n, err := strconv.Atoi(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range u.apply(n, change(t, text)) {
				got = append(got, changeText(it))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestUnionRelist: a later Synced is a relist of one source, and nothing to tell.
func TestUnionRelist(t *testing.T) {
	u := newUnion(2)
	for source := range 2 {
		u.apply(source, item{synced: true, initial: true})
	}
	if items := u.apply(0, item{synced: true}); len(items) != 0 {
		t.Errorf("a relist makes %v", items)
	}
}

// TestUnionRandom: pods move between nodes under the same names while the nodes'
// watches lag behind each other at random. A reader who folds what comes by
// namespace and name is never surprised, sees no pod come back, and in the end
// has what there is.
func TestUnionRandom(t *testing.T) {
	const sources, podNames, changes = 3, 4, 400
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		u := newUnion(sources)
		var queues [sources][]item // what the server sent and the source has not read
		type running struct {
			pod  *corev1.Pod
			node int
		}
		server := map[string]running{}
		reader := map[string]*corev1.Pod{}
		ended := map[types.UID]bool{}
		read := func(source int) {
			it := queues[source][0]
			queues[source] = queues[source][1:]
			for _, it := range u.apply(source, it) {
				pod := it.event.Pod
				known := reader[pod.Name]
				switch it.event.Type {
				case watch.Added:
					if known != nil {
						t.Fatalf("seed %d: %s, but the reader has %s", seed, changeText(it), known.UID)
					}
					if ended[pod.UID] {
						t.Fatalf("seed %d: %s came back", seed, changeText(it))
					}
					reader[pod.Name] = pod
				case watch.Modified:
					if known == nil || known.UID != pod.UID || version(pod) <= version(known) {
						t.Fatalf("seed %d: %s, but the reader has %v", seed, changeText(it), known)
					}
					reader[pod.Name] = pod
				case watch.Deleted:
					if known == nil || known.UID != pod.UID {
						t.Fatalf("seed %d: %s, but the reader has %v", seed, changeText(it), known)
					}
					delete(reader, pod.Name)
					ended[pod.UID] = true
				}
			}
		}
		for rv := range changes {
			name := fmt.Sprint("web-", random.IntN(podNames))
			have, exists := server[name]
			send := func(event watch.EventType, node int, uid types.UID) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, ResourceVersion: strconv.Itoa(rv + 1)}}
				queues[node] = append(queues[node], item{event: output.Event{Type: event, Pod: pod}})
				server[name] = running{pod, node}
			}
			switch {
			case !exists:
				send(watch.Added, random.IntN(sources), types.UID(strconv.Itoa(rv+1)))
			case random.IntN(2) == 0:
				send(watch.Modified, have.node, have.pod.UID)
			default:
				send(watch.Deleted, have.node, have.pod.UID)
				delete(server, name)
			}
			for source := range queues {
				for len(queues[source]) > 0 && random.IntN(3) == 0 {
					read(source)
				}
			}
		}
		for source := range queues {
			for len(queues[source]) > 0 {
				read(source)
			}
		}
		if len(reader) != len(server) || len(u.shown()) != len(server) {
			t.Fatalf("seed %d: the reader has %d pods, union %d, the server %d", seed, len(reader), len(u.shown()), len(server))
		}
		for name, have := range server {
			if reader[name] != have.pod {
				t.Fatalf("seed %d: %s: the reader has %v, the server %v", seed, name, reader[name], have.pod)
			}
		}
	}
}
