package reflector

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// unused is a ListerWatcher that nobody runs.
type unused[T any] struct{}

func (unused[T]) List(context.Context, metav1.ListOptions, listwatch.Sink[T]) (metav1.ListMeta, error) {
	panic("not to be called")
}

func (unused[T]) Watch(context.Context, metav1.ListOptions) (*streamwatcher.StreamWatcher[T], error) {
	panic("not to be called")
}

// named is one that names its resource.
type named[T any] struct{ unused[T] }

func (named[T]) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

func TestConfigDefaults(t *testing.T) {
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}})
	if err != nil {
		t.Fatal(err)
	}
	c := r.cfg
	if c.Resource != "deployments.apps" || c.Name != "deployments.apps" || c.Kind != "Pod" || c.Store == nil || c.Logger == nil ||
		c.WatchTimeout != 5*time.Minute || c.Backoff != (Backoff{800 * time.Millisecond, 30 * time.Second}) {
		t.Errorf("defaults: %+v", c)
	}
	if s := r.Status(); s.State != StateWatchListing || s.Name != c.Name || s.Synced || s.LastRestart != nil {
		t.Errorf("status before Run: %+v", s)
	}
}

// "Backoff cannot be set to zero by accident."
func TestBackoffDefaults(t *testing.T) {
	for _, c := range []struct{ given, want Backoff }{
		{Backoff{}, Backoff{DefaultBackoffMin, DefaultBackoffMax}},
		{Backoff{Min: time.Second}, Backoff{time.Second, DefaultBackoffMax}},
		{Backoff{Max: time.Minute}, Backoff{DefaultBackoffMin, time.Minute}},
		{Backoff{Max: 500 * time.Millisecond}, Backoff{500 * time.Millisecond, 500 * time.Millisecond}},
		{Backoff{Min: time.Hour}, Backoff{time.Hour, time.Hour}},
		{Backoff{Min: 50 * time.Millisecond, Max: 500 * time.Millisecond}, Backoff{50 * time.Millisecond, 500 * time.Millisecond}},
	} {
		got := Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}, Backoff: c.given}.withDefaults().Backoff
		if got != c.want {
			t.Errorf("%v: %v, want %v", c.given, got, c.want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Config[*corev1.Pod])
		want   string
	}{
		{func(c *Config[*corev1.Pod]) { c.ListerWatcher = nil }, "Config.ListerWatcher is nil"},
		{func(c *Config[*corev1.Pod]) { c.ListerWatcher = unused[*corev1.Pod]{} }, "Config.Resource is empty"},
		{func(c *Config[*corev1.Pod]) { c.InitialSync = 9 }, "Config.InitialSync is 9"},
		{func(c *Config[*corev1.Pod]) { c.PageSize = -1 }, "Config.PageSize is -1"},
		{func(c *Config[*corev1.Pod]) { c.WatchTimeout = time.Millisecond }, "Config.WatchTimeout is 1ms: use at least 1s"},
		{func(c *Config[*corev1.Pod]) { c.WatchTimeout = -time.Second }, "Config.WatchTimeout is -1s"},
		{func(c *Config[*corev1.Pod]) { c.IdleTimeout = -1 }, "Config.IdleTimeout is -1ns"},
		{func(c *Config[*corev1.Pod]) { c.Backoff.Min = 1 }, "Config.Backoff.Min is 1ns: use at least 10ms"},
		{func(c *Config[*corev1.Pod]) { c.Backoff = Backoff{time.Second, time.Millisecond} }, "Config.Backoff.Max is 1ms, below Backoff.Min"},
		{func(c *Config[*corev1.Pod]) { c.Backoff.Max = -1 }, "Config.Backoff.Min is -1ns"},
		{func(c *Config[*corev1.Pod]) { c.Objects = 9 }, "Config.Objects is 9: use ObjectsShared"},
		{func(c *Config[*corev1.Pod]) {
			c.Objects = ObjectsCompact
			c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		}, "Config.Transform cannot go with Objects: ObjectsCompact"},
	} {
		conf := Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}}
		c.change(&conf)
		r, err := New(conf)
		if r != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v, %v", c.want, r, err)
		}
	}
	_, err := New(Config[*corev1.Pod]{PageSize: -1, IdleTimeout: -1})
	if n := strings.Count(err.Error(), "Config."); n != 3 {
		t.Errorf("an error tells every fault at once, and not what follows from another one, got %d: %v", n, err)
	}
}

func TestExpectedKind(t *testing.T) {
	if k := (Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}}).withDefaults().Kind; k != "Pod" {
		t.Errorf("the kind of pods is %q", k)
	}
	// What the ListerWatcher says comes before what the type says, and after what the caller says.
	sure := Config[*unstructured.Unstructured]{ListerWatcher: widgets{}}
	if k := sure.withDefaults().Kind; k != "Widget" {
		t.Errorf("the kind is %q, the ListerWatcher says Widget", k)
	}
	sure.Kind = "Gadget"
	if k := sure.withDefaults().Kind; k != "Gadget" {
		t.Errorf("the kind is %q, Config says Gadget", k)
	}
	// The first object that comes is a Gadget: it does not say what the collection is of.
	sure.Kind = ""
	known, err := New(sure)
	if err != nil {
		t.Fatal(err)
	}
	if known.belongs(&decode.Meta{APIVersion: "v1", Kind: "Gadget", Name: "a"}) {
		t.Error("a Gadget belongs to the Widgets")
	}
	r, err := New(Config[*unstructured.Unstructured]{ListerWatcher: named[*unstructured.Unstructured]{}})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		m    decode.Meta
		want bool
	}{
		{decode.Meta{APIVersion: "v1", Kind: "Status", Name: "s"}, false}, // tells nothing
		{decode.Meta{APIVersion: "meta.k8s.io/v1", Kind: "Table", Name: "t"}, false},
		{decode.Meta{Kind: "Widget"}, false}, // no name
		{decode.Meta{Name: "item"}, true},    // items of lists need not say their kind
		{decode.Meta{APIVersion: "example.com/v1", Kind: "Widget", Name: "a"}, true},
		{decode.Meta{APIVersion: "v1", Kind: "Gadget", Name: "b"}, false},
		{decode.Meta{APIVersion: "example.com/v2", Kind: "Widget", Name: "c"}, true},
	} {
		if got := r.belongs(&c.m); got != c.want {
			t.Errorf("%d: %+v belongs: %v", i, c.m, got)
		}
	}
}

// widgets says what it lists.
type widgets struct {
	named[*unstructured.Unstructured]
}

func (widgets) Kind() string { return "Widget" }

func TestInitialSyncString(t *testing.T) {
	for i, want := range map[InitialSync]string{InitialAuto: "auto", InitialWatchList: "watchlist", InitialList: "list", 7: "InitialSync(7)"} {
		if i.String() != want {
			t.Errorf("%q, want %q", i, want)
		}
	}
}

func TestObjectsString(t *testing.T) {
	for i, want := range map[Objects]string{ObjectsShared: "shared", ObjectsPrivate: "private", ObjectsCompact: "compact", 7: "Objects(7)"} {
		if i.String() != want {
			t.Errorf("%q, want %q", i, want)
		}
	}
}
