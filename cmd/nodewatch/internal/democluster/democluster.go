// Package democluster is a small busy cluster on an embedded API server: nodes,
// and pods that are scheduled, start, become ready, fail their probes, crash and
// back off, run to their end, are deleted gracefully and replaced.
//
// What happens is a function of the seed: two clusters of one seed do the same
// things to pods of the same names in the same order. Times, UIDs and
// resourceVersions differ.
//
// # Guarantees
//
//   - Every node sees a change of one of its pods at least once a second, and in
//     the first two seconds one pod that goes, one that comes and one that changes.
//   - A cluster that is started later on the same address has only later
//     resourceVersions: a watch of the one before is answered with 410 Expired.
//   - How many pods there are is bounded: what is deleted is replaced, what ran
//     to its end is removed.
package democluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

// Config says what cluster and where. The zero value is three nodes on a free
// loopback port that let everybody in.
type Config struct {
	// Addr is HOST:PORT to listen on. Default 127.0.0.1:0.
	Addr string
	// Token, when set, is what clients must show. The connection is TLS then,
	// with a certificate that is made for this one run: clients of Kubernetes
	// send no token without it.
	Token string
	// Nodes is how many there are: node-1 and so on. Default 3.
	Nodes int
	// Seed decides what happens. Default 1.
	Seed uint64
	// Logger gets what goes wrong; nil discards.
	Logger *slog.Logger
}

// The bounds of Config.Nodes.
const (
	DefaultNodes = 3
	MaxNodes     = 100
)

func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Nodes == 0 {
		c.Nodes = DefaultNodes
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.Nodes < 1 || c.Nodes > MaxNodes {
		return fmt.Errorf("a demo cluster has 1 to %d nodes, not %d", MaxNodes, c.Nodes)
	}
	return nil
}

// Cluster is a running cluster.
type Cluster struct {
	config Config
	server *listwatchtest.Server
	addr   net.Addr
	ca     []byte // PEM, nil without TLS
	stop   chan struct{}
	group  sync.WaitGroup
}

// Start listens, fills the cluster and sets it going until Close.
func Start(c Config) (*Cluster, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	sc := listwatchtest.Config{
		// Pods that a client of the cluster deletes; ours end sooner.
		FinishAfter: 5 * time.Second,
		// A viewer of a demo should not wait for the minute of a real server.
		BookmarkInterval: 10 * time.Second,
	}
	if c.Token != "" {
		sc.Tokens = map[string]string{c.Token: "demo"}
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{config: c, addr: listener.Addr(), stop: make(chan struct{})}
	if c.Token != "" {
		cert, ca, err := certificate(time.Now())
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		cluster.ca = ca
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	}
	cluster.server = listwatchtest.New(sc)
	// A client that was connected to a cluster on the same address before, and
	// resumes, must find out that this is another one. Versions that go on from
	// the clock are above all of the other's, and their history is compacted.
	cluster.server.AdvanceResourceVersion(uint64(time.Now().UnixMicro()))
	cluster.server.Compact(cluster.server.ResourceVersion())
	sim := newSimulation(cluster.server, c.Nodes, c.Seed)
	if err := sim.populate(time.Now()); err != nil {
		cluster.server.Close()
		return nil, errors.Join(err, listener.Close())
	}
	cluster.group.Go(func() {
		if err := cluster.server.Serve(listener); err != nil {
			c.Logger.Error("the embedded API server stopped", "err", err)
		}
	})
	cluster.group.Go(func() { cluster.drive(sim) })
	return cluster, nil
}

// drive lets something happen on every node again and again.
func (c *Cluster) drive(sim *simulation) {
	// How long a node rests is drawn apart from what happens on it, so that a
	// slow machine changes only when things happen and not what.
	pauses := rand.New(rand.NewPCG(c.config.Seed, 1<<32))
	due := make([]time.Time, len(sim.nodes))
	now := time.Now()
	for i := range due {
		due[i] = now.Add(time.Duration(200+pauses.IntN(300)) * time.Millisecond)
	}
	for {
		next := 0
		for i := range due {
			if due[i].Before(due[next]) {
				next = i
			}
		}
		select {
		case <-c.stop:
			return
		case <-time.After(time.Until(due[next])):
		}
		now = time.Now()
		if err := sim.tick(sim.nodes[next], now); err != nil {
			c.config.Logger.Error("the demo cluster could not change a pod", "node", sim.nodes[next].name, "err", err)
		}
		due[next] = now.Add(time.Duration(300+pauses.IntN(500)) * time.Millisecond)
	}
}

// Addr is where the API server listens.
func (c *Cluster) Addr() net.Addr { return c.addr }

// URL is where clients on this machine find the API server.
func (c *Cluster) URL() string {
	scheme, addr := "http", c.addr.String()
	if c.ca != nil {
		scheme = "https"
	}
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort("127.0.0.1", port)
		}
	}
	return scheme + "://" + addr
}

// RESTConfig is for clients on this machine. It has the token.
func (c *Cluster) RESTConfig() *rest.Config {
	return &rest.Config{Host: c.URL(), BearerToken: c.config.Token, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}}
}

// Close ends the cluster and its connections.
func (c *Cluster) Close() {
	close(c.stop)
	c.server.Close()
	c.group.Wait()
}
