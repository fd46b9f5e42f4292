package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

// interrupted is a nodewatch that was interrupted in the middle of printing a
// list that is larger than its standard output, a pipe, holds.
func interrupted(t *testing.T, args ...string) (cmd *exec.Cmd, stdout io.Reader) {
	t.Helper()
	server := listwatchtest.Start(listwatchtest.Config{})
	t.Cleanup(server.Close)
	for i := range 1000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i)}, Spec: corev1.PodSpec{NodeName: "node-a"}}
		if err := server.Create(pod); err != nil {
			t.Fatal(err)
		}
	}
	cmd = exec.CommandContext(t.Context(), "nodewatch", append([]string{"pods", "--server", server.URL(), "--node", "node-a", "-o", "json"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // it has begun
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout
}

// TestInterruptedOutputIsWhole: a reader that reads gets whole lines, also the last.
func TestInterruptedOutputIsWhole(t *testing.T) {
	cmd, stdout := interrupted(t)
	rest, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	lines := strings.SplitAfter("{"+string(rest), "\n")
	if end := lines[len(lines)-1]; end != "" {
		t.Errorf("the last line is cut: %q", end)
	}
	for _, line := range lines[:len(lines)-1] {
		if !json.Valid([]byte(line)) {
			t.Fatalf("no JSON: %q", line)
		}
	}
}

// TestInterruptedOnce: --once ends too when its reader does not read.
func TestInterruptedOnce(t *testing.T) {
	cmd, _ := interrupted(t, "--once")
	// Process.Wait, as Cmd.Wait closes the pipe, and with it gives the writer an error.
	state, err := cmd.Process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if !state.Success() {
		t.Errorf("it ended with %v", state)
	}
	_ = cmd.Wait() // closes the pipe; the process is known to be gone
}
