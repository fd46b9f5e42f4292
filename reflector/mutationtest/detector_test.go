package mutationtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web", "tier": "front"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example/web:1"}}},
	}
}

// run has a reflector of four pods watched by new, and calls do once it is synced. It returns when Run has ended.
func run(t *testing.T, new func(*reflector.Config[*corev1.Pod]), do func(*listwatchtest.Server, *reflector.Store[*corev1.Pod])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		for i := range 4 {
			if err := srv.Create(pod(fmt.Sprintf("web-%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		c := reflector.Config[*corev1.Pod]{ListerWatcher: lw}
		new(&c)
		r, err := reflector.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		if err := r.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		do(srv, r.Store())
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

// write changes a label of a stored pod, which nobody may do.
func write(t *testing.T, s *reflector.Store[*corev1.Pod], name string) {
	p, ok := s.Get("shop", name)
	if !ok {
		t.Fatalf("%s is not stored", name)
	}
	p.Labels["app"] = "changed"
}

// told returns the names of the pods that a path was told of.
func told(found []Mutation, path string) string {
	var names []string
	for _, m := range found {
		if m.Path == path {
			names = append(names, m.Key.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const labelPath = "metadata.labels[app]"

// "A write to a part that several objects share is told for each of them."
func TestWriteThroughASharedPart(t *testing.T) {
	for _, tc := range []struct {
		objects reflector.Objects
		want    string
	}{
		{reflector.ObjectsShared, "web-0 web-1 web-2 web-3"},
		{reflector.ObjectsPrivate, "web-3"},
		{reflector.ObjectsCompact, ""},
	} {
		t.Run(tc.objects.String(), func(t *testing.T) {
			var d *Detector[*corev1.Pod]
			run(t, func(c *reflector.Config[*corev1.Pod]) {
				c.Objects = tc.objects
				d = New(c)
			}, func(_ *listwatchtest.Server, s *reflector.Store[*corev1.Pod]) { write(t, s, "web-3") })
			found := d.Check()
			if got := told(found, labelPath); got != tc.want {
				t.Errorf("told of %q, want %q: %v", got, tc.want, found)
			}
			for _, m := range found {
				if m.Was != `"web"` || m.Is != `"changed"` || m.ResourceVersion == "" {
					t.Errorf("%+v", m)
				}
			}
			if again := d.Check(); len(again) != len(found) {
				t.Errorf("told twice: %v", again)
			}
		})
	}
}

// "An object is compared with its copy when another version takes its place."
func TestWriteBeforeAnUpdate(t *testing.T) {
	var d *Detector[*corev1.Pod]
	run(t, func(c *reflector.Config[*corev1.Pod]) {
		c.Objects = reflector.ObjectsPrivate
		d = New(c)
	}, func(srv *listwatchtest.Server, s *reflector.Store[*corev1.Pod]) {
		write(t, s, "web-2")
		p := pod("web-2")
		p.Labels["app"] = "api"
		if err := srv.Update(p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, _ := s.Get("shop", "web-2"); p.Labels["app"] != "api" {
			t.Fatal("the update is not stored")
		}
		d.mu.Lock()
		found := slices.Clone(d.found)
		d.mu.Unlock()
		if got := told(found, labelPath); got != "web-2" {
			t.Errorf("told of %q when the version was replaced, want web-2", got)
		}
	})
}

// Without a write there is nothing to tell, whatever comes; functions that are set are called.
func TestNothingToTell(t *testing.T) {
	var d *Detector[*corev1.Pod]
	stopped := false
	run(t, func(c *reflector.Config[*corev1.Pod]) {
		c.Accept = func(p *corev1.Pod) bool { return p.Name != "web-1" }
		c.OnStop = func() { stopped = true }
		d = New(c)
	}, func(srv *listwatchtest.Server, s *reflector.Store[*corev1.Pod]) {
		if s.Len() != 3 {
			t.Errorf("%d pods are stored, want the 3 that are accepted", s.Len())
		}
		p := pod("web-2")
		p.Status.Phase = corev1.PodRunning
		if err := srv.UpdateStatus(p); err != nil {
			t.Fatal(err)
		}
		if err := srv.Delete(pod("web-0")); err != nil {
			t.Fatal(err)
		}
	})
	if found := d.Check(); len(found) > 0 || !stopped {
		t.Errorf("told %v; OnStop was called: %t", found, stopped)
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	cleanup []func()
	failed  []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func TestWatchFailsTheTest(t *testing.T) {
	rec := &recorder{TB: t}
	run(t, func(c *reflector.Config[*corev1.Pod]) {
		c.Objects = reflector.ObjectsPrivate
		Watch(rec, c)
	}, func(_ *listwatchtest.Server, s *reflector.Store[*corev1.Pod]) { write(t, s, "web-3") })
	for _, f := range rec.cleanup {
		f()
	}
	want := `somebody wrote to an object of the store: shop/web-3 at resourceVersion `
	rest := `: metadata.labels[app] was "web" and is "changed"`
	if len(rec.failed) != 1 || !strings.HasPrefix(rec.failed[0], want) || !strings.HasSuffix(rec.failed[0], rest) {
		t.Errorf("failed with %q, want once %s...%s", rec.failed, want, rest)
	}
}
