package democluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/internal/podtable"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// newTestSimulation returns a simulation whose server does not listen.
func newTestSimulation(t *testing.T, seed uint64) *simulation {
	t.Helper()
	server := listwatchtest.New(listwatchtest.Config{})
	t.Cleanup(server.Close)
	s := newSimulation(server, 2, seed)
	if err := s.populate(begin); err != nil {
		t.Fatal(err)
	}
	return s
}

// rows returns what the server has of a node: one line for each pod.
func (s *simulation) rows(node string, now time.Time) []string {
	objects, _ := s.server.Snapshot(corev1.SchemeGroupVersion.WithResource("pods"))
	var rows []string
	for _, o := range objects {
		pod := o.(*corev1.Pod)
		if pod.Spec.NodeName != node {
			continue
		}
		cells := podtable.Cells(pod, now)
		rows = append(rows, pod.Namespace+" "+strings.Join(cells[:4], " "))
	}
	return rows
}

func (s *simulation) run(t *testing.T, ticks int) (history []string) {
	t.Helper()
	now := begin
	for i := range ticks {
		now = now.Add(300 * time.Millisecond)
		n := s.nodes[i%len(s.nodes)]
		before, version := s.rows(n.name, now), s.server.ResourceVersion()
		if err := s.tick(n, now); err != nil {
			t.Fatalf("tick %d of %s: %v", n.ticks, n.name, err)
		}
		after := s.rows(n.name, now)
		if s.server.ResourceVersion() == version {
			t.Fatalf("tick %d of %s changed nothing", n.ticks, n.name)
		}
		history = append(history, diff(before, after)...)
	}
	return history
}

func diff(before, after []string) (lines []string) {
	for _, row := range before {
		if !slices.Contains(after, row) {
			lines = append(lines, "- "+row)
		}
	}
	for _, row := range after {
		if !slices.Contains(before, row) {
			lines = append(lines, "+ "+row)
		}
	}
	return lines
}

// TestSeed quotes "What happens is a function of the seed".
func TestSeed(t *testing.T) {
	a, b := newTestSimulation(t, 7).run(t, 200), newTestSimulation(t, 7).run(t, 200)
	if !slices.Equal(a, b) {
		t.Errorf("two runs of one seed differ:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	if other := newTestSimulation(t, 8).run(t, 200); slices.Equal(a, other) {
		t.Error("another seed does the same")
	}
}

// TestLife: within some minutes everything happens that the package promises,
// and the number of pods stays bounded.
func TestLife(t *testing.T) {
	s := newTestSimulation(t, 1)
	seen := strings.Join(s.run(t, 1000), "\n")
	for _, word := range []string{"ContainerCreating", "Terminating", "Completed", "Error", "CrashLoopBackOff", "0/1 Running", "1/1 Running 1 (", "1/1 Running 0"} {
		if !strings.Contains(seen, word) {
			t.Errorf("never seen: %s", word)
		}
	}
	for _, n := range s.nodes {
		if rows := s.rows(n.name, begin); len(rows) < 7 || len(rows) > 25 || len(rows) != len(n.pods) {
			t.Errorf("%s has %d pods, the simulation knows %d:\n%s", n.name, len(rows), len(n.pods), strings.Join(rows, "\n"))
		}
	}
}

// TestFirstTicks quotes "in the first two seconds one pod that goes, one that
// comes and one that changes"; four ticks take less than that.
func TestFirstTicks(t *testing.T) {
	for seed := range uint64(20) {
		s := newTestSimulation(t, seed+1)
		n := s.nodes[0]
		var all []string
		for range 4 {
			before := s.rows(n.name, begin)
			if err := s.tick(n, begin); err != nil {
				t.Fatal(err)
			}
			all = append(all, diff(before, s.rows(n.name, begin))...)
		}
		text := strings.Join(all, "\n")
		for _, want := range []string{"+ .* Terminating", "- .* Terminating", "+ .* ContainerCreating", "0/1 Running", "+ .*1/1 Running"} {
			if parts := strings.Split(want, ".*"); !strings.Contains(text, parts[len(parts)-1]) {
				t.Errorf("seed %d: no %q in\n%s", seed+1, want, text)
			}
		}
	}
}

// TestDeletedByOthers: a pod that a client deletes is replaced, as a controller does.
func TestDeletedByOthers(t *testing.T) {
	s := newTestSimulation(t, 1)
	n := s.nodes[0]
	for _, p := range slices.Clone(n.pods) {
		if err := s.server.Delete(p.pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.tick(n, begin); err != nil {
		t.Fatal(err)
	}
	if rows := s.rows(n.name, begin); len(rows) != 7 {
		t.Errorf("%d pods instead of 7 new ones:\n%s", len(rows), strings.Join(rows, "\n"))
	}
}

func TestRealisticObjects(t *testing.T) {
	s := newTestSimulation(t, 1)
	s.run(t, 100)
	for _, n := range s.nodes {
		ips := map[string]string{}
		for _, p := range n.pods {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name}}
			if err := s.server.Get(pod); err != nil {
				t.Fatal(err)
			}
			if len(pod.OwnerReferences) != 1 || pod.Labels["app"] == "" || len(pod.Status.Conditions) != 4 || len(pod.Status.ContainerStatuses) != 1 || pod.Status.HostIP == "" {
				t.Errorf("%s lacks an owner, a label, a condition, a status or a host: %+v", pod.Name, pod)
			}
			if ip := pod.Status.PodIP; ip != "" {
				if net.ParseIP(ip) == nil || ips[ip] != "" {
					t.Errorf("%s has the address %q, which %s has too or which is none", pod.Name, ip, ips[ip])
				}
				ips[ip] = pod.Name
			}
		}
	}
}

// client returns a client-go client, as kubectl is one.
func client(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	set, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestCluster(t *testing.T) {
	c, err := Start(Config{Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.HasPrefix(c.URL(), "http://127.0.0.1:") {
		t.Errorf("the default address is %s", c.URL())
	}
	set := client(t, c.RESTConfig())
	nodes, err := set.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	// Something goes, comes and changes on each node.
	w, err := set.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=node-2"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	missing := map[string]bool{"ADDED": true, "MODIFIED": true, "DELETED": true}
	for ev := range w.ResultChan() {
		if delete(missing, string(ev.Type)); len(missing) == 0 {
			return
		}
	}
	t.Errorf("the watch ended before %v", missing)
}

func TestToken(t *testing.T) {
	c, err := Start(Config{Addr: "0.0.0.0:0", Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rc := c.RESTConfig()
	if !strings.HasPrefix(rc.Host, "https://127.0.0.1:") {
		t.Errorf("clients are sent to %s", rc.Host)
	}
	if _, err := client(t, rc).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("with the token: %v", err)
	}
	rc.BearerToken = "wrong"
	if _, err := client(t, rc).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("with another token: %v", err)
	}
	rc = c.RESTConfig()
	rc.CAData = nil
	if _, err := client(t, rc).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the certificate: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []Config{{Addr: taken.Addr().String()}, {Nodes: -1}, {Nodes: MaxNodes + 1}} {
		if c, err := Start(c); err == nil {
			c.Close()
			t.Errorf("no error for %+v", c)
		}
	}
}

// TestStartedAgain: "a watch of the one before is answered with 410 Expired", so
// that a client that resumes finds out. It would get nothing or half of the new
// cluster where both count from 1.
func TestStartedAgain(t *testing.T) {
	before, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client(t, before.RESTConfig()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	before.Close()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Start(Config{Addr: before.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	w, err := client(t, again.RESTConfig()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err == nil {
		first := <-w.ResultChan()
		w.Stop()
		err = apierrors.FromObject(first.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from version %s of the cluster before: %v", pods.ResourceVersion, err)
	}
}

// TestCloseEndsClients: no watch outlives the cluster.
func TestCloseEndsClients(t *testing.T) {
	c, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client(t, c.RESTConfig()).CoreV1().Pods("").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c.Close()
	for range w.ResultChan() {
	}
	if _, err := net.Dial("tcp", c.Addr().String()); err == nil {
		t.Error("it listens after Close")
	}
}

func ExampleStart() {
	c, err := Start(Config{Nodes: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.RESTConfig().Host == c.URL())
	// Output: true
}
