package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/democluster"
)

// scene is what sources --demo shows: an API server with a busy cluster, a folder
// of manifests that are edited, and a URL.
type scene struct {
	cluster *democluster.Cluster
	folder  string
	url     string
	http    *http.Server
	stop    context.CancelFunc
	group   sync.WaitGroup
}

// scenePeriod is how often the URL of a scene is asked: a viewer should not wait
// for the 20 s of a kubelet.
const scenePeriod = 2 * time.Second

// The manifests.
const (
	proxyManifest = `apiVersion: v1
kind: Pod
metadata:
  name: node-proxy
  namespace: kube-system
spec:
  hostNetwork: true
  containers:
  - name: proxy
    image: registry.example/node-proxy:%s
`
	agentManifest = `apiVersion: v1
kind: Pod
metadata:
  name: log-agent
  namespace: kube-system
spec:
  containers:
  - name: agent
    image: registry.example/log-agent:%s
`
	urlManifest = `apiVersion: v1
kind: PodList
items:
- metadata: {name: node-exporter, namespace: monitoring}
  spec:
    containers:
    - {name: exporter, image: "registry.example/node-exporter:1.9"}
`
)

// startScene sets everything going until Close, or until ctx ends.
func startScene(ctx context.Context, log *slog.Logger) (s *scene, err error) {
	cluster, err := democluster.Start(democluster.Config{Logger: log})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s = &scene{cluster: cluster, stop: stop}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.folder, err = os.MkdirTemp("", "nodewatch-manifests-"); err != nil {
		return nil, err
	}
	if err := errors.Join(s.save("proxy.yaml", proxyManifest, "2.1"), s.save("agent.yaml", agentManifest, "0.9")); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String() + "/pods.yaml"
	s.http = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(urlManifest)) // the reader went away
	})}
	s.group.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the server of the demo's URL stopped", "err", err)
		}
	})
	s.group.Go(func() {
		if err := s.play(ctx); err != nil {
			log.Error("the demo could not edit its manifests", "err", err)
		}
	})
	return s, nil
}

// play edits the manifests, again and again.
func (s *scene) play(ctx context.Context) error {
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for edition := 2; ; edition++ {
		for _, act := range []func() error{
			func() error { return s.save("proxy.yaml", proxyManifest, fmt.Sprintf("2.%d", edition)) },
			// A slip of the pen: the pod stays, and the fault is named.
			func() error { return s.save("agent.yaml", agentManifest+"    imagePullPolicy: Sometimes\n", "0.9") },
			func() error { return s.save("agent.yaml", agentManifest, fmt.Sprintf("1.%d", edition)) },
			func() error { return os.Remove(filepath.Join(s.folder, "agent.yaml")) },
			func() error { return s.save("agent.yaml", agentManifest, "0.9") },
		} {
			if !wait(2 * time.Second) {
				return nil
			}
			if err := act(); err != nil {
				return err
			}
		}
	}
}

// save writes a manifest as one should: the whole file at once.
func (s *scene) save(name, manifest, version string) error {
	path := filepath.Join(s.folder, name)
	temporary := filepath.Join(s.folder, "."+name)
	if err := os.WriteFile(temporary, fmt.Appendf(nil, manifest, version), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// Close ends everything and removes the folder.
func (s *scene) Close() {
	s.stop()
	if s.http != nil {
		_ = s.http.Close() // its connections are our own
	}
	s.group.Wait()
	s.cluster.Close()
	if s.folder != "" {
		_ = os.RemoveAll(s.folder) // what is left is in the folder for temporary files
	}
}
