package apiserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChildDiesWithKilledParent: "No process outlives the test binary, not even
// one that was killed."
func TestChildDiesWithKilledParent(t *testing.T) {
	const dir = "E2E_PARENT_DIR"
	if at := os.Getenv(dir); at != "" { // the parent, in a process of its own
		p, err := StartProcess("child", exec.Command("sleep", "600"), filepath.Join(at, "log"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("pid", p.Pid())
		<-p.Done() // the test kills this process before
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), dir+"="+t.TempDir())
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for lines := bufio.NewScanner(stdout); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "pid %d", &pid) // other lines are the test's own
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed"
	if pid == 0 {
		t.Fatal("the parent started no child")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for alive(t, pid) {
		select {
		case <-ctx.Done():
			_ = syscall.Kill(pid, syscall.SIGKILL) // leave nothing behind all the same
			t.Fatalf("process %d outlives its parent", pid)
		case <-tick.C:
		}
	}
}

// alive tells a process that runs from one that is gone or waits to be reaped.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
