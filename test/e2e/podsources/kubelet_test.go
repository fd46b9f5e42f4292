package podsources

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

const (
	node = "node-a"
	// period is that of the files' rescan and of the URL, for both.
	period = 40 * time.Millisecond
)

type noSLI struct{}

func (noSLI) ObservedPodOnWatch(klog.Logger, *v1.Pod, time.Time) {}

// newPodConfig is a kubelet's merge.
func newPodConfig(ctx context.Context) *config.PodConfig {
	recorder := record.NewBroadcaster(record.WithContext(ctx)).NewRecorder(scheme.Scheme, v1.EventSource{})
	return config.NewPodConfig(recorder, noSLI{})
}

// set is the form of what the kubelet's sources send. Their type has no name outside of
// its package.
type set = struct{ Pods []*v1.Pod }

// tap is a channel like another one, whose receiver is f, one call at a time, until f reports
// false. Who sends then waits for ever.
func tap[T ~struct{ Pods []*v1.Pod }](_ chan<- T, f func(pods []*v1.Pod) bool) chan<- T {
	c := make(chan T)
	go func() {
		for f(set(<-c).Pods) {
		}
	}()
	return c
}

// sender sends to the merge what a source has.
func sender[T ~struct{ Pods []*v1.Pod }](c chan<- T) func(pods []*v1.Pod) {
	return func(pods []*v1.Pod) { c <- T{Pods: pods} }
}

// place is a directory and a URL, with the kubelet's sources that read them for ever. It
// serves one history at a time.
type place struct {
	dir    string
	server *httptest.Server
	// poke holds a token when something was sent or asked for.
	poke chan struct{}
	used int // histories so far

	mu sync.Mutex
	// sends are those of the history that runs, by source; nil while none does.
	sends   map[string]func([]*v1.Pod)
	closed  bool   // nothing is forwarded any more, which stops the sources' work
	barrier string // that of the last set of files
	answer  answer
	// asked counts the requests for the answer by side, once it was given.
	asked map[string]int
}

// answer is what the URL says.
type answer struct {
	code int
	body string
	tag  string
}

// sideHeader tells whose request it is: the URL is in the UIDs, and has to be the same.
const sideHeader = "Nodewatch-Side"

func newPlace(t *testing.T) *place {
	p := &place{dir: filepath.Join(t.TempDir(), "manifests"), poke: make(chan struct{}, 1)}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.server.Close()
	})
	p.say(http.StatusNotFound, "")
	p.writeBarrier("first")
	// Not the test's: these go on when it has ended.
	ctx := klog.NewContext(context.Background(), logr.Discard())
	like := newPodConfig(ctx)
	config.NewSourceFile(logr.Discard(), p.dir, node, period, tap(like.Channel(ctx, kubetypes.FileSource), p.forward(kubetypes.FileSource)))
	config.NewSourceURL(logr.Discard(), p.url(), http.Header{sideHeader: {"kubelet"}}, types.NodeName(node), period,
		tap(like.Channel(ctx, kubetypes.HTTPSource), p.forward(kubetypes.HTTPSource)))
	return p
}

func (p *place) url() string { return p.server.URL + "/pods" }

// forward hands what a source sends to the history that runs.
func (p *place) forward(source string) func([]*v1.Pod) bool {
	return func(pods []*v1.Pod) bool {
		p.mu.Lock()
		if source == kubetypes.FileSource {
			p.barrier = ""
			for _, pod := range pods {
				if isBarrier(pod) {
					p.barrier = pod.Labels[barrierLabel]
				}
			}
		}
		send, closed := p.sends[source], p.closed
		p.mu.Unlock()
		if send != nil {
			send(pods)
		}
		p.signal()
		return !closed
	}
}

func (p *place) signal() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// attach makes a history the one that runs; nil ends it.
func (p *place) attach(sends map[string]func([]*v1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends = sends
}

// serve answers as the history wants it.
func (p *place) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	a := p.answer
	p.asked[r.Header.Get(sideHeader)]++
	p.mu.Unlock()
	p.signal()
	// Some answers have no tag, and are read again each time.
	if a.code == http.StatusOK && !strings.Contains(a.body, "image:1") {
		w.Header().Set("ETag", a.tag)
		if r.Header.Get("If-None-Match") == a.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(a.code)
	_, _ = w.Write([]byte(a.body)) // who went does not want it
}

// say changes what the URL answers.
func (p *place) say(code int, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer{code: code, body: body, tag: fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body)))}
	p.asked = map[string]int{}
}

// hasAsked reports whether a side has dealt with the answer: it asks for the second time.
func (p *place) hasAsked(side string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[side] >= 2
}

// The barrier is a pod of a source that says how far a side has come.
const (
	barrierName  = "zz-barrier"
	barrierLabel = "barrier"
)

func isBarrier(pod *v1.Pod) bool { return strings.HasPrefix(pod.Name, barrierName) }

func (p *place) writeBarrier(mark string) {
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + barrierName + "\n  uid: file-barrier\n  labels: {" + barrierLabel + ": " + mark +
		"}\nspec:\n  containers:\n  - {name: main, image: barrier}\n"
	must(os.WriteFile(filepath.Join(p.dir, barrierName+".yaml"), []byte(text), 0o644))
}

// sees reports whether the kubelet's file source has come to the barrier.
func (p *place) sees(mark string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.barrier == mark
}

// clean removes what the history before left.
func (p *place) clean() {
	entries, err := os.ReadDir(p.dir)
	must(err)
	for _, e := range entries {
		if e.Name() != barrierName+".yaml" {
			must(os.Remove(filepath.Join(p.dir, e.Name())))
		}
	}
	p.say(http.StatusNotFound, "")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
