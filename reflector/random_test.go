package reflector_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// replica folds events and finds fault with them.
type replica struct {
	objects map[string]string // name to word
	rewinds bool
	faults  []string
}

func (p *replica) apply(ev reflector.Event[*corev1.Pod]) {
	if ev.Type == reflector.Synced {
		return
	}
	name, word := ev.Key.Name, show(ev.Object)
	have, there := p.objects[name]
	bad := func(why string) {
		p.faults = append(p.faults, fmt.Sprintf("%s %s after %q: %s", ev.Type, word, have, why))
	}
	switch ev.Type {
	case reflector.Added:
		if there {
			bad("it is there")
		}
		p.objects[name] = word
	case reflector.Modified:
		switch {
		case !there || uidOf(have) != uidOf(word):
			bad("it is not there")
		case have == word:
			bad("delivered twice for the same (UID, resourceVersion)")
		case !p.rewinds && rvOf(have) > rvOf(word):
			bad("out of order")
		}
		p.objects[name] = word
	case reflector.Deleted:
		if !there {
			bad("it is not there")
		}
		delete(p.objects, name)
	}
}

func rvOf(word string) int {
	_, rest, _ := strings.Cut(word, "@")
	rv, _, _ := strings.Cut(rest, "/")
	return number(rv)
}

// TestRandomFaults: whatever the server does, when it is well again "the store
// equals the server's collection", and events replay to the same.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(36) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomFaults(t, seed) })
		})
	}
}

func randomFaults(t *testing.T, seed uint64) {
	// Independent of each other: each way of listing, paged or not, each kind of
	// objects, with and without a server that is restored.
	rewinds := seed%2 == 0
	m := newModel(t, seed)
	m.faulty = true
	log := &logged{}
	c := scriptConfig(t, &listwatchtest.Script{}, m, log)
	c.Resource = "pods"
	c.WatchTimeout = time.Minute << m.rnd.IntN(4)
	c.InitialSync = reflector.InitialSync(seed / 2 % 3)
	c.PageSize = int64(seed / 6 % 2 * 5)
	c.Objects = reflector.Objects(seed / 12 % 3)
	r, err := reflector.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if seed%5 < 3 {
		reflector.ShapeLine(r, 2, 1+int(seed%5))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &replica{objects: map[string]string{}, rewinds: rewinds}
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev := range r.Events(ctx) {
			p.apply(ev)
		}
	})
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for i := range 300 {
		m.act()
		time.Sleep(time.Duration(m.pick(20000)) * time.Millisecond)
		if m.pick(40) == 0 {
			m.compact()
		}
		if rewinds && i == 280 {
			// Far enough back that the few changes that follow do not reach
			// the client's resourceVersion: a history that was replaced
			// unnoticed cannot be told from the one that it replaced.
			m.restore(80)
		}
	}
	m.mu.Lock()
	m.faulty = false
	m.mu.Unlock()
	time.Sleep(3 * time.Hour)
	synctest.Wait()

	want := m.contents()
	var stored []string
	for _, pod := range r.Store().All() {
		stored = append(stored, show(pod))
	}
	slices.Sort(stored)
	if got := strings.Join(stored, " "); got != want {
		t.Errorf("the store differs from the server:\n got  %s\n want %s", got, want)
	}
	if got := strings.Join(slices.Sorted(maps.Values(p.objects)), " "); got != want {
		t.Errorf("the events differ from the server:\n got  %s\n want %s", got, want)
	}
	if len(p.faults) > 0 {
		t.Errorf("events that contradict the ones before:\n  %s", strings.Join(p.faults, "\n  "))
	}
	st := r.Status()
	if st.State != reflector.StateWatching || time.Since(st.FreshAsOf) > 4*time.Minute {
		t.Errorf("a well server is not watched: %+v", st)
	}
	m.mu.Lock()
	watches, served := m.watches, m.served
	m.mu.Unlock()
	if watches != 1 {
		t.Errorf("%d watches are open, want 1", watches)
	}
	if rewinds && r.Stats().Regressions == 0 {
		t.Error("the restore was not counted")
	}
	if served > 3000 {
		t.Errorf("%d requests", served)
	}
	cancel()
	wg.Wait()
	if t.Failed() {
		lines := strings.Split(log.String(), "\n")
		t.Logf("the log ends with:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}
