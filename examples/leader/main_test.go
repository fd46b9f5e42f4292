package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestElection: of two replicas one leads; both watch; when the first one ends, the other one
// leads with the pods that it has already.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{
			Scheme: clientgoscheme.Scheme,
			Resources: []listwatchtest.Resource{{
				GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Kind: "Lease", Namespaced: true,
			}},
		})
		defer srv.Close()
		if err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var leaders []string
		ended := map[string]chan error{}
		start := func(ctx context.Context, name string) {
			done := make(chan error, 1)
			ended[name] = done
			go func() {
				done <- run(ctx, srv.RESTConfig(), name, func(ctx context.Context, pods reflector.Collection[*corev1.Pod]) {
					mu.Lock()
					leaders = append(leaders, name)
					mu.Unlock()
					if pods.Store().Len() != 1 {
						t.Errorf("%s leads with %d pods, want 1", name, pods.Store().Len())
					}
					<-ctx.Done()
				})
			}()
		}
		led := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return append([]string(nil), leaders...)
		}
		why := errors.New("enough")
		first, end := context.WithCancelCause(t.Context())
		start(first, "one")
		time.Sleep(time.Minute) // virtual
		second, endSecond := context.WithCancel(t.Context())
		defer endSecond()
		start(second, "two")
		time.Sleep(time.Minute)
		if got := led(); len(got) != 1 || got[0] != "one" {
			t.Errorf("the leaders so far are %q, want one", got)
		}
		// One that is told to end while it waits for its turn.
		third, endThird := context.WithCancelCause(t.Context())
		start(third, "never")
		time.Sleep(20 * time.Second)
		endThird(why)
		if err := <-ended["never"]; !errors.Is(err, why) {
			t.Errorf("a replica that waited ended with %v, want the cause", err)
		}
		end(why)
		if err := <-ended["one"]; !errors.Is(err, why) {
			t.Errorf("the first replica ended with %v, want the cause", err)
		}
		time.Sleep(time.Minute)
		if got := led(); len(got) != 2 || got[1] != "two" {
			t.Errorf("the leaders so far are %q, want one, two", got)
		}

		// The lease is taken away: who led stops, and says why.
		var lease coordinationv1.Lease
		lease.Namespace, lease.Name = "default", "nodewatch-example"
		if err := srv.Get(&lease); err != nil {
			t.Fatal(err)
		}
		other, now := "three", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &other, &now
		if err := srv.Update(&lease); err != nil {
			t.Fatal(err)
		}
		if err := <-ended["two"]; !errors.Is(err, errLost) {
			t.Errorf("the second replica ended with %v, want that it lost the lease", err)
		}
	})
}
