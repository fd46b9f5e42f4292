// Command staticpods writes what the kubelet's own package makes of the manifests in
// nodefilter/podconfig/testdata/static.txtar: for each the pod, or why it is refused.
//
//	go run ./cmd/staticpods < static.txtar > static-kubelet.txtar
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/rogpeppe/go-internal/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// node is in the name of each pod and in its UID.
const node = "node-a"

type noSLI struct{}

func (noSLI) ObservedPodOnWatch(klog.Logger, *v1.Pod, time.Time) {}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}
	http.DefaultTransport = serve(func() []byte { return body })
	out := &txtar.Archive{Comment: []byte("What the kubelet of Kubernetes 1.37.2 makes of static.txtar in manifests/ on the node " + node + ".\n")}
	var uids []byte
	for _, f := range txtar.Parse(text).Files {
		answer, taken := fromFile(f)
		out.Files = append(out.Files, answer)
		if taken {
			body = f.Data
			uids = fmt.Appendf(uids, "%s %s\n", strings.TrimSuffix(f.Name, ".yaml"), uidFromURL())
		}
	}
	out.Files = append(out.Files, txtar.File{Name: "uids-from-url", Data: uids})
	os.Stdout.Write(txtar.Format(out))
}

// url is where the manifests are as well; body is the one that is there now.
const url = "http://config.example/pods"

var body []byte

// serve answers every request.
type serve func() []byte

func (s serve) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(s())), Request: r}, nil
}

// podConfig is a kubelet's, with one source.
func podConfig(ctx context.Context, start func(*config.PodConfig)) kubetypes.PodUpdate {
	recorder := record.NewBroadcaster(record.WithContext(ctx)).NewRecorder(scheme.Scheme, v1.EventSource{})
	cfg := config.NewPodConfig(recorder, noSLI{})
	start(cfg)
	return <-cfg.Updates()
}

// uidFromURL gives the body to a kubelet's URL source.
func uidFromURL() types.UID {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	update := podConfig(ctx, func(cfg *config.PodConfig) {
		config.NewSourceURL(klog.Background(), url, nil, types.NodeName(node), time.Hour, cfg.Channel(ctx, kubetypes.HTTPSource))
	})
	return update.Pods[0].UID
}

// fromFile gives a single manifest to a kubelet's file source, and reports whether it was taken.
func fromFile(f txtar.File) (txtar.File, bool) {
	os.RemoveAll("manifests")
	if err := os.Mkdir("manifests", 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("manifests", f.Name), f.Data, 0o644); err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	var said string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if said == "" && strings.Contains(args, "Could not process") {
			// The text of some goes on with addresses.
			said = args[:min(len(args), 300)]
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	update := podConfig(ctx, func(cfg *config.PodConfig) {
		config.NewSourceFile(logger, "manifests", types.NodeName(node), time.Hour, cfg.Channel(ctx, kubetypes.FileSource))
	})
	name := strings.TrimSuffix(f.Name, ".yaml")
	if len(update.Pods) == 0 {
		mu.Lock()
		defer mu.Unlock()
		return txtar.File{Name: name + ".refused", Data: []byte(said + "\n")}, false
	}
	pod := update.Pods[0]
	delete(pod.Annotations, "kubernetes.io/config.seen")
	data, err := json.MarshalIndent(pod, "", " ")
	if err != nil {
		log.Fatal(err)
	}
	return txtar.File{Name: name + ".json", Data: fmt.Appendf(nil, "%s\n", data)}, true
}
