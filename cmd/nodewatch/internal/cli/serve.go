package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/democluster"
)

// demoNode is the node that --demo watches.
const demoNode = "node-1"

// serveOptions are the flags of serve.
type serveOptions struct {
	name       string // how the user calls the program
	log        logFlags
	addr       string
	nodes      int
	seed       uint64
	kubeconfig string
	tokenFile  string
}

func newServe(name string, s *streams) *cobra.Command {
	o := &serveOptions{name: name}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run an API server with a small busy cluster",
		Long: `Run an API server in this process, with a few nodes and pods that come, change
and go all the time, until interrupted. It keeps everything in memory and is
meant to try things out: nodewatch, kubectl, or a program that watches pods.

It writes a kubeconfig (mode 0600) and prints its path, and removes the file
when it ends. It never overwrites a file that it did not write.

It listens on 127.0.0.1, and there lets everybody in. On an address that other
machines can reach, clients must show a token: the one of --token-file, or one
that is made up. The connection is TLS then, with a certificate made for this
run; the kubeconfig has both.

Exit status: 0 interrupted, 1 failed, 2 wrong usage.`,
		Example: examples(name, `
			# In one shell
			%[1]s serve

			# In another
			kubectl --kubeconfig nodewatch.kubeconfig get pods -A -w
			%[1]s pods --kubeconfig nodewatch.kubeconfig --node node-2

			# The same cluster each time, with ten nodes
			%[1]s serve --nodes 10 --seed 42

			# For other machines
			%[1]s serve --address 0.0.0.0:8001`),
		Args: onlyFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), s)
		},
	}
	g := newGroup("Server")
	g.set.StringVar(&o.addr, "address", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 is a free one, no host is 127.0.0.1")
	g.set.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the bearer token that clients must show")
	g.set.StringVar(&o.kubeconfig, "kubeconfig-out", "nodewatch.kubeconfig", "`FILE` to write the kubeconfig to")
	g.set.IntVar(&o.nodes, "nodes", democluster.DefaultNodes, "how many nodes the cluster has: node-1 and so on")
	g.set.Uint64Var(&o.seed, "seed", 1, "decides what happens in the cluster")
	addGroups(cmd, g, o.log.group())
	completeChoices(cmd)
	return cmd
}

// validate returns errors of wrong usage.
func (o *serveOptions) validate() error {
	var err error
	if o.addr, err = listenAddress("address", o.addr); err != nil {
		return err
	}
	if o.nodes < 1 || o.nodes > democluster.MaxNodes {
		return fmt.Errorf("--nodes is %d, it must be 1 to %d", o.nodes, democluster.MaxNodes)
	}
	if o.seed == 0 {
		return errors.New("--seed is 0, it must be 1 or more")
	}
	if o.kubeconfig == "" {
		return errors.New("--kubeconfig-out is empty: name the file that the kubeconfig is written to")
	}
	return o.log.validate()
}

// loopback reports whether only this machine can reach addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost"
}

// token returns what clients must show, "" when nothing.
func (o *serveOptions) token() (string, error) {
	if o.tokenFile != "" {
		data, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		token := strings.TrimSpace(string(data))
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return "", fmt.Errorf("--token-file: %s does not hold one token", o.tokenFile)
		}
		return token, nil
	}
	if loopback(o.addr) {
		return "", nil
	}
	return rand.Text(), nil
}

func (o *serveOptions) run(ctx context.Context, s *streams) error {
	log := o.log.logger(s, false)
	if err := o.serve(ctx, s, log); err != nil {
		return o.log.failed(err, log)
	}
	return nil
}

func (o *serveOptions) serve(ctx context.Context, s *streams, log *slog.Logger) error {
	token, err := o.token()
	if err != nil {
		return err
	}
	path, err := filepath.Abs(o.kubeconfig)
	if err != nil {
		return err
	}
	if err := mayReplace(path); err != nil {
		return err
	}
	cluster, err := democluster.Start(democluster.Config{Addr: o.addr, Token: token, Nodes: o.nodes, Seed: o.seed, Logger: log})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := writeKubeconfig(path, cluster.RESTConfig()); err != nil {
		return err
	}
	defer removeKubeconfig(path)
	if _, err := fmt.Fprintf(s.out, "server      %s\nkubeconfig  %s\ntry         kubectl --kubeconfig %[3]s get pods -A -w\n            %[4]s pods --kubeconfig %[3]s --node %[5]s\n",
		cluster.URL(), path, quoted(path), o.name, demoNode); err != nil {
		if quiet(err) != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// quoted is path as a shell takes it.
func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+,:@%", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
