package reflector

import (
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// podUnion is a union of members whose stores are filled by hand: it returns what gives a pod to one.
func podUnion(t *testing.T, store *Store[*corev1.Pod], keys ...string) (*Union[*corev1.Pod], func(member int, p *corev1.Pod)) {
	t.Helper()
	u, err := NewUnion(UnionConfig[*corev1.Pod]{Store: store, Member: func(key string) (*Reflector[*corev1.Pod], error) {
		return New(Config[*corev1.Pod]{Name: key, Resource: "pods", ListerWatcher: unused[*corev1.Pod]{}})
	}}, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return u, func(member int, p *corev1.Pod) {
		u.members[member].r.store.testUpsert(decode.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, p)
	}
}

// "Memory: objects are shared with the members' stores; the union has an entry of its own for each, as in any Store
// about 140 bytes, and 40 for each value of an index. A name that several members claim costs some 200 bytes more."
func TestUnionBytes(t *testing.T) {
	const n = 10_000
	objects := podsOf300Nodes(n)
	for _, tc := range []struct {
		what    string
		store   *Store[*corev1.Pod]
		members int // that have each object
		want    int64
	}{
		{"one member", nil, 1, 150},
		{"an index", NewStore(ByLabel[*corev1.Pod]("node")), 1, 200},
		{"two members", nil, 2, 400},
	} {
		// Their own stores count for what they take alone.
		u, give := podUnion(t, tc.store, "a", "b")
		alone := NewStore[*corev1.Pod]()
		before := heap()
		for _, p := range objects {
			alone.testUpsert(decode.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, p)
		}
		member := heap() - before
		before = heap()
		for i, p := range objects {
			give(i%2, p)
			if tc.members == 2 {
				give((i+1)%2, p)
			}
		}
		got := (heap() - before - int64(tc.members)*member) / n
		if got > tc.want || u.Store().Len() != n {
			t.Errorf("%s: a union takes %d bytes beside each of %d objects, want at most %d", tc.what, got, u.Store().Len(), tc.want)
		}
		runtime.KeepAlive(alone)
	}
	runtime.KeepAlive(objects)
}

// An event of an object that one member has costs the union its entry, and nothing else.
func TestUnionEventAllocations(t *testing.T) {
	versions := make([]*corev1.Pod, 2002)
	for i := range versions {
		versions[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: strconv.Itoa(i + 1)}}
	}
	alone := NewStore[*corev1.Pod]()
	_, give := podUnion(t, nil, "a", "b")
	i, j := 0, 0
	without := testing.AllocsPerRun(1000, func() {
		p := versions[i]
		alone.testUpsert(decode.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, p)
		i++
	})
	with := testing.AllocsPerRun(1000, func() {
		give(1, versions[j])
		j++
	})
	if with != without+1 {
		t.Errorf("an event costs %v allocations with a union and %v without, want one more", with, without)
	}
}
