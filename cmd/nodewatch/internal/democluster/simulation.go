package democluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

// stage is where a pod of the simulation stands in its life.
type stage uint8

const (
	starting    stage = iota + 1 // bound to its node, containers are made
	unready                      // runs, its probe fails
	ready                        // runs well
	crashed                      // its container ended with an error
	backOff                      // waits to be started again
	completed                    // ran to its end
	terminating                  // is being deleted
)

// simPod is one pod and what the simulation knows of it.
type simPod struct {
	app      *app
	pod      *corev1.Pod
	stage    stage
	since    int // the node's tick at which it got there
	restarts int32
}

// simNode is one node with its pods.
type simNode struct {
	name  string
	index int // from 1
	pods  []*simPod
	ticks int
	addrs int // how many pod addresses were given out
	// rand is the node's own, so that what happens on a node does not depend on
	// how the nodes take turns.
	rand *rand.Rand
}

// simulation makes things happen. It is for one goroutine.
type simulation struct {
	server *listwatchtest.Server
	hashes map[string]string // of each app's pod template
	nodes  []*simNode
}

func newSimulation(server *listwatchtest.Server, nodes int, seed uint64) *simulation {
	s := &simulation{server: server, hashes: map[string]string{}}
	for i := range nodes {
		s.nodes = append(s.nodes, &simNode{
			name: fmt.Sprintf("node-%d", i+1), index: i + 1, rand: rand.New(rand.NewPCG(seed, uint64(i+1))),
		})
	}
	templates := rand.New(rand.NewPCG(seed, 0))
	for i := range apps {
		s.hashes[apps[i].name] = word(templates, 10)
	}
	return s
}

// word returns n characters of the alphabet that Kubernetes makes names of.
func word(r *rand.Rand, n int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// populate makes the nodes and the pods that have been there for long.
func (s *simulation) populate(now time.Time) error {
	for _, namespace := range []string{"default", "kube-system", "monitoring", "shop"} {
		if err := s.server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
	}
	for _, n := range s.nodes {
		if err := s.server.Create(newNode(n, now.Add(-20*24*time.Hour))); err != nil {
			return err
		}
		for i := range apps {
			a := &apps[i]
			for range a.replicas {
				age := time.Duration(1+n.rand.IntN(400)) * time.Hour
				if a.kind == daemon {
					age = 20 * 24 * time.Hour
				}
				if err := s.create(n, a, now.Add(-age), ready); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tick makes one visible change on a node. What is under way goes on before
// something new begins, so that no pod stays long in between.
func (s *simulation) tick(n *simNode, now time.Time) error {
	n.ticks++
	if lost, err := s.replaceLost(n, now); lost || err != nil {
		return err
	}
	if n.ticks == 1 {
		// Who has just come wants to see something go, come and change.
		return s.terminate(n, n.pick(func(p *simPod) bool { return p.app.kind == deployment }))
	}
	if p := n.moving(); p != nil && (n.ticks < 5 || n.rand.IntN(100) < 85) {
		return s.advance(n, p, now)
	}
	replaceable := func(p *simPod) bool { return p.stage == ready && p.app.kind == deployment }
	switch die := n.rand.IntN(10); {
	case die < 3:
		if p := n.pick(replaceable); p != nil {
			return s.set(n, p, unready, now)
		}
	case die < 5:
		if p := n.pick(func(p *simPod) bool { return p.stage == ready && p.app.crashes }); p != nil {
			return s.set(n, p, crashed, now)
		}
	case die < 7:
		if len(n.pods) < 20 {
			return s.create(n, &nightly, now, starting)
		}
	}
	if p := n.pick(replaceable); p != nil {
		return s.terminate(n, p)
	}
	if p := n.moving(); p != nil {
		return s.advance(n, p, now)
	}
	return s.create(n, &nightly, now, starting)
}

// pick returns one of the node's pods that fit, or nil.
func (n *simNode) pick(fits func(*simPod) bool) *simPod {
	var those []*simPod
	for _, p := range n.pods {
		if fits(p) {
			those = append(those, p)
		}
	}
	if len(those) == 0 {
		return nil
	}
	return those[n.rand.IntN(len(those))]
}

// moving returns the pod that has been between two states for longest, or nil.
func (n *simNode) moving() *simPod {
	var longest *simPod
	for _, p := range n.pods {
		if p.stage != ready && (longest == nil || p.since < longest.since) {
			longest = p
		}
	}
	return longest
}

// advance takes a pod that is between two states to the next one.
func (s *simulation) advance(n *simNode, p *simPod, now time.Time) error {
	switch p.stage {
	case starting:
		return s.set(n, p, unready, now)
	case unready:
		if p.app.kind == job {
			return s.set(n, p, completed, now)
		}
		return s.set(n, p, ready, now)
	case crashed:
		return s.set(n, p, backOff, now)
	case backOff:
		p.restarts++
		return s.set(n, p, ready, now)
	case completed:
		return s.remove(n, p)
	case terminating:
		if err := s.remove(n, p); err != nil {
			return err
		}
		return s.create(n, p.app, now, starting)
	}
	return nil
}

// create makes a pod as it happens: without a node first, then bound to it.
func (s *simulation) create(n *simNode, a *app, created time.Time, to stage) error {
	n.addrs++
	pod := newPod(a, s.podName(n, a), s.hashes[a.name], created)
	p := &simPod{app: a, pod: pod, since: n.ticks}
	if to != ready {
		if err := s.server.Create(pod); err != nil {
			return err
		}
	}
	pod.Spec.NodeName = n.name
	p.stage = to
	setStatus(p, n, created)
	write := s.server.Update
	if to == ready {
		write = s.server.Create // it was there before anybody looked
	}
	if err := write(pod); err != nil {
		return err
	}
	n.pods = append(n.pods, p)
	return nil
}

func (s *simulation) podName(n *simNode, a *app) string {
	switch a.kind {
	case daemon:
		return a.name + "-" + word(n.rand, 5)
	case job:
		return fmt.Sprintf("%s-%d-%s", a.name, 29_000_000+n.ticks, word(n.rand, 5))
	}
	return a.name + "-" + s.hashes[a.name] + "-" + word(n.rand, 5)
}

// set writes the status that belongs to a stage.
func (s *simulation) set(n *simNode, p *simPod, to stage, now time.Time) error {
	p.stage, p.since = to, n.ticks
	setStatus(p, n, now)
	p.pod.ResourceVersion = "" // whoever else changed it, the kubelet's word counts
	return unlessGone(s.server.UpdateStatus(p.pod))
}

func (s *simulation) terminate(n *simNode, p *simPod) error {
	p.stage, p.since = terminating, n.ticks
	return unlessGone(s.server.DeleteGracefully(p.pod, -1))
}

func (s *simulation) remove(n *simNode, p *simPod) error {
	n.drop(p)
	return unlessGone(s.server.Delete(p.pod))
}

// replaceLost does what controllers do: pods that somebody else deleted, as with
// kubectl, are made anew. It reports whether there were any.
func (s *simulation) replaceLost(n *simNode, now time.Time) (bool, error) {
	lost := false
	for _, p := range slices.Clone(n.pods) {
		found := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name}}
		err := s.server.Get(found)
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return lost, err
		}
		lost = true
		n.drop(p)
		if p.app.kind == job {
			continue
		}
		if err := s.create(n, p.app, now, starting); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// unlessGone is err, but nil for a pod that was deleted under our hands: the
// next tick replaces it.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (n *simNode) drop(p *simPod) {
	for i, have := range n.pods {
		if have == p {
			n.pods = append(n.pods[:i], n.pods[i+1:]...)
			return
		}
	}
}
