package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func clientFor(t *testing.T, s *Server, user User) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.RESTConfig(user))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServer(t *testing.T) {
	ctx := t.Context()
	binaries, err := Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(ctx, Config{Binaries: binaries, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	admin := clientFor(t, s, Admin).CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{NodeName: "node-a",
			Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if pod, err = admin.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a pod without controllers: %v", err)
	}

	t.Run("users", func(t *testing.T) {
		list := func(user User, selector string) error {
			_, err := clientFor(t, s, user).CoreV1().Pods("").
				List(ctx, metav1.ListOptions{FieldSelector: selector})
			return err
		}
		if err := list(Weak, ""); !apierrors.IsForbidden(err) {
			t.Errorf("list pods as a user without rights: %v, want Forbidden", err)
		}
		if err := list(Anonymous, ""); !apierrors.IsForbidden(err) {
			t.Errorf("list pods without a token: %v, want Forbidden", err)
		}
		if err := list(Node, "spec.nodeName=node-a"); err != nil {
			t.Errorf("list the pods of the own node as a node: %v", err)
		}
		if err := list(Node, ""); !apierrors.IsForbidden(err) {
			t.Errorf("list all pods as a node: %v, want Forbidden", err)
		}
	})

	t.Run("compact", func(t *testing.T) {
		exact := metav1.ListOptions{ResourceVersion: pod.ResourceVersion,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		pod.Labels = map[string]string{"again": "yes"}
		if _, err := admin.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		// The watch cache may answer of the past; after a restart it is empty.
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.List(ctx, exact); !apierrors.IsResourceExpired(err) {
			t.Errorf("list at a compacted resourceVersion: %v, want Expired", err)
		}
	})

	t.Run("kill and restart", func(t *testing.T) {
		before := s.URL()
		s.Kill()
		if _, err := admin.Get(ctx, "p", metav1.GetOptions{}); err == nil {
			t.Error("a killed server answered")
		}
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if s.URL() != before {
			t.Errorf("restarted at %s, was at %s", s.URL(), before)
		}
		if _, err := admin.Get(ctx, "p", metav1.GetOptions{}); err != nil {
			t.Errorf("after the restart, with the old client: %v", err)
		}
	})

	t.Run("kubeconfig", func(t *testing.T) {
		path, err := s.Kubeconfig(Admin)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default").
			Get(ctx, "p", metav1.GetOptions{}); err != nil {
			t.Errorf("get a pod with the kubeconfig: %v", err)
		}
	})

	pids := []int{s.etcd.Pid(), s.api.Pid()}
	s.Stop()
	for _, pid := range pids {
		if err := exec.Command("kill", "-0", fmt.Sprint(pid)).Run(); err == nil {
			t.Errorf("process %d runs after Stop", pid)
		}
	}
}

func TestStartSaysWhyItFailed(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "etcd")
	script := "#!/bin/sh\necho cannot bind the moon >&2\nexit 3\n"
	if err := os.WriteFile(fake, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Binaries: Binaries{Etcd: fake}, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "cannot bind the moon") ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("got %v, want the exit status and the end of the log", err)
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	// exec keeps one process: the shell would otherwise leave its sleep behind.
	p, err := StartProcess("deaf", exec.Command("sh", "-c", "trap '' TERM; exec sleep 600"),
		filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(0)
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) {
		t.Fatalf("ended with %v, want killed", p.Err())
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	p, err := StartProcess("idle", exec.Command("sleep", "600"), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = p.await(ctx, "wait for godot", func(context.Context) error {
		cancel(gaveUp)
		return errors.New("not yet")
	})
	if !errors.Is(err, gaveUp) || !strings.Contains(err.Error(), "not yet") {
		t.Fatalf("got %v, want the cause and the last answer", err)
	}
}
