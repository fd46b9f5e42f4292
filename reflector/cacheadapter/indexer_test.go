package cacheadapter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func labelled(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// images indexes a pod under each of its images.
var images = reflector.Index[*corev1.Pod]{Name: "image", Values: func(p *corev1.Pod) []string {
	var all []string
	for _, c := range p.Spec.Containers {
		all = append(all, c.Image)
	}
	return all
}}

// filled returns our store with the pods of a server, and client-go's indexer
// with the same pods and the same indexes.
func filled(t *testing.T, ours *reflector.Store[*corev1.Pod]) (*Indexer[*corev1.Pod], cache.Indexer) {
	t.Helper()
	srv := listwatchtest.New(listwatchtest.Config{})
	t.Cleanup(srv.Close)
	theirs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"image":              func(o any) ([]string, error) { return images.Values(o.(*corev1.Pod)), nil },
	})
	for _, p := range []*corev1.Pod{
		labelled("ns", "a", map[string]string{"app": "web"}),
		labelled("ns", "b", map[string]string{"app": "db"}),
		labelled("other", "a", map[string]string{"app": "web"}),
	} {
		p.Spec.Containers = []corev1.Container{{Name: "1", Image: "img-" + p.Name}, {Name: "2", Image: "sidecar"}}
		if err := srv.Create(p); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: listerWatcher(t, srv), Store: ours})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if err := r.WaitForSync(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return NewIndexer(r.Store()), theirs
}

func podKeys(objects []any) string {
	var all []string
	for _, o := range objects {
		key, err := cache.MetaNamespaceKeyFunc(o)
		if err != nil {
			key = err.Error()
		}
		all = append(all, key)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func sorted(all []string) string {
	return strings.Join(slices.Sorted(slices.Values(all)), " ")
}

// TestIndexerReadsAsClientGoDoes asks our view and client-go's indexer, filled with the
// same pods, the same questions.
func TestIndexerReadsAsClientGoDoes(t *testing.T) {
	for name, store := range map[string]*reflector.Store[*corev1.Pod]{
		"with an index of namespaces":    reflector.NewStore(images, reflector.ByNamespace[*corev1.Pod]()),
		"without an index of namespaces": reflector.NewStore(images),
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := filled(t, store)
			same := func(what string, ask func(cache.Indexer) string) {
				t.Helper()
				got, want := ask(ours), ask(theirs)
				if got != want {
					t.Errorf("%s: %q, client-go's has %q", what, got, want)
				}
				if want == "" {
					t.Errorf("%s: asks for nothing", what)
				}
			}
			same("List", func(i cache.Indexer) string { return podKeys(i.List()) })
			same("ListKeys", func(i cache.Indexer) string { return sorted(i.ListKeys()) })
			for _, key := range []string{"ns/a", "other/a", "ns/none", "a"} {
				same("GetByKey "+key, func(i cache.Indexer) string {
					o, exists, err := i.GetByKey(key)
					if !exists {
						return "none"
					}
					return podKeys([]any{o}) + errText(err)
				})
			}
			same("Get", func(i cache.Indexer) string {
				o, exists, err := i.Get(labelled("ns", "b", nil))
				_, missing, _ := i.Get(labelled("ns", "none", nil))
				if !exists || missing || err != nil {
					return "wrong"
				}
				return podKeys([]any{o})
			})
			for _, index := range []string{"image", cache.NamespaceIndex} {
				same("ListIndexFuncValues "+index, func(i cache.Indexer) string { return sorted(i.ListIndexFuncValues(index)) })
				for _, value := range []string{"img-a", "sidecar", "ns"} {
					same("ByIndex "+index+" "+value, func(i cache.Indexer) string {
						o, err := i.ByIndex(index, value)
						return "[" + podKeys(o) + errText(err) + "]"
					})
					same("IndexKeys "+index+" "+value, func(i cache.Indexer) string {
						k, err := i.IndexKeys(index, value)
						return "[" + sorted(k) + errText(err) + "]"
					})
				}
				same("Index "+index, func(i cache.Indexer) string {
					p := labelled("ns", "x", nil)
					p.Spec.Containers = []corev1.Container{{Image: "sidecar"}, {Image: "img-b"}}
					o, err := i.Index(index, p)
					return podKeys(o) + errText(err)
				})
				same("GetIndexers "+index, func(i cache.Indexer) string {
					p := labelled("ns", "x", nil)
					p.Spec.Containers = []corev1.Container{{Image: "img-x"}}
					values, err := i.GetIndexers()[index](p)
					return sorted(values) + errText(err)
				})
			}
			same("Index by an ObjectMeta", func(i cache.Indexer) string {
				o, err := i.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: "other"})
				return podKeys(o) + errText(err)
			})
			for _, i := range []cache.Indexer{ours, theirs} {
				if _, err := i.ByIndex("none", "x"); err == nil {
					t.Errorf("%T has an index that is not there", i)
				}
				if _, err := i.IndexKeys("none", "x"); err == nil {
					t.Errorf("%T has keys in an index that is not there", i)
				}
				if _, err := i.Index("none", labelled("ns", "a", nil)); err == nil {
					t.Errorf("%T has objects in an index that is not there", i)
				}
			}
		})
	}
}

func errText(err error) string {
	if err != nil {
		return "error"
	}
	return ""
}

// TestListers runs one of client-go's generated listers on our store.
func TestListers(t *testing.T) {
	ours, _ := filled(t, nil)
	lister := corev1listers.NewPodLister(ours)
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	for what, list := range map[string]func() ([]*corev1.Pod, error){
		"ns/a ns/b other/a": func() ([]*corev1.Pod, error) { return lister.List(labels.Everything()) },
		"ns/a other/a":      func() ([]*corev1.Pod, error) { return lister.List(web) },
		"ns/a":              func() ([]*corev1.Pod, error) { return lister.Pods("ns").List(web) },
		"ns/a ns/b":         func() ([]*corev1.Pod, error) { return lister.Pods("ns").List(labels.Everything()) },
		"":                  func() ([]*corev1.Pod, error) { return lister.Pods("none").List(labels.Everything()) },
	} {
		found, err := list()
		all := make([]any, len(found))
		for i, p := range found {
			all[i] = p
		}
		if got := podKeys(all); got != what || err != nil {
			t.Errorf("listed %q (%v), want %q", got, err, what)
		}
	}
	p, err := lister.Pods("other").Get("a")
	if stored, _ := ours.store.Get("other", "a"); err != nil || p != stored {
		t.Errorf("Get: %v, %v; want the very object of the store", p, err)
	}
	if _, err := lister.Pods("ns").Get("none"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a pod that is not there: %v", err)
	}
}

// "Add, Update, Delete, Replace and AddIndexers change nothing and return an
// error that is ErrReadOnly."
func TestIndexerIsReadOnly(t *testing.T) {
	ours, _ := filled(t, nil)
	before := podKeys(ours.List())
	for what, err := range map[string]error{
		"Add":         ours.Add(labelled("ns", "x", nil)),
		"Update":      ours.Update(labelled("ns", "a", nil)),
		"Delete":      ours.Delete(labelled("ns", "a", nil)),
		"Replace":     ours.Replace(nil, "7"),
		"AddIndexers": ours.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc}),
	} {
		if !errors.Is(err, ErrReadOnly) || !strings.HasPrefix(err.Error(), what+": ") {
			t.Errorf("%s: %v, want an error that names it and is ErrReadOnly", what, err)
		}
	}
	ours.Bookmark("7")
	if err := ours.Resync(); err != nil {
		t.Errorf("Resync: %v", err)
	}
	if after := podKeys(ours.List()); after != before || before == "" || ours.LastStoreSyncResourceVersion() != "" {
		t.Errorf("the store has %q after %q", after, before)
	}
}

// What cannot be looked up is said.
func TestIndexerErrors(t *testing.T) {
	ours, _ := filled(t, reflector.NewStore(images))
	for what, ask := range map[string]func() error{
		`the store has no index "none"; it has ["image" "namespace"]`: func() error { _, err := ours.ByIndex("none", "x"); return err },
		`index "image" is of *v1.Pod and not of *v1.Node`:             func() error { _, err := ours.Index("image", &corev1.Node{}); return err },
		"the namespace of a int: object does not implement":           func() error { _, err := ours.Index(cache.NamespaceIndex, 7); return err },
		"the key of a int: ":                    func() error { _, _, err := ours.Get(7); return err },
		`unexpected key format: "too/many/are"`: func() error { _, _, err := ours.GetByKey("too/many/are"); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want %s", err, what)
		}
	}
}
