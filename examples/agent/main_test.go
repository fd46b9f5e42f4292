package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	webUID   = "0b6cf6e3-7f2c-4b0e-9c0b-3f8f5a1d2c01"
	dbUID    = "0b6cf6e3-7f2c-4b0e-9c0b-3f8f5a1d2c02"
	otherUID = "0b6cf6e3-7f2c-4b0e-9c0b-3f8f5a1d2c03"
)

func pod(name, node, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid), Labels: map[string]string{"app": strings.TrimSuffix(name, "-0")}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func TestAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		for _, p := range []*corev1.Pod{pod("web-0", "node-a", webUID), pod("db-0", "node-a", dbUID), pod("else", "node-b", otherUID)} {
			if err := srv.Create(p); err != nil {
				t.Fatal(err)
			}
		}
		in, lines := io.Pipe()
		written, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- run(t.Context(), srv.RESTConfig(), "node-a", in, out)
			out.Close()
		}()
		results := bufio.NewScanner(written)
		expect := func(line, want string) {
			t.Helper()
			fmt.Fprintln(lines, line)
			if !results.Scan() {
				t.Fatalf("%q: nothing was written", line)
			}
			if got := results.Text(); got != want {
				t.Errorf("%q became\n%s, want\n%s", line, got, want)
			}
		}
		fmt.Fprintln(lines, "==> /var/log/pods/shop_web-0_"+webUID+"/nginx/0.log <==")
		expect("GET /", "[shop/web-0 app=web] GET /")
		expect("GET /cart", "[shop/web-0 app=web] GET /cart")
		fmt.Fprintln(lines, "==> /var/log/pods/shop_db-0_"+dbUID+"/postgres/2.log <==")
		expect("checkpoint", "[shop/db-0 app=db] checkpoint")
		fmt.Fprintln(lines, "==> /var/log/syslog <==")
		expect("of no pod", "[?] of no pod")

		// A pod of another node is not watched.
		fmt.Fprintln(lines, "==> /var/log/pods/shop_else_"+otherUID+"/c/0.log <==")
		expect("not ours", "[?] not ours")
		expect(`kubelet: "Killing" pod=`+webUID, `[shop/web-0 app=web] kubelet: "Killing" pod=`+webUID)

		// A deleted pod is found for another minute.
		if err := srv.Delete(pod("web-0", "", "")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fmt.Fprintln(lines, "==> /var/log/pods/shop_web-0_"+webUID+"/nginx/0.log <==")
		expect("bye", "[shop/web-0 app=web (deleted)] bye")
		time.Sleep(keep - time.Second) // virtual
		expect("late", "[shop/web-0 app=web (deleted)] late")
		time.Sleep(2 * time.Second)
		expect("too late", "[?] too late")
		expect("of db: "+dbUID, "[shop/db-0 app=db] of db: "+dbUID)

		lines.Close()
		if err := <-ended; err != nil {
			t.Errorf("the end of the lines: %v", err)
		}
	})
}

// The agent asks for its node, as protobuf.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		if err := run(t.Context(), srv.RESTConfig(), "node-a", strings.NewReader(""), io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, r := range srv.Requests() {
			if r.Query.Get("fieldSelector") != "spec.nodeName=node-a" || !strings.HasPrefix(r.Accept, "application/vnd.kubernetes.protobuf") {
				t.Errorf("asked %s of %q as %s", r, r.Query.Get("fieldSelector"), r.Accept)
			}
		}
		if len(srv.Requests()) == 0 {
			t.Error("nothing was asked")
		}
	})
}

// The agent stops with its context while it waits for a line that does not come.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{})
		defer srv.Close()
		in, lines := io.Pipe()
		defer lines.Close() // ends the read that was left
		written, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, srv.RESTConfig(), "node-a", in, out) }()
		fmt.Fprintln(lines, "a line")
		if results := bufio.NewScanner(written); !results.Scan() || results.Text() != "[?] a line" {
			t.Errorf("the line became %q", results.Text())
		}
		synctest.Wait() // it reads
		cancel()
		synctest.Wait()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("an end that was asked for is an error: %v", err)
			}
		default:
			t.Error("the agent goes on after its context has ended")
		}
	})
}

func TestErrors(t *testing.T) {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	if err := run(t.Context(), srv.RESTConfig(), "", strings.NewReader(""), io.Discard); err == nil {
		t.Error("an agent without a node runs")
	}
	full := errors.New("disk full")
	out, w := io.Pipe()
	out.CloseWithError(full)
	if err := run(t.Context(), srv.RESTConfig(), "node-a", strings.NewReader("x\n"), w); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, srv.RESTConfig(), "node-a", strings.NewReader("x\n"), io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped before the first list: %v", err)
	}
}
