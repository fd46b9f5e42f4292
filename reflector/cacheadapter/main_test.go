package cacheadapter

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func listerWatcher(t *testing.T, srv *listwatchtest.Server) *listwatch.ListerWatcher[*corev1.Pod] {
	t.Helper()
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: pods})
	if err != nil {
		t.Fatal(err)
	}
	return lw
}

// cluster changes the pods of a server; any failure ends the test.
type cluster struct {
	t *testing.T
	*listwatchtest.Server
}

func pod(name, label string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"v": label}}}
}

func (c cluster) create(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if err := c.Create(pod(name, "1")); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c cluster) update(name, label string) {
	c.t.Helper()
	if err := c.Update(pod(name, label)); err != nil {
		c.t.Fatal(err)
	}
}

func (c cluster) remove(name string) {
	c.t.Helper()
	if err := c.Delete(pod(name, "")); err != nil {
		c.t.Fatal(err)
	}
}

// has is what the server has, as text: "a=1 b=2", the label of each name.
func (c cluster) has() string {
	objects, _ := c.Snapshot(pods)
	return text(objects)
}

// text is a set of pods as text, sorted by name; what is no pod is said so.
func text[T any](objects []T) string {
	var all []string
	for _, o := range objects {
		if p, ok := any(o).(*corev1.Pod); ok {
			all = append(all, p.Name+"="+p.Labels["v"])
		} else {
			all = append(all, "(not a pod)")
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// asked is the verbs of the requests so far, without discovery.
func (c cluster) asked() string {
	var all []string
	for _, r := range c.Requests() {
		verb, _, _ := strings.Cut(r.String(), " ")
		all = append(all, verb)
	}
	return strings.Join(all, " ")
}
