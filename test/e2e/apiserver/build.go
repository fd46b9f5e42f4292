package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Binaries are the paths of the two servers.
type Binaries struct {
	Etcd, APIServer string
}

// Build makes both servers with `go tool`, which keeps the executables in the
// Go build cache. It must be called with the working directory inside this
// module. The first build takes some minutes; later ones less than a second.
func Build(ctx context.Context) (Binaries, error) {
	var b Binaries
	for name, path := range map[string]*string{
		"etcd": &b.Etcd, "kube-apiserver": &b.APIServer,
	} {
		// -n prints the command instead of running it, but builds it all the same.
		cmd := exec.CommandContext(ctx, "go", "tool", "-n", name)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return Binaries{}, fmt.Errorf("build %s with go tool: %w\n%s", name, err, stderr.Bytes())
		}
		*path = strings.TrimSpace(stdout.String())
	}
	return b, nil
}
