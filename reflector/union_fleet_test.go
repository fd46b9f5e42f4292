package reflector_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// gated is a server whose doors can be shut: it forbids, or does not answer.
type gated struct {
	*model
	forbids, hangs atomic.Bool
}

func (g *gated) pass(ctx context.Context, verb string) error {
	if g.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if g.forbids.Load() {
		return failed(verb, 403, "Forbidden no")
	}
	return nil
}

func (g *gated) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	if err := g.pass(ctx, "list"); err != nil {
		return metav1.ListMeta{}, err
	}
	return g.model.List(ctx, opts, sink)
}

func (g *gated) Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	if err := g.pass(ctx, "watch"); err != nil {
		return nil, err
	}
	return g.model.Watch(ctx, opts)
}

// fleet is a union of servers of one node each, by its name, and what a subscriber was told.
type fleet struct {
	*reflector.Union[*corev1.Pod]
	nodes    map[string]*gated
	registry reflector.Registry
	making   func(key string) error // is asked before a member is made, when set
	replica  *replica
	events   []string // since the last take
	stop     func()
}

// newFleet starts one. It is called inside a synctest bubble.
func newFleet(t *testing.T, nodes []string, keys []string) *fleet {
	t.Helper()
	f := &fleet{nodes: map[string]*gated{}, replica: &replica{objects: map[string]string{}}}
	for i, name := range nodes {
		f.nodes[name] = &gated{model: newModel(t, uint64(i))}
		f.nodes[name].prefix = name + "-"
	}
	var err error
	f.Union, err = reflector.NewUnion(reflector.UnionConfig[*corev1.Pod]{
		Name: "fleet",
		Member: func(key string) (*reflector.Reflector[*corev1.Pod], error) {
			if f.making != nil {
				if err := f.making(key); err != nil {
					return nil, err
				}
			}
			return reflector.New(reflector.Config[*corev1.Pod]{Name: key, Resource: "pods", ListerWatcher: f.nodes[key], Registry: &f.registry})
		},
		Registry: &f.registry,
	}, keys...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for ev := range f.Subscribe(ctx, reflector.Subscription[*corev1.Pod]{OnStart: func() { close(begun) }}) {
			f.replica.apply(ev)
			f.events = append(f.events, describe(ev))
		}
	})
	<-begun
	group.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	f.stop = func() {
		cancel()
		group.Wait()
	}
	synctest.Wait()
	return f
}

// take returns what the subscriber was told since, without Synced's versions, deletes of a removed member sorted.
func (f *fleet) take() []string {
	synctest.Wait()
	got := sortDeletes(f.events)
	f.events = nil
	for i, s := range got {
		got[i], _, _ = strings.Cut(s, " rv=")
		if strings.HasPrefix(s, "SYNCED") {
			got[i] = "SYNCED"
		}
	}
	return got
}

func (f *fleet) set(t *testing.T, keys ...string) {
	t.Helper()
	if err := f.Set(keys...); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) put(node, word string) {
	m := f.nodes[node]
	m.mu.Lock()
	defer m.mu.Unlock()
	name, _, _ := strings.Cut(word, "@")
	c := change{rv: rvOf(word), typ: "ADDED", word: word}
	if m.objects[name] != "" {
		c.typ = "MODIFIED"
	}
	m.rv = max(m.rv, c.rv)
	m.objects[name] = word
	m.history = append(m.history, c)
	m.wakeLocked()
}

func (f *fleet) stored() string {
	var all []string
	for _, pod := range f.Store().All() {
		all = append(all, show(pod))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (f *fleet) watches(node string) int {
	m := f.nodes[node]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watches
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
