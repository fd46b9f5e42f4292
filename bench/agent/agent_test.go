package agent

import (
	"bufio"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ourAgent   = "./nodewatch"
	theirAgent = "./clientgo"
	node       = "worker-1"
)

// heavy are packages, and what is below them, that the agent must not link: each is large, or brings what is.
var heavy = []string{
	"github.com/google/gnostic-models",
	"github.com/google/go-cmp",
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest",
	"github.com/nodewatch-go/nodewatch/reflector/cacheadapter",
	"github.com/nodewatch-go/nodewatch/reflector/metrics",
	"github.com/prometheus",
	"github.com/spf13",
	"html/template",
	"k8s.io/cli-runtime",
	"k8s.io/client-go/discovery",
	"k8s.io/client-go/informers",
	"k8s.io/client-go/kubernetes",
	"k8s.io/client-go/tools/cache",
	"k8s.io/client-go/tools/clientcmd", // its api package alone is rest's
	"k8s.io/kube-openapi/pkg/validation",
	"net/http/pprof",
	"testing",
	"text/template",
}

// small are packages below heavy ones that are not.
var small = []string{"k8s.io/client-go/tools/clientcmd/api"}

// linked returns which of the heavy packages a program has.
func linked(t testing.TB, program string) (has []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", program).Output()
	if err != nil {
		t.Fatal(failure(err))
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(small, pkg) && slices.ContainsFunc(heavy, func(h string) bool { return pkg == h || strings.HasPrefix(pkg, h+"/") }) {
			has = append(has, pkg)
		}
	}
	return has
}

// The minimal agent links nothing that is large and that it has no use for. That the list
// finds something is shown by client-go's.
func TestLinked(t *testing.T) {
	if has := linked(t, ourAgent); len(has) > 0 {
		t.Errorf("the minimal agent links %s: go list -deps, and go mod why -m, say from where", strings.Join(has, ", "))
	}
	if has := linked(t, theirAgent); !slices.Contains(has, "k8s.io/client-go/kubernetes/scheme") {
		t.Errorf("of the agent on client-go are found: %v", has)
	}
}

// 60 groups of types come with kubernetes/scheme; core/v1 is the one that a pod needs.
func TestOneGroupOfTypes(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ourAgent).Output()
	if err != nil {
		t.Fatal(failure(err))
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(pkg, "k8s.io/api/") && pkg != "k8s.io/api/core/v1" {
			t.Errorf("the minimal agent links the types of %s", pkg)
		}
	}
}

// failure has what a command said on standard error.
func failure(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}

// build returns the stripped binary of a program.
func build(b *testing.B, program string) string {
	b.Helper()
	file := filepath.Join(b.TempDir(), "agent")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, program).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return file
}

// BenchmarkAgent: one operation is a start, up to the first line that is printed.
func BenchmarkAgent(b *testing.B) {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	for i := range 30 {
		pod := specimen.Pod(i)
		pod.ResourceVersion, pod.Spec.NodeName = "", node
		if err := srv.Create(pod); err != nil {
			b.Fatal(err)
		}
	}
	web := httptest.NewUnstartedServer(srv.Handler())
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	defer web.CloseClientConnections()
	ca := filepath.Join(b.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, agent := range []struct{ impl, program string }{{"nodewatch", ourAgent}, {"client-go", theirAgent}} {
		b.Run("impl="+agent.impl, func(b *testing.B) {
			file := build(b, agent.program)
			info, err := os.Stat(file)
			if err != nil {
				b.Fatal(err)
			}
			var all cost
			for b.Loop() {
				all.add(start(b, file, "-server", web.URL, "-ca", ca, "-node", node))
			}
			n := float64(b.N)
			b.ReportMetric(float64(info.Size()), "size-B")
			b.ReportMetric(float64(all.first.Nanoseconds())/n, "ns/op")
			b.ReportMetric(float64(all.cpu.Nanoseconds())/n, "cpu-ns/op")
			b.ReportMetric(float64(all.resident)/n, "resident-B")
		})
	}
}

// cost is that of a start.
type cost struct {
	first    time.Duration // from the start of the process to its first line
	cpu      time.Duration // of the processor, until it was told to end after that
	resident int64         // the most bytes of memory that it had
}

func (c *cost) add(o cost) {
	c.first += o.first
	c.cpu += o.cpu
	c.resident += o.resident
}

// start runs an agent until its first line.
func start(b *testing.B, file string, args ...string) (c cost) {
	b.Helper()
	cmd := exec.Command(file, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	c.first = time.Since(began)
	if err != nil || !strings.HasPrefix(line, "ADDED ") {
		b.Errorf("the agent said %q first: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait() // it was killed, and says so
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.resident = maxResident(cmd.ProcessState)
	return c
}
