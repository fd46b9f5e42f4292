package podsources

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// TestPaths: a path that is one file, and a directory that goes away and comes back. After each
// step both readers have the same pods, and those that the step is about.
func TestPaths(t *testing.T) {
	write := func(path, text string) func() error {
		return func() error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "manifests")
	bad := strings.Replace(manifest("a", 1), "image:", "image: [", 1)
	type act struct {
		what string
		do   func() error
		want string // the images that a reader has then
	}
	for path, acts := range map[string][]act{
		file: {
			{"no file", func() error { return nil }, ""},
			{"a file", write(file, manifest("a", 1)), "image:1"},
			{"an edit", write(file, manifest("a", 2)), "image:2"},
			// Not as in a directory: the kubelet keeps what it had.
			{"a fault", write(file, bad), "image:2"},
			{"mended", write(file, manifest("b", 3)), "image:3"},
			{"saved by a rename", func() error {
				return firstError(write(file+".new", manifest("b", 4))(), os.Rename(file+".new", file))
			}, "image:4"},
			{"removed", func() error { return os.Remove(file) }, ""},
			{"back", write(file, manifest("b", 4)), "image:4"},
		},
		folder: {
			{"no directory", func() error { return nil }, ""},
			{"a directory", func() error { return os.Mkdir(folder, 0o755) }, ""},
			{"a file in it", write(filepath.Join(folder, "a.yaml"), manifest("a", 1)), "image:1"},
			{"the directory removed", func() error { return os.RemoveAll(folder) }, ""},
			{"back with another file", func() error {
				return firstError(os.Mkdir(folder, 0o755), write(filepath.Join(folder, "b.yaml"), manifest("b", 5))())
			}, "image:5"},
			{"another directory in its place", func() error {
				other := folder + ".new"
				return firstError(os.Mkdir(other, 0o755), write(filepath.Join(other, "c.yaml"), manifest("c", 2))(),
					os.Rename(folder, folder+".old"), os.Rename(other, folder))
			}, "image:2"},
			{"a file in its place", func() error {
				return firstError(os.RemoveAll(folder), write(folder, manifest("d", 3))())
			}, "image:3"},
		},
	} {
		ctx := klog.NewContext(t.Context(), logr.Discard())
		kubelet := newPodConfig(ctx)
		// The kubelet's source has no end: what it sends after the test is taken by nobody.
		var ended atomic.Bool
		send := sender(kubelet.Channel(ctx, kubetypes.FileSource))
		config.NewSourceFile(logr.Discard(), path, node, period, tap(kubelet.Channel(ctx, "like"), func(pods []*v1.Pod) bool {
			if !ended.Load() {
				send(pods)
			}
			return !ended.Load()
		}))
		files, err := podconfig.NewFiles(podconfig.FileConfig{Behaviour: podconfig.KubeletCompatible, Paths: []string{path}, Node: node, Rescan: period})
		must(err)
		ours, stop := runSources(t, files)
		w := &world{patience: patience, place: &place{poke: make(chan struct{})}, kubelet: kubelet, ours: ours, theirs: newReader(), mine: newReader()}
		for _, a := range acts {
			must(a.do())
			come := func() bool {
				return len(w.theirs.state) == 1 && images(w.mine) == a.want && len(w.differences()) == 0
			}
			if !w.await(context.Background(), come) {
				t.Errorf("%s, %s: the kubelet's reader has %q, podconfig's %q, want %q: %q", filepath.Base(path), a.what,
					images(w.theirs), images(w.mine), a.want, w.differences())
			}
			if w.theirs.wrong != nil || w.mine.wrong != nil {
				t.Errorf("%s, %s: %v, %v", filepath.Base(path), a.what, w.theirs.wrong, w.mine.wrong)
			}
		}
		ended.Store(true)
		stop()
	}
}

// images are those of the pods of files.
func images(r *reader) string {
	var all []string
	for _, pod := range r.state[kubetypes.FileSource] {
		all = append(all, pod.Spec.Containers[0].Image)
	}
	return strings.Join(all, " ")
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
