package podconfig

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// guardModel is a server with a history that may be lost, the reflector in front of it,
// and what a source behind the guard has to have. Pods are names by UID.
type guardModel struct {
	store map[types.UID]string // the reflector's
	want  map[types.UID]string // the source's
	held  map[types.UID]bool   // of want: not believed to be gone
	rv    int                  // of the server
	high  int
	next  int // of UIDs
}

// heard is a sign of the server's history at its rv.
func (m *guardModel) heard() {
	if m.rv >= m.high {
		m.high = m.rv
		m.release()
	}
}

func (m *guardModel) release() {
	for uid := range m.held {
		delete(m.want, uid)
	}
	clear(m.held)
}

// TestRandomGuard: over random histories of watches, relists and servers that go back in
// time, the changes add up to what the server has; but for an empty list from the past,
// which changes nothing.
func TestRandomGuard(t *testing.T) {
	// In a bubble no time goes by, so that nothing is ever overdue.
	synctest.Test(t, testRandomGuard)
}

func testRandomGuard(t *testing.T) {
	withheld := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := &guardModel{store: map[types.UID]string{}, want: map[types.UID]string{}, held: map[types.UID]bool{}, rv: 1000, high: 1000}
		a, err := NewAPIServer(APIServerConfig{Gate: GateOff, Pods: nodefilter.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Node: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		have := make(map[types.UID]string)
		a.tell = func(c Change) {
			for _, g := range c.Gone {
				if have[g.UID] != g.Name {
					t.Fatalf("seed %d: %s is gone and was not there", seed, g.UID)
				}
				delete(have, g.UID)
			}
			for _, p := range c.Pods {
				have[p.UID] = p.Name
			}
		}
		a.handle(reflector.Event[*corev1.Pod]{Type: reflector.Synced, ResourceVersion: "1000", Initial: true})
		for step := range 60 {
			did := m.step(r, a)
			withheld += len(m.held)
			if !maps.Equal(have, m.want) || a.n != len(m.want) || len(a.guard.withheld) != len(m.held) {
				t.Fatalf("seed %d, step %d, %s: the source has %v (counted %d, withheld %d), want %v, of which withheld %d",
					seed, step, did, have, a.n, len(a.guard.withheld), m.want, len(m.held))
			}
		}
		a.end()
	}
	if withheld == 0 {
		t.Error("no history had an empty list from the past")
	}
}

// step does one thing, to the model and to the source.
func (m *guardModel) step(r *rand.Rand, a *APIServer) string {
	m.rv += 1 + r.IntN(30)
	uids := slices.Sorted(maps.Keys(m.store))
	switch op := r.IntN(10); {
	case op < 3:
		m.next++
		uid, name := types.UID(fmt.Sprintf("u%03d", m.next)), fmt.Sprintf("p%d", r.IntN(5))
		for old, taken := range m.store {
			if taken == name {
				return "nothing: the name is taken by " + string(old)
			}
		}
		m.add(a, uid, name)
		m.heard()
		return "add " + string(uid)
	case op < 4 && len(m.held) > 0:
		// The very pod comes back.
		uid := slices.Sorted(maps.Keys(m.held))[0]
		m.add(a, uid, m.want[uid])
		m.heard()
		return "back " + string(uid)
	case op < 6 && len(uids) > 0:
		uid := uids[r.IntN(len(uids))]
		name := m.store[uid]
		delete(m.store, uid)
		delete(m.want, uid)
		m.heard()
		a.handle(deleted(uid, name, m.rv, false))
		return "delete " + string(uid)
	}
	// A list: of all, or from the past, or empty.
	if r.IntN(2) == 0 {
		m.rv = max(1, m.high-1-r.IntN(500))
	}
	var gone []types.UID
	for _, uid := range uids {
		if r.IntN(3) == 0 {
			gone = append(gone, uid)
		}
	}
	if r.IntN(2) == 0 {
		gone = uids
	}
	return m.list(a, gone)
}

// list is a relist that has the pods of the store but for some.
func (m *guardModel) list(a *APIServer, gone []types.UID) string {
	had := len(m.want)
	for _, uid := range gone {
		a.handle(deleted(uid, m.store[uid], m.rv, true))
		delete(m.store, uid)
	}
	a.handle(reflector.Event[*corev1.Pod]{Type: reflector.Synced, ResourceVersion: fmt.Sprint(m.rv)})
	if len(m.store) == 0 && had > 0 && m.rv < m.high {
		for uid := range m.want {
			m.held[uid] = true
		}
	} else {
		m.want, m.high = maps.Clone(m.store), m.rv
		clear(m.held)
	}
	return fmt.Sprintf("list at %d without %v", m.rv, gone)
}

// add is an ADDED of the watch.
func (m *guardModel) add(a *APIServer, uid types.UID, name string) {
	m.store[uid] = name
	for old := range m.held {
		if m.want[old] == name {
			delete(m.want, old)
			delete(m.held, old)
		}
	}
	m.want[uid] = name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	a.handle(reflector.Event[*corev1.Pod]{Type: reflector.Added, Key: decode.Key{Namespace: "default", Name: name}, UID: uid,
		ResourceVersion: fmt.Sprint(m.rv), Object: pod})
}

func deleted(uid types.UID, name string, rv int, unknown bool) reflector.Event[*corev1.Pod] {
	return reflector.Event[*corev1.Pod]{Type: reflector.Deleted, Key: decode.Key{Namespace: "default", Name: name}, UID: uid,
		ResourceVersion: fmt.Sprint(rv), FinalStateUnknown: unknown, Object: &corev1.Pod{}}
}
