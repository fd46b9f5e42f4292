package podconfig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// apiWorld is an API server source in a bubble with virtual time, of a server in memory.
type apiWorld struct {
	t   *testing.T
	srv *listwatchtest.Server
	api *APIServer
	listener
}

// inAPIWorld runs a test. The script, where there is one, is what the server says about
// pods; it has to come to its end.
func inAPIWorld(t *testing.T, c APIServerConfig, sc listwatchtest.Config, script string, test func(w *apiWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &apiWorld{t: t, srv: listwatchtest.New(sc)}
		defer w.srv.Close()
		var play *listwatchtest.Play
		if script != "" {
			s, err := listwatchtest.ParseScript("script", []byte(script))
			if err != nil {
				t.Fatal(err)
			}
			play = w.srv.Play(s)
		}
		if c.Pods.REST == nil {
			c.Pods.REST = w.srv.RESTConfig()
		}
		c.Pods.Node = "n1"
		if script != "" {
			c.Pods.Reflector = func(c *reflector.Config[*corev1.Pod]) { c.InitialSync = reflector.InitialList }
		}
		var err error
		if w.api, err = NewAPIServer(c); err != nil {
			t.Fatal(err)
		}
		during(t, w.api, w.tell, 100*time.Millisecond, func() { test(w) })
		if play != nil {
			if err := play.Err(); err != nil {
				t.Errorf("%v\n%s", err, play.Transcript())
			}
		}
	})
}

// sleep lets time go by, and what happens in it come to rest.
func (w *apiWorld) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *apiWorld) create(objects ...listwatchtest.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.srv.Create(o); err != nil {
			w.t.Fatal(err)
		}
	}
	w.sleep(time.Second)
}

// names are what the source has, sorted.
func (w *apiWorld) names() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name := range w.pods {
		all = append(all, strings.TrimPrefix(name, "default/"))
	}
	return strings.Join(sorted(all), " ")
}

func (w *apiWorld) wants(names string) {
	w.t.Helper()
	if got := w.names(); got != names {
		w.t.Errorf("the source has %q, want %q", got, names)
	}
	if got, want := w.api.Status().Pods, len(strings.Fields(names)); got != want {
		w.t.Errorf("the status has %d pods, want %d", got, want)
	}
}

func nodeObject(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func podOn(node, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

// TestI1NodeGate: the node object is not there yet, its list is empty, then it appears:
// no pod is asked for and nothing is told before it was seen.
func TestI1NodeGate(t *testing.T) {
	inAPIWorld(t, APIServerConfig{}, listwatchtest.Config{}, "", func(w *apiWorld) {
		w.create(podOn("n1", "a"), podOn("n2", "b"), nodeObject("n2"))
		w.sleep(10 * time.Minute)
		if w.n() != 0 || w.api.Status().Seen {
			t.Fatalf("%d changes were told without the node", w.n())
		}
		for _, r := range w.srv.Requests() {
			if strings.Contains(r.String(), "pods") {
				t.Errorf("pods were asked for without the node: %s", r)
			}
		}
		if got := fault(w.api.Status(), "node n1"); !strings.Contains(got, "not seen yet") {
			t.Errorf("the status does not say what is waited for: %+v", w.api.Status())
		}
		w.create(nodeObject("n1"))
		w.wants("a")
		if c := w.last(); !c.Full || !c.Initial || w.n() != 1 {
			t.Errorf("%d changes, the last %+v, want one that is full and initial", w.n(), c)
		}
		if s := w.api.Status(); len(s.Errors) != 0 || !s.Seen {
			t.Errorf("the status is %+v", s)
		}
		// A latch: the node goes, the pods do not.
		if err := w.srv.Delete(nodeObject("n1")); err != nil {
			t.Fatal(err)
		}
		w.create(podOn("n1", "c"))
		w.wants("a c")
	})
}

// TestI1EmptyNode: a node without pods is seen, with nothing.
func TestI1EmptyNode(t *testing.T) {
	inAPIWorld(t, APIServerConfig{}, listwatchtest.Config{}, "", func(w *apiWorld) {
		w.create(nodeObject("n1"))
		if c := w.last(); w.n() != 1 || !c.Full || !c.Initial || len(c.Pods) != 0 {
			t.Errorf("%d changes, the last %+v, want an empty full one", w.n(), c)
		}
		w.create(podOn("n1", "a"))
		w.wants("a")
	})
}

// TestNodeGateOff: pods are asked for at once.
func TestNodeGateOff(t *testing.T) {
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, "", func(w *apiWorld) {
		w.create(podOn("n1", "a"))
		w.wants("a")
	})
}

// TestNodeGateRequests: the requests are those that a node's credentials may make.
func TestNodeGateRequests(t *testing.T) {
	var bad []string
	sc := listwatchtest.Config{Authorize: func(a listwatchtest.Access) bool {
		if a.Resource == "nodes" && a.FieldSelector == "metadata.name=n1" || a.Resource == "pods" && a.FieldSelector == "spec.nodeName=n1" {
			return true
		}
		bad = append(bad, fmt.Sprintf("%+v", a))
		return false
	}}
	inAPIWorld(t, APIServerConfig{}, sc, "", func(w *apiWorld) {
		w.create(nodeObject("n1"), podOn("n1", "a"))
		w.wants("a")
	})
	if len(bad) != 0 {
		t.Errorf("requests that a node may not make: %v", bad)
	}
	// Where it is forbidden, the status says so.
	inAPIWorld(t, APIServerConfig{}, listwatchtest.Config{Authorize: func(listwatchtest.Access) bool { return false }}, "", func(w *apiWorld) {
		w.sleep(time.Minute)
		if got := fault(w.api.Status(), "node n1"); !strings.Contains(got, "forbidden") {
			t.Errorf("the status is %+v", w.api.Status())
		}
	})
}

// TestNodeGateIsOfThisNode: a proxy that drops the selector shows other nodes.
func TestNodeGateIsOfThisNode(t *testing.T) {
	sc := listwatchtest.Config{Intercept: func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		q := r.URL.Query()
		q.Del("fieldSelector")
		r.URL.RawQuery = q.Encode()
		next.ServeHTTP(rw, r)
	}}
	inAPIWorld(t, APIServerConfig{}, sc, "", func(w *apiWorld) {
		w.create(nodeObject("n2"), podOn("n1", "a"))
		w.sleep(time.Minute)
		if w.n() != 0 {
			t.Errorf("another node opened the gate")
		}
		w.create(nodeObject("n1"))
		w.wants("a")
	})
}

// TestAPIServerDeltas: after the first list each event is one small change.
func TestAPIServerDeltas(t *testing.T) {
	inAPIWorld(t, APIServerConfig{}, listwatchtest.Config{}, "", func(w *apiWorld) {
		w.create(nodeObject("n1"))
		for i := range 20 {
			w.create(podOn("n1", fmt.Sprintf("p%02d", i)))
		}
		before := w.n()
		p := podOn("n1", "p07")
		if err := w.srv.Get(p); err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = corev1.PodRunning
		if err := w.srv.UpdateStatus(p); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		c := w.last()
		if w.n() != before+1 || c.Full || c.Initial || len(c.Pods) != 1 || c.Pods[0].Status.Phase != corev1.PodRunning || len(c.Gone) != 0 {
			t.Errorf("a status update is %+v", c)
		}
		if err := w.srv.Delete(p); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		if c := w.last(); len(c.Pods) != 0 || len(c.Gone) != 1 || c.Gone[0] != (Gone{UID: p.UID, Namespace: "default", Name: "p07"}) {
			t.Errorf("a delete is %+v", c)
		}
		if got := w.api.Status().Pods; got != 19 {
			t.Errorf("%d pods, want 19", got)
		}
		// The watch ends: nothing is told anew.
		n := w.n()
		w.srv.EndWatches()
		w.sleep(time.Minute)
		if w.n() != n {
			t.Errorf("%d changes because a watch ended", w.n()-n)
		}
	})
}

const twenty = "a@10 b@11 c@12 d@13 e@14 f@15 g@16 h@17 i@18 j@19 k@20 l@21 m@22 n@23 o@24 p@25 q@26 r@27 s@28 t@29"

const twentyNames = "a b c d e f g h i j k l m n o p q r s t"

// backInTime is the beginning of a script: 20 pods at 900, then 410, and a list at 300.
const backInTime = "objects node=n1\n> LIST rv=\n< list 900 " + twenty + `
> WATCH rv=900
< sleep 10s
< ERROR 410 Expired gone
> LIST rv=
< list 300 %s
`

// TestI2EmptyListAtALowerVersion: no removals, counted, reported; and the ways out.
func TestI2EmptyListAtALowerVersion(t *testing.T) {
	for _, tc := range []struct {
		name, then string
		after      string // the names at the end
	}{
		{"it stays so", "> WATCH rv=300\n< hold\n", twentyNames},
		{"the same again", "> WATCH rv=300\n< sleep 10s\n< ERROR 410 Expired gone\n> LIST rv=*\n< list 301\n> WATCH rv=301\n< hold\n", twentyNames},
		{"a later list has pods", "> WATCH rv=300\n< sleep 10s\n< ERROR 410 Expired gone\n> LIST rv=*\n< list 310 b@11 z@305\n> WATCH rv=310\n< hold\n", "b z"},
		{"a later list is no longer older", "> WATCH rv=300\n< sleep 10s\n< ERROR 410 Expired gone\n> LIST rv=*\n< list 901\n> WATCH rv=901\n< hold\n", ""},
		{"a pod comes back", "> WATCH rv=300\n< sleep 10s\n< ADDED c@301\n< hold\n", twentyNames},
		{"another pod comes under a name", "> WATCH rv=300\n< sleep 10s\n< ADDED c@301/other\n< hold\n", twentyNames},
		{"events come as far as before", "> WATCH rv=300\n< sleep 10s\n< ADDED z@950\n< hold\n", "z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := new(logLines)
			c := APIServerConfig{Gate: GateOff, Logger: log.logger()}
			inAPIWorld(t, c, listwatchtest.Config{}, fmt.Sprintf(backInTime, "")+tc.then, func(w *apiWorld) {
				w.sleep(5 * time.Second)
				w.wants(twentyNames)
				w.sleep(9 * time.Second)
				w.wants(twentyNames)
				s := w.api.Status()
				if got := fault(s, "pods of node n1"); !strings.Contains(got, "to resourceVersion 300 from 900") || !strings.Contains(got, "20 pods are kept") {
					t.Errorf("the status is %+v", s)
				}
				if got := log.count("back in time"); got != 1 {
					t.Errorf("it was said %d times:\n%s", got, log)
				}
				w.sleep(time.Minute)
				w.wants(tc.after)
				if held := fault(w.api.Status(), "pods of node n1") != ""; held != (len(tc.after) > 10) {
					t.Errorf("the fault is there: %v; the status is %+v", held, w.api.Status())
				}
			})
		})
	}
}

// TestI2WithoutTheGuard: the removals are told, in one change.
func TestI2WithoutTheGuard(t *testing.T) {
	for _, c := range []APIServerConfig{{Guard: GuardOff}, {Behaviour: KubeletCompatible}} {
		c.Gate = GateOff
		inAPIWorld(t, c, listwatchtest.Config{}, fmt.Sprintf(backInTime, "")+"> WATCH rv=300\n< hold\n", func(w *apiWorld) {
			w.sleep(15 * time.Second)
			w.wants("")
		})
	}
}

// TestGuardBelievesOtherLists: an older list with some pod, and an empty one that is not older.
func TestGuardBelievesOtherLists(t *testing.T) {
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, fmt.Sprintf(backInTime, "b@11")+"> WATCH rv=300\n< hold\n", func(w *apiWorld) {
		w.sleep(15 * time.Second)
		w.wants("b")
		if c := w.last(); len(c.Gone) != 19 {
			t.Errorf("the list told %d gone in its last change, want 19 in one", len(c.Gone))
		}
		if s := w.api.Status(); len(s.Errors) != 0 {
			t.Errorf("the status is %+v", s)
		}
	})
	script := "objects node=n1\n> LIST rv=\n< list 900 a@10\n> WATCH rv=900\n< sleep 10s\n< ERROR 410 Expired gone\n> LIST rv=*\n< list 950\n> WATCH rv=950\n< hold\n"
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, script, func(w *apiWorld) {
		w.sleep(15 * time.Second)
		w.wants("")
	})
}

// TestGuardDoesNotHoldUpOtherRemovals: a delete that the watch could not read is of no list.
func TestGuardDoesNotHoldUpOtherRemovals(t *testing.T) {
	script := "objects node=n1\n> LIST rv=\n< list 900 a@10\n> WATCH rv=900\n< sleep 10s\n< DELETED a@901!\n< hold\n"
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, script, func(w *apiWorld) {
		w.sleep(9 * time.Second)
		w.wants("a")
		w.sleep(2*time.Second + overdueAfter)
		w.wants("")
	})
}

// TestReplacedByName: a changed UID under one name is gone, then there.
func TestReplacedByName(t *testing.T) {
	script := "objects node=n1\n> LIST rv=\n< list 900 a@10\n> WATCH rv=900\n< sleep 10s\n< ERROR 410 Expired gone\n> LIST rv=*\n< list 950 a@940/other\n> WATCH rv=950\n< hold\n"
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, script, func(w *apiWorld) {
		w.sleep(15 * time.Second)
		w.wants("a")
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.changes); n != 3 || len(w.changes[1].Gone) != 1 || len(w.changes[2].Pods) != 1 {
			t.Errorf("the changes are %+v, want one gone, then one new", w.changes)
		}
		if got := w.pods["default/a"].UID; got != types.UID("other") {
			t.Errorf("the pod is %q", got)
		}
	})
}

// TestFailingRequestsAreShown: what is wrong with the requests, and with single pods.
func TestFailingRequestsAreShown(t *testing.T) {
	script := "objects node=n1\n> LIST rv=\n< 500 InternalError broken\n> LIST rv=\n< list 900 a@10 b@11!\n> WATCH rv=900\n< hold\n"
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, script, func(w *apiWorld) {
		if got := fault(w.api.Status(), "requests for the pods of node n1"); !strings.Contains(got, "broken") {
			t.Errorf("the status is %+v", w.api.Status())
		}
		w.sleep(10 * time.Second)
		w.wants("a")
		s := w.api.Status()
		if fault(s, "pod default/b") == "" || len(s.Errors) != 1 {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestAPIServerConfigErrors(t *testing.T) {
	good := nodefilter.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Node: "n"}
	for _, tc := range []struct {
		c    APIServerConfig
		want string
	}{
		{APIServerConfig{}, "Pods: nodefilter: Config.REST is nil"},
		{APIServerConfig{Pods: good, Gate: "x"}, `Gate is "x"`},
		{APIServerConfig{Pods: good, Guard: "x"}, `Guard is "x"`},
		{APIServerConfig{Pods: good, Behaviour: "x"}, `Behaviour is "x"`},
	} {
		if _, err := NewAPIServer(tc.c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want %q", tc.c, err, tc.want)
		}
	}
	for _, gate := range []NodeGate{GateOnNode, GateOff} {
		a, err := NewAPIServer(APIServerConfig{Pods: good, Gate: gate})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Run(ctx, func(Change) {}); err != nil {
			t.Error(err)
		}
		if err := a.Run(ctx, func(Change) {}); !errors.Is(err, ErrAlreadyRun) {
			t.Errorf("the second Run: %v", err)
		}
	}
}

// TestRunFails: an error that does not go away is returned, and not waited for.
func TestRunFails(t *testing.T) {
	inAPIWorld(t, APIServerConfig{Gate: GateOff}, listwatchtest.Config{}, "", func(w *apiWorld) {
		b, err := NewAPIServer(APIServerConfig{Gate: GateOff, Pods: nodefilter.Config{REST: w.srv.RESTConfig(), Node: "n1",
			Reflector: func(c *reflector.Config[*corev1.Pod]) { c.Store = w.api.Reflector().Store() }}})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Run(w.t.Context(), func(Change) {}); err == nil || !strings.Contains(err.Error(), "another reflector") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestCostOfAnEvent: what an event allocates does not depend on how many pods there are.
func TestCostOfAnEvent(t *testing.T) {
	cost := func(pods int) float64 {
		a, err := NewAPIServer(APIServerConfig{Gate: GateOff, Pods: nodefilter.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Node: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		a.tell = func(Change) {}
		for i := range pods {
			uid := types.UID(fmt.Sprint(i))
			a.handle(reflector.Event[*corev1.Pod]{Type: reflector.Added, UID: uid, Object: &corev1.Pod{}, Initial: true})
		}
		a.handle(reflector.Event[*corev1.Pod]{Type: reflector.Synced, ResourceVersion: "5", Initial: true})
		ev := reflector.Event[*corev1.Pod]{Type: reflector.Modified, UID: "3", Object: &corev1.Pod{}, ResourceVersion: "9"}
		return testing.AllocsPerRun(100, func() { a.handle(ev) })
	}
	if few, many := cost(110), cost(2000); many > few || many > 2 {
		t.Errorf("an event allocates %v times among 110 pods and %v times among 2,000, want the same and at most 2", few, many)
	}
}
