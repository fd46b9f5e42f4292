package listwatchtest

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// These tests ask client-go for its opinion: a client that works against real
// servers must be content with this one.

func clientset(t *testing.T, srv *Server, contentType string) *kubernetes.Clientset {
	t.Helper()
	cfg := srv.RESTConfig()
	cfg.ContentType = contentType
	if contentType == mediaProtobuf {
		cfg.AcceptContentTypes = mediaProtobuf
	}
	cs, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	return cs
}

func TestClientsetInBothEncodings(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{mediaJSON, mediaProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := New(Config{})
				defer srv.Close()
				ctx, pods := t.Context(), clientset(t, srv, contentType).CoreV1().Pods("default")
				created, err := pods.Create(ctx, testPod("p", "node-a"), metav1.CreateOptions{})
				must(t, err)
				if created.Status.Phase != corev1.PodPending || created.UID == "" {
					t.Errorf("created: %+v", created)
				}
				created.Status.Phase = corev1.PodRunning
				updated, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
				must(t, err)
				list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
				must(t, err)
				if diff := gocmp.Diff([]corev1.Pod{*updated}, list.Items); diff != "" {
					t.Errorf("listed (-updated +listed):\n%s", diff)
				}
				if _, err := pods.Update(ctx, created, metav1.UpdateOptions{}); !errors.IsConflict(err) {
					t.Errorf("an update of an old version: %v", err)
				}
				must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64(7))}))
				last, err := pods.Get(ctx, "p", metav1.GetOptions{})
				must(t, err)
				if last.DeletionTimestamp == nil || *last.DeletionGracePeriodSeconds != 7 {
					t.Errorf("not Terminating: %+v", last.ObjectMeta)
				}
				must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
				if _, err := pods.Get(ctx, "p", metav1.GetOptions{}); !errors.IsNotFound(err) {
					t.Errorf("a deleted pod: %v", err)
				}
			})
		})
	}
}

func TestPager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := New(Config{})
		defer srv.Close()
		for i := range 25 {
			must(t, srv.Create(testPod("p-"+strconv.Itoa(i), "node-a")))
		}
		pods := clientset(t, srv, mediaProtobuf).CoreV1().Pods("")
		p := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, opts)
		})
		p.PageSize = 10
		seen := make(map[string]bool)
		must(t, p.EachListItem(t.Context(), metav1.ListOptions{}, func(o runtime.Object) error {
			seen[o.(*corev1.Pod).Name] = true
			return nil
		}))
		if len(seen) != 25 || len(srv.Requests()) != 3 {
			t.Errorf("%d pods in %d pages, want 25 in 3", len(seen), len(srv.Requests()))
		}
	})
}

// TestInformerFollows runs random changes, compactions and broken connections
// against an informer: in the end it must hold what the server holds.
func TestInformerFollows(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{mediaJSON, mediaProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := New(Config{Window: 50})
				ctx, cancel := context.WithCancel(t.Context())
				factory := informers.NewSharedInformerFactoryWithOptions(clientset(t, srv, contentType), 0,
					informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=node-1" }))
				informer := factory.Core().V1().Pods().Informer()
				factory.Start(ctx.Done())
				defer factory.Shutdown()
				defer srv.Close()
				defer cancel()
				start := time.Now()
				if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
					t.Fatal("the informer does not sync")
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("the first sync took %s: something was held back", took)
				}

				rnd := rand.New(rand.NewPCG(1, 2))
				for step := range 600 {
					churn(t, srv, rnd)
					switch step % 100 {
					case 30:
						srv.CloseConnections()
					case 60:
						srv.Compact(srv.ResourceVersion())
						srv.EndWatches()
					case 90:
						time.Sleep(time.Minute)
					}
				}
				time.Sleep(5 * time.Minute) // longer than any backoff of client-go

				want := make(map[string]string)
				objects, _ := srv.Snapshot(podsGVR)
				for _, o := range objects {
					if pod := o.(*corev1.Pod); pod.Spec.NodeName == "node-1" {
						want[pod.Name] = pod.ResourceVersion
					}
				}
				got := make(map[string]string)
				for _, o := range informer.GetStore().List() {
					got[o.(*corev1.Pod).Name] = o.(*corev1.Pod).ResourceVersion
				}
				if diff := gocmp.Diff(want, got); diff != "" || len(want) == 0 {
					t.Errorf("the informer's store of %d pods (-server +informer):\n%s", len(got), diff)
				}
				verbs := make(map[string]int)
				for _, r := range srv.Requests() {
					verbs[r.Verb]++
				}
				if verbs["watch"] < 3 {
					t.Errorf("the informer made %v: connections were not broken", slices.Sorted(maps.Keys(verbs)))
				}
			})
		})
	}
}

// churn does one random change.
func churn(t *testing.T, srv *Server, rnd *rand.Rand) {
	t.Helper()
	pod := testPod("p-"+strconv.Itoa(rnd.IntN(30)), "node-"+strconv.Itoa(rnd.IntN(3)))
	stored := testPod(pod.Name, "")
	if srv.Get(stored) != nil {
		must(t, srv.Create(pod))
		return
	}
	switch rnd.IntN(5) {
	case 0:
		must(t, srv.Delete(stored))
	case 1:
		must(t, srv.DeleteGracefully(stored, -1))
	default:
		stored.Status.Message = strconv.Itoa(rnd.Int())
		stored.Spec.NodeName = pod.Spec.NodeName
		must(t, srv.Update(stored))
	}
}
