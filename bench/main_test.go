package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// The roles that this binary has in processes of its own.
const (
	serverRole = "bench-server" // serves; see serveChild
	listerRole = "bench-lister" // lists and tells what it cost; see listChild
)

func TestMain(m *testing.M) {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true // of replay.Remote: nothing is left behind
	if len(os.Args) == 3 {
		var err error
		switch os.Args[1] {
		case serverRole:
			err = serveChild(os.Args[2])
		case listerRole:
			err = listChild(os.Args[2])
		default:
			runTests(m)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	runTests(m)
}

// runTests looks for goroutines that were left behind, unless there were benchmarks: their servers
// live as long as the process, and so may a connection.
func runTests(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

// childCommand is this binary in a role, with as many processors as this process has, and
// its standard error.
func childCommand(t testing.TB, role string, spec any) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	arg, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, role, string(arg))
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0)))
	cmd.Stderr = os.Stderr
	return cmd
}
