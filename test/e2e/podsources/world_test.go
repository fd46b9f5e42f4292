package podsources

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// world is one history under way.
type world struct {
	place    *place
	patience time.Duration
	api      *listwatchtest.Server
	// undelta is what the kubelet's API server source has between its reflector and
	// the merge: it sends all pods for every event.
	undelta *cache.UndeltaStore
	away    bool // the API server cannot be reached
	uids    int
	marks   int
	cause   string // the last operation on a file
	said    bool   // the URL has a new answer
	body    string // the last one that was not empty

	// model is there in the improved mode: what the files and the URL mean there.
	model *model

	kubelet *config.PodConfig
	ours    *podconfig.PodConfig
	theirs  *reader
	mine    *reader
}

// patience is how long a step may take to come to rest; less where one is known to fail.
const (
	patience = 5 * time.Second
	hurry    = time.Second
)

// run gives a history to both. The counts are of the rules that were needed.
func run(p *place, h history, patience time.Duration) (counts map[string]int, err error) {
	return runWith(p, h, patience, nil)
}

// runWith is run in the improved mode where there is a model, else in the compatible one.
func runWith(p *place, h history, patience time.Duration, m *model) (counts map[string]int, err error) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer cancel()
	p.used++
	w := &world{place: p, patience: patience, model: m, api: listwatchtest.Start(listwatchtest.Config{}), theirs: newReader(), mine: newReader()}
	defer w.api.Close()

	// What is before the start: the sources of the kubelet have come to it, and tell nobody.
	p.clean()
	defer p.attach(nil)
	w.undelta = cache.NewUndeltaStore(func([]any) {}, cache.MetaNamespaceKeyFunc)
	for _, s := range h.before {
		w.apply(s)
	}
	w.marks++
	mark := fmt.Sprintf("start-%d-%d", p.used, w.marks)
	p.writeBarrier(mark)
	if !w.await(ctx, func() bool { return p.sees(mark) && p.hasAsked("kubelet") }) {
		return nil, fmt.Errorf("the kubelet's sources do not come to what is before the start")
	}
	// The kubelet's URL source sends an answer once. One that came before the start is
	// said again, in other bytes.
	p.attach(w.startKubelet(ctx))
	w.sayAgain()
	stop := w.startOurs(ctx)
	defer func() {
		if e := stop(); err == nil {
			err = e
		}
	}()
	must(w.api.Create(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))

	counts = map[string]int{}
	if err := w.settle(ctx, step{op: "start"}, counts); err != nil {
		return counts, err
	}
	for i, s := range h.after {
		w.apply(s)
		if err := w.settle(ctx, s, counts); err != nil {
			return counts, fmt.Errorf("step %d (%s): %w", i, s, err)
		}
	}
	return counts, nil
}

// startKubelet makes the kubelet's merge, and gives it the API server's pods.
func (w *world) startKubelet(ctx context.Context) map[string]func([]*v1.Pod) {
	w.kubelet = newPodConfig(ctx)
	api := sender(w.kubelet.Channel(ctx, kubetypes.ApiserverSource))
	w.undelta = cache.NewUndeltaStore(func(objs []any) {
		pods := make([]*v1.Pod, len(objs))
		for i, o := range objs {
			pods[i] = o.(*v1.Pod)
		}
		api(pods)
	}, cache.MetaNamespaceKeyFunc)
	var list []any
	for _, pod := range w.pods() {
		list = append(list, pod)
	}
	must(w.undelta.Replace(list, ""))
	return map[string]func([]*v1.Pod){
		kubetypes.FileSource: sender(w.kubelet.Channel(ctx, kubetypes.FileSource)),
		kubetypes.HTTPSource: sender(w.kubelet.Channel(ctx, kubetypes.HTTPSource)),
	}
}

// startOurs returns what stops it and says whether it did so in time.
func (w *world) startOurs(ctx context.Context) (stop func() error) {
	behaviour := podconfig.KubeletCompatible
	if w.model != nil {
		behaviour = podconfig.Improved
		w.model.begin(w.place)
	}
	api, err := podconfig.NewAPIServer(podconfig.APIServerConfig{Behaviour: behaviour, Pods: nodefilter.Config{
		REST: w.api.RESTConfig(), Node: node,
		Reflector: func(c *reflector.Config[*v1.Pod]) {
			c.Backoff.Min, c.Backoff.Max = 10*time.Millisecond, 20*time.Millisecond
		}}})
	must(err)
	files, err := podconfig.NewFiles(podconfig.FileConfig{Behaviour: behaviour, Paths: []string{w.place.dir}, Node: node, Rescan: period})
	must(err)
	url, err := podconfig.NewURL(podconfig.URLConfig{Behaviour: behaviour, URL: w.place.url(), Node: node, Period: period,
		Header: http.Header{sideHeader: {"ours"}}})
	must(err)
	w.ours, err = podconfig.New(podconfig.Config{Behaviour: behaviour, Sources: []podconfig.Producer{api, files, url}})
	must(err)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.ours.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// pods are the pods of the API server as a list has them.
func (w *world) pods() []*v1.Pod {
	objects, _ := w.api.Snapshot(v1.SchemeGroupVersion.WithResource("pods"))
	pods := make([]*v1.Pod, len(objects))
	for i, o := range objects {
		pods[i] = asWatched(o.(*v1.Pod))
	}
	return pods
}

// sayAgain repeats what the URL says.
func (w *world) sayAgain() {
	a := w.place.answer
	if a.body != "" {
		w.body += "\n"
		a.body = w.body
	}
	w.sayURL(a.code, a.body)
}

// settle waits until both have come to the end of a step, and compares.
func (w *world) settle(ctx context.Context, s step, counts map[string]int) error {
	w.marks++
	mark := fmt.Sprintf("m-%d-%d", w.place.used, w.marks)
	begin := s.op == "start"
	if s.source == kubetypes.ApiserverSource || begin {
		w.apiBarrier(mark)
	}
	if s.source == kubetypes.FileSource || begin {
		w.place.writeBarrier(mark)
	}
	said := w.said
	w.said = false
	come := func() bool {
		for _, r := range []*reader{w.theirs, w.mine} {
			if (s.source == kubetypes.ApiserverSource || begin) && r.marks[kubetypes.ApiserverSource] != mark ||
				(s.source == kubetypes.FileSource || begin) && r.marks[kubetypes.FileSource] != mark {
				return false
			}
		}
		return !said || w.place.hasAsked("kubelet") && w.place.hasAsked("ours")
	}
	// A reading of files may have begun before the change and ended after it: the next one,
	// or the next event, mends that. In the end both have the same.
	rest := w.await(ctx, func() bool { return come() && len(w.differences()) == 0 })
	if err := w.compare(s, counts); err != nil {
		return err
	}
	if !rest {
		return fmt.Errorf("after %v it has not come to rest: the barrier %s is seen as %v by the kubelet and %v here",
			w.patience, mark, w.theirs.marks, w.mine.marks)
	}
	return nil
}

// apiBarrier writes the barrier of the API server.
func (w *world) apiBarrier(mark string) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: barrierName}}
	there := w.api.Get(pod) == nil
	pod.Labels = map[string]string{barrierLabel: mark}
	pod.ResourceVersion = ""
	if there {
		must(w.api.Update(pod))
	} else {
		pod.UID, pod.Spec = "api-barrier", v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: "barrier"}}}
		must(w.api.Create(pod))
	}
	w.event(pod)
}

// await reads the updates of both until the condition holds. It reports false when
// that takes too long.
func (w *world) await(ctx context.Context, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	// Nothing is there to read before the start.
	var theirs <-chan kubetypes.PodUpdate
	var mine <-chan podconfig.PodUpdate
	if w.kubelet != nil {
		theirs = w.kubelet.Updates()
	}
	if w.ours != nil {
		mine = w.ours.Updates()
	}
	for {
		select {
		case u := <-theirs:
			w.theirs.read(u.Source, opName(u.Op), u.Pods)
			continue
		case u := <-mine:
			w.mine.read(string(u.Source), u.Op.String(), u.Pods)
			continue
		default:
		}
		if condition() {
			return true
		}
		select {
		case u := <-theirs:
			w.theirs.read(u.Source, opName(u.Op), u.Pods)
		case u := <-mine:
			w.mine.read(string(u.Source), u.Op.String(), u.Pods)
		case <-w.place.poke:
		case <-ctx.Done():
			return false
		}
	}
}

func opName(op kubetypes.PodOperation) string {
	return map[kubetypes.PodOperation]string{kubetypes.ADD: "ADD", kubetypes.UPDATE: "UPDATE", kubetypes.DELETE: "DELETE",
		kubetypes.REMOVE: "REMOVE", kubetypes.RECONCILE: "RECONCILE"}[op]
}
