package e2e

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// A target is an API server that the suites run against.
type target interface {
	// RESTConfig returns the configuration of a client that is user, without
	// a rate limit.
	RESTConfig(user apiserver.User) *rest.Config
	// Compact drops the history up to now: what was is Expired from then on,
	// at the latest after a Restart.
	Compact(ctx context.Context) error
	// Kill ends the server with all its connections, as a crash does.
	Kill()
	// Restart brings it back at the same address with the same objects.
	Restart(ctx context.Context) error
	// LogTail returns the end of its log, for a test that failed.
	LogTail(lines int) string
}

// starters start a fresh target for one test.
var starters = map[string]func(*testing.T) target{"real": startReal, "fake": startFake}

// onTargets runs test once for each target that -target names, each time with
// a fresh one.
func onTargets(t *testing.T, test func(t *testing.T, tg target)) {
	onTargetsOf(t, starters, test)
}

// onTargetsOf is onTargets with targets that others start.
func onTargetsOf(t *testing.T, starters map[string]func(*testing.T) target, test func(t *testing.T, tg target)) {
	for _, name := range []string{"real", "fake"} {
		if !wanted(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tg := starters[name](t)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(tg.LogTail(20))
				}
			})
			phase("%s", t.Name())
			test(t, tg)
		})
	}
}

// startReal starts etcd and kube-apiserver.
func startReal(t *testing.T) target { return startRealWith(t) }

// startRealWith starts them with more arguments for kube-apiserver.
func startRealWith(t *testing.T, args ...string) target {
	s, err := apiserver.Start(t.Context(), apiserver.Config{Binaries: binaries, Dir: t.TempDir(), ExtraArgs: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// clientset returns client-go's client for user.
func clientset(t *testing.T, tg target, user apiserver.User) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(tg.RESTConfig(user))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
