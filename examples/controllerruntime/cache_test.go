package controllerruntime

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/nodewatch-go/nodewatch/reflector/cacheadapter"
)

// The URL of a list says which collection it is.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		host, url, want string // want is group/version/resource namespace labels fields, or an error
	}{
		{"https://h", "https://h/api/v1/pods", "/v1/pods - - -"},
		{"https://h", "https://h/api/v1/namespaces", "/v1/namespaces - - -"},
		{"https://h", "https://h/api/v1/namespaces/ns/pods", "/v1/pods ns - -"},
		{"https://h", "https://h/apis/example.com/v1/widgets", "example.com/v1/widgets - - -"},
		{"https://h/", "https://h/apis/example.com/v1/namespaces/ns/widgets", "example.com/v1/widgets ns - -"},
		{"https://h/k8s/clusters/c1", "https://h/k8s/clusters/c1/api/v1/pods", "/v1/pods - - -"},
		{"https://h", "https://h/api/v1/pods?labelSelector=app%3Dweb%2Ctier&fieldSelector=spec.nodeName%3Da", "/v1/pods - app=web,tier spec.nodeName=a"},
		{"https://h", "https://h/version", "that is no path of a collection"},
		{"https://h", "https://h/apis/example.com/v1", "that is no path of a collection"},
		{"https://h", "https://h/api/v1/namespaces/ns/pods/a", "that is no path of a collection"},
		{"https://h", "https://h/api/v1/pods?labelSelector=%3D", "labelSelector: "},
		{"https://h", "https://h/api/v1/pods?fieldSelector=a", "fieldSelector: "},
	} {
		t.Run(tc.url, func(t *testing.T) {
			u, err := url.Parse(tc.url)
			must(t, err)
			c, err := parse(&rest.Config{Host: tc.host}, u)
			if err != nil {
				if !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("error %v, want %s", err, tc.want)
				}
				return
			}
			or := func(s string) string {
				if s == "" {
					return "-"
				}
				return s
			}
			r := c.Resource
			got := strings.Join([]string{
				r.Group + "/" + r.Version + "/" + r.Resource, or(c.Namespace), or(c.LabelSelector.String()), or(c.FieldSelector.String()),
			}, " ")
			if got != tc.want {
				t.Errorf("parsed %s, want %s", got, tc.want)
			}
		})
	}
}

// "An informer of any other type is controller-runtime's own", and an error of the
// construction is one of its lists.
func TestWhichPath(t *testing.T) {
	var given toolscache.ListerWatcher
	opts, err := CacheOptions(&rest.Config{Host: "https://h"}, cache.Options{
		HTTPClient: http.DefaultClient,
		NewInformer: func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			given = lw
			return toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)
		},
	}, Of[*corev1.Pod]())
	must(t, err)
	theirs := &toolscache.ListWatch{ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://h/api/v1/pods", nil)
		if err != nil {
			return nil, err
		}
		_, err = opts.HTTPClient.Do(req) //nolint:bodyclose // it is never answered
		return nil, err
	}}
	opts.NewInformer(theirs, &corev1.Pod{}, 0, nil)
	if _, ok := given.(*cacheadapter.ListerWatcher[*corev1.Pod]); !ok {
		t.Errorf("the informer of a named type has a %T", given)
	}
	opts.NewInformer(theirs, &corev1.Node{}, 0, nil)
	if given != toolscache.ListerWatcher(theirs) {
		t.Errorf("the informer of another type has a %T and not what it was given", given)
	}
	broken := errors.New("no such resource")
	opts.NewInformer(&toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return nil, broken
	}}, &corev1.Pod{}, 0, nil)
	if _, err := toolscache.ToListerWatcherWithContext(given).ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, broken) {
		t.Errorf("a list whose collection is not known: %v, want the cause", err)
	}
	if _, err := toolscache.ToListerWatcherWithContext(given).WatchWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, broken) {
		t.Errorf("a watch whose collection is not known: %v, want the cause", err)
	}
}

// A request that is no probe is sent.
func TestProbeLetsRequestsPass(t *testing.T) {
	c := withProbe(&http.Client{Transport: answer{}})
	resp, err := c.Get("https://h/api/v1/pods")
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot {
		t.Errorf("answered %s", resp.Status)
	}
}

type answer struct{}

func (answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
}
