package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

var (
	longFlag = flag.Bool("chaos.long", false,
		"wait for the slow faults, and for client-go everywhere; measure its herd too")
	roundsFlag  = flag.Int("chaos.rounds", 1, "how often each fault of TestChaos happens, but for the restore of etcd")
	resultsFlag = flag.Bool("chaos.results", false,
		"write RESULTS.md; use it together with -chaos.long on an idle machine")
)

// binaries are the real servers, built before the first test.
var binaries apiserver.Binaries

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// client-go tells of each broken connection in its own log.
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	phase("building etcd and kube-apiserver (minutes with a cold build cache)")
	var err error
	if binaries, err = apiserver.Build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if *resultsFlag {
		if err := results.write("RESULTS.md"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	phase("done")
	return code
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// startServer runs the servers until the test ends, and returns how long the
// start took.
func startServer(t *testing.T, extraArgs ...string) (*apiserver.Server, time.Duration) {
	t.Helper()
	phase("%s: starting etcd and kube-apiserver", t.Name())
	began := time.Now()
	s, err := apiserver.Start(t.Context(), apiserver.Config{Binaries: binaries, Dir: t.TempDir(), ExtraArgs: extraArgs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Log(s.LogTail(30))
		}
	})
	return s, time.Since(began)
}

var began = time.Now()

// phase tells a waiting person what happens.
func phase(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "chaos %6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
