package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

var (
	targetsFlag = flag.String("target", "real,fake",
		"comma-separated servers to test against: real (kube-apiserver and etcd), fake (listwatchtest)")
	updateFlag = flag.Bool("update", false,
		"write the answers of the real server to testdata instead of comparing with them")
)

// binaries are the real servers, built before the first test; empty where the
// real server is not wanted.
var binaries apiserver.Binaries

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, name := range strings.Split(*targetsFlag, ",") {
		if _, ok := starters[name]; !ok {
			fmt.Fprintf(os.Stderr, "-target: %q is no target; use real, fake or real,fake\n", name)
			return 2
		}
	}
	if wanted("real") {
		phase("building etcd and kube-apiserver (minutes with a cold build cache)")
		var err error
		if binaries, err = apiserver.Build(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	defer removeNodewatch()
	defer phase("done")
	return m.Run()
}

func wanted(target string) bool {
	for _, name := range strings.Split(*targetsFlag, ",") {
		if name == target {
			return true
		}
	}
	return false
}

var began = time.Now()

// phase tells a waiting person what happens. It writes to standard error, so
// that `go test` of this one package shows it at once (and `go test -v` always).
func phase(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "e2e %6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
