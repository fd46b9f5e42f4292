package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config says what to run and where.
type Config struct {
	Binaries Binaries
	// Dir holds data, keys and logs. It must exist.
	Dir string
	// ExtraArgs are appended to the command line of kube-apiserver.
	ExtraArgs []string
}

// Server is one kube-apiserver and its etcd.
type Server struct {
	config    Config
	tokens    map[User]string
	keyPath   string
	port      int
	etcdURL   string
	etcd, api *Process
}

// readyTimeout bounds each wait for a server. A start takes a few seconds; the
// margin is for machines that do other things.
const readyTimeout = 2 * time.Minute

// Start runs etcd and kube-apiserver and returns when the latter is ready.
func Start(ctx context.Context, c Config) (_ *Server, err error) {
	s := &Server{config: c}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.tokens, err = writeTokens(s.path("tokens.csv")); err != nil {
		return nil, err
	}
	if s.keyPath, err = writeServiceAccountKey(c.Dir); err != nil {
		return nil, err
	}
	if err := s.startEtcd(ctx); err != nil {
		return nil, err
	}
	if s.port, err = FreePort(); err != nil {
		return nil, err
	}
	if err := s.startAPIServer(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) path(name string) string { return filepath.Join(s.config.Dir, name) }

func (s *Server) startEtcd(ctx context.Context) error {
	client, err := FreePort()
	if err != nil {
		return err
	}
	peer, err := FreePort()
	if err != nil {
		return err
	}
	s.etcdURL = "http://127.0.0.1:" + strconv.Itoa(client)
	peerURL := "http://127.0.0.1:" + strconv.Itoa(peer)
	s.etcd, err = StartProcess("etcd", exec.Command(s.config.Binaries.Etcd,
		"--name=e2e",
		"--data-dir="+s.path("etcd"),
		"--listen-client-urls="+s.etcdURL,
		"--advertise-client-urls="+s.etcdURL,
		"--listen-peer-urls="+peerURL,
		"--initial-advertise-peer-urls="+peerURL,
		"--initial-cluster=e2e="+peerURL,
		"--unsafe-no-fsync", // the data need not survive the machine
		"--log-level=warn",
	), s.path("etcd.log"))
	if err != nil {
		return err
	}
	return s.etcd.await(ctx, "wait for etcd", func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, s.etcdURL+"/health")
	})
}

func (s *Server) startAPIServer(ctx context.Context) (err error) {
	args := []string{
		"--etcd-servers=" + s.etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // else it refuses to advertise loopback
		"--secure-port=" + strconv.Itoa(s.port),
		"--cert-dir=" + s.path("certs"), // makes a serving certificate where there is none
		"--token-auth-file=" + s.path("tokens.csv"),
		"--service-account-issuer=https://127.0.0.1",
		"--service-account-key-file=" + s.keyPath,
		"--service-account-signing-key-file=" + s.keyPath,
		"--service-cluster-ip-range=10.96.0.0/24",
		"--authorization-mode=Node,RBAC",
		// Pods are made without controllers, so no namespace has a service
		// account for them.
		"--disable-admission-plugins=ServiceAccount",
		// No history is dropped but when a test asks for it.
		"--etcd-compaction-interval=0",
		"--profiling=false",
	}
	s.api, err = StartProcess("kube-apiserver",
		exec.Command(s.config.Binaries.APIServer, append(args, s.config.ExtraArgs...)...),
		s.path("kube-apiserver.log"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout,
		fmt.Errorf("not ready within %v", readyTimeout))
	defer cancel()
	return s.api.await(ctx, "wait for kube-apiserver", func(ctx context.Context) error {
		// The client is made anew until the certificate is there.
		client, err := rest.HTTPClientFor(s.RESTConfig(Admin))
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		if err := get(ctx, client, s.URL()+"/readyz"); err != nil {
			return err
		}
		// readyz does not wait for the namespace that pods are created in.
		return get(ctx, client, s.URL()+"/api/v1/namespaces/default")
	})
}

// URL is the API server's address.
func (s *Server) URL() string { return "https://127.0.0.1:" + strconv.Itoa(s.port) }

// RESTConfig returns the configuration of a client that is user, without a
// rate limit.
func (s *Server) RESTConfig(user User) *rest.Config {
	return &rest.Config{
		Host:            s.URL(),
		BearerToken:     s.tokens[user],
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.path("certs/apiserver.crt")},
		QPS:             -1,
	}
}

// Kubeconfig writes a kubeconfig for user and returns its path.
func (s *Server) Kubeconfig(user User) (string, error) {
	path := s.path("kubeconfig-" + strconv.Quote(string(user)))
	return path, WriteKubeconfig(path, s.RESTConfig(user))
}

// WriteKubeconfig writes the address and the token of c as a kubeconfig.
func WriteKubeconfig(path string, c *rest.Config) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"e2e": {
			Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"e2e": {Token: c.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e", AuthInfo: "e2e"}},
		CurrentContext: "e2e",
	}, path)
}

// Kill ends the API server as a crash does. etcd goes on.
func (s *Server) Kill() { s.api.Kill() }

// Restart kills the API server where it still runs and starts it again on the same port.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.startAPIServer(ctx)
}

// Compact drops the history of etcd up to now. Reads at an older
// resourceVersion fail from then on, as far as the API server's watch cache
// does not hold it.
func (s *Server) Compact(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.etcdURL}, Context: ctx, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	defer client.Close()
	head, err := client.Get(ctx, "/registry/health")
	if err != nil {
		return fmt.Errorf("compact etcd: ask for its revision: %w", err)
	}
	if _, err := client.Compact(ctx, head.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact etcd at %d: %w", head.Header.Revision, err)
	}
	return nil
}

// LogTail returns the last lines of both servers' logs.
func (s *Server) LogTail(lines int) string {
	var tail string
	for _, p := range []*Process{s.etcd, s.api} {
		if p != nil {
			tail += p.LogTail(lines)
		}
	}
	return tail
}

// Stop ends both servers. Idempotent.
func (s *Server) Stop() {
	// Nobody waits for a graceful end: open watches would hold the API server
	// for a minute.
	if s.api != nil {
		s.api.Kill()
	}
	if s.etcd != nil {
		s.etcd.Stop(5 * time.Second)
	}
}

// get returns an error unless the answer is 200.
func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(url + ": " + resp.Status)
	}
	return nil
}

// FreePort asks the kernel for a port that nobody listens on. Another process
// may take it before the server does; its start then fails and says so.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
