package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// buildNodewatch builds the command line from the module above, with that
// module's own versions, once for a run of the tests.
var buildNodewatch = sync.OnceValues(func() (string, error) {
	phase("building nodewatch")
	dir, err := os.MkdirTemp("", "nodewatch-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nodewatch")
	out, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/nodewatch").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nodewatch: %w\n%s", err, out)
	}
	return path, nil
})

// removeNodewatch removes what buildNodewatch made.
func removeNodewatch() {
	if path, err := buildNodewatch(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// tool returns the path of a program that the machine must have: its absence
// fails the test, since a suite that leaves parts out proves nothing.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not on PATH and this test needs it; install it (Debian: apt-get install %s)", name, debian)
	}
	return path
}

// kubeconfig writes a kubeconfig of user for the test.
func kubeconfig(t *testing.T, tg target, user apiserver.User) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := apiserver.WriteKubeconfig(path, tg.RESTConfig(user)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program is a command that runs while a test looks at its output.
type program struct {
	*apiserver.Process
	name   string
	stdout io.ReadCloser
	stderr string // path
}

// start starts a program; the test's end kills it.
func start(t *testing.T, path string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(path, args...)
	home := t.TempDir() // kubectl's caches must not outlive the test
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=", "NODE_NAME=")
	stdout, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	p := &program{name: filepath.Base(path), stdout: stdout, stderr: filepath.Join(home, "stderr")}
	p.Process, err = apiserver.StartProcess(p.name, cmd, p.stderr)
	write.Close()
	if err != nil {
		stdout.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		stdout.Close()
		if t.Failed() {
			t.Logf("%s %s\n%s", p.name, strings.Join(args, " "), p.LogTail(60))
		}
	})
	return p
}

// finish reads the rest of the output and returns it with the exit status and
// what went to standard error.
func (p *program) finish(t *testing.T) (stdout, stderr string, status int) {
	t.Helper()
	out, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatalf("%s: read its output: %v", p.name, err)
	}
	<-p.Done()
	errText, err := os.ReadFile(p.stderr)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if errors.As(p.Err(), &exit) {
		status = exit.ExitCode()
	}
	return string(out), string(errText), status
}

// interrupt is the user's Ctrl-C.
func (p *program) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.Pid(), syscall.SIGINT); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// runToEnd runs a program to its end.
func runToEnd(t *testing.T, path string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return start(t, path, args...).finish(t)
}

// nodewatch returns the command line's path.
func nodewatch(t *testing.T) string {
	t.Helper()
	path, err := buildNodewatch()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// foldLines folds lines of --output-watch-events as they are printed. The
// returned channel is closed at the end of the output.
func foldLines(t *testing.T, p *program, oneCollection bool) (*fold, <-chan struct{}) {
	f, done := newFold(oneCollection), make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReader(p.stdout)
		for {
			line, err := lines.ReadBytes('\n')
			if len(bytes.TrimSpace(line)) > 0 {
				f.applyLine(line)
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { p.Kill(); <-done })
	return f, done
}

func (f *fold) applyLine(line []byte) {
	var e struct {
		Type              string
		Object            map[string]any
		FinalStateUnknown bool
	}
	if err := json.Unmarshal(line, &e); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = append(f.faults, fmt.Sprintf("not a line of JSON: %v: %.200q", err, line))
		return
	}
	pod := unstructured.Unstructured{Object: e.Object}
	f.apply(e.Type, identity{pod.GetNamespace() + "/" + pod.GetName(),
		string(pod.GetUID()), pod.GetResourceVersion()}, e.FinalStateUnknown)
}

// awaitLine reads the program's output until a line satisfies ok, and returns it.
func awaitLine(ctx context.Context, t *testing.T, lines <-chan string, what string, ok func(string) bool) string {
	t.Helper()
	var seen []string
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the output ended before %s:\n%s", what, strings.Join(seen, "\n"))
			}
			if seen = append(seen, line); ok(line) {
				return line
			}
		case <-ctx.Done():
			t.Fatalf("no %s; there was:\n%s", what, strings.Join(seen, "\n"))
		}
	}
}

// linesOf sends each line of the program's output.
func linesOf(p *program) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(p.stdout); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}
