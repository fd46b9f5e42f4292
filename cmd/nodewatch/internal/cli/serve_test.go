package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// serving is a serve that runs in this process until stop is called.
func serving(t *testing.T, args ...string) (stdout string, stop func() (status int, stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"nodewatch", "serve"}, args...), &streams{out: &out, err: &terminal{w: &errs}})
	}()
	await(t, ended, &out, "--node", 1) // the end of the last line
	return out.String(), func() (int, string) {
		cancel()
		return <-ended, errs.String()
	}
}

// TestServe: what serve prints and writes is enough for pods, on loopback and
// with a token, and nothing is left of it.
func TestServe(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		path := filepath.Join(t.TempDir(), "with a space")
		stdout, stop := serving(t, "--address", address, "--kubeconfig-out", path, "--nodes", "1")
		if !strings.Contains(stdout, "kubeconfig  "+path+"\n") || !strings.Contains(stdout, "nodewatch pods --kubeconfig '"+path+"' --node node-1\n") {
			t.Errorf("%s: it printed\n%s", address, stdout)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the kubeconfig has mode %s", address, info.Mode())
		}
		status, pods, stderr := call(t.Context(), "pods", "--kubeconfig", path, "--node", "node-1", "--once", "-o", "name")
		if status != exitOK || strings.Count(pods, "pod/") < 5 {
			t.Errorf("%s: pods ended with %d\n%s%s", address, status, pods, stderr)
		}
		if status, stderr := stop(); status != exitOK || stderr != "" {
			t.Errorf("%s: serve ended with %d\n%s", address, status, stderr)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: the kubeconfig is still there: %v", address, err)
		}
	}
}

// TestServedAgain: pods outlive the server, say why, and show the new cluster
// when it is served again on the same address: all old pods go, new ones come.
func TestServedAgain(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "k")
	stdout, stop := serving(t, "--kubeconfig-out", kubeconfig, "--nodes", "1")
	_, address, _ := strings.Cut(strings.Fields(stdout)[1], "://")
	kept := filepath.Join(dir, "kept")
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, data, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"nodewatch", "pods", "--kubeconfig", kept, "--node", "node-1", "--backoff-max", "20ms", "--backoff-min", "10ms",
			"-o", "jsonpath={.type} {.object.metadata.name} {.object.metadata.uid} {.finalStateUnknown}\n", "--output-watch-events"},
			&streams{out: &out, err: &terminal{w: &errs}})
	}()
	wait := func(b *lockedBuffer, text string, times int) {
		t.Helper()
		await(t, ended, b, text, times)
	}
	wait(&errs, "synced", 1)
	wait(&out, "ADDED", 5)
	stop()
	wait(&errs, "connection refused", 1)
	_, stop = serving(t, "--kubeconfig-out", kubeconfig, "--nodes", "1", "--address", address)
	defer stop()
	wait(&errs, "synced", 2)
	wait(&out, " true\n", 5)
	cancel()
	if status := <-ended; status != exitOK {
		t.Errorf("status %d\n%s", status, errs.String())
	}
	if !strings.Contains(errs.String(), "reason=expired") {
		t.Errorf("the log does not say that the history is gone:\n%s", errs.String())
	}
}

func TestServeErrors(t *testing.T) {
	taken, stop := serving(t, "--kubeconfig-out", filepath.Join(t.TempDir(), "k"))
	defer stop()
	_, address, _ := strings.Cut(strings.Fields(taken)[1], "://")
	free := filepath.Join(t.TempDir(), "free")
	for want, args := range map[string][]string{
		"address already in use":                      {"--address", address, "--kubeconfig-out", free},
		"--kubeconfig-out: no file can be made in":    {"--kubeconfig-out", filepath.Join(t.TempDir(), "no", "k")},
		"was not written by serve: name another file": {"--kubeconfig-out", t.TempDir()},
		"--token-file: open":                          {"--token-file", "/no/such/file", "--kubeconfig-out", free},
	} {
		status, stdout, stderr := call(t.Context(), append([]string{"serve"}, args...)...)
		if status != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, want %q in:\n%s", args, status, stdout, want, stderr)
		}
	}
	if _, err := os.Stat(free); !os.IsNotExist(err) {
		t.Errorf("a serve that failed left its kubeconfig: %v", err)
	}
}
