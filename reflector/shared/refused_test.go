package shared

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// A scope without a resource has no name to stand in the error.
func TestEmptyScope(t *testing.T) {
	p := newPool(t, Config[*corev1.Pod]{REST: &rest.Config{Host: "localhost"}})
	defer p.Close()
	_, err := p.Acquire(t.Context(), Scope{})
	if err == nil || !strings.HasPrefix(err.Error(), "shared: ") || strings.HasPrefix(err.Error(), "shared: :") || !strings.Contains(err.Error(), "Resource") {
		t.Errorf("the error is %v, want one that says that Resource is missing", err)
	}
}

// TestFailedConstruction: "A failed construction is an error of who asked, and is
// tried anew by the next one."
func TestFailedConstruction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		broken := true
		p := newPool(t, Config[*corev1.Pod]{REST: config,
			ListWatch: func(c *listwatch.Config) {
				if broken {
					c.DialTimeout = -1
				}
			},
			Reflector: func(c *reflector.Config[*corev1.Pod]) { c.Name = "named" },
		})
		scope := Scope{Resource: pods, Namespace: "default", LabelSelector: labelled(t, "app=web")}
		for range 2 {
			if _, err := p.Acquire(t.Context(), scope); err == nil || !strings.Contains(err.Error(), "pods of default, app=web: listwatch.Config: DialTimeout") {
				t.Errorf("error is %v", err)
			}
		}
		other := Scope{Resource: pods, Shard: shard.Shard{Index: 2, Count: 2}}
		if _, err := p.Acquire(t.Context(), other); err == nil || p.Len() != 0 {
			t.Errorf("error is %v, %d reflectors", err, p.Len())
		}
		broken = false
		l, err := p.Acquire(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := l.WaitForSync(t.Context()); err != nil || l.Store().Len() != 1 || l.Status().Name != "named" {
			t.Errorf("%v, %d pods, %+v", err, l.Store().Len(), l.Status())
		}
	})
}

// TestSharedStoreIsRefused: "One whose reflector cannot run ends with the error of that." A Store that two
// collections would fill is found out when the second one runs, and nobody is told of the first one's objects there.
func TestSharedStoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		store := reflector.NewStore[*corev1.Pod]()
		p := newPool(t, Config[*corev1.Pod]{REST: config, Reflector: func(c *reflector.Config[*corev1.Pod]) { c.Store = store }})
		first := acquire(t, p, Scope{})
		defer first.Close()
		synctest.Wait() // it has the Store
		const why = "filled by another reflector"
		for range 50 { // at whatever point of its failure it is asked
			second := acquire(t, p, Scope{Namespace: "default"})
			if err := second.WaitForSync(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
				t.Fatalf("WaitForSync: %v", err)
			}
			if err := second.Handle(t.Context(), reflector.Handler[*corev1.Pod]{}); err == nil || !strings.Contains(err.Error(), why) {
				t.Fatalf("Handle: %v", err)
			}
			for ev := range second.Events(t.Context()) {
				t.Fatalf("an event of another collection: %v %s", ev.Type, ev.Key)
			}
			if second.ctx.Err() == nil {
				t.Fatal("the lease goes on")
			}
		}
		if p.Len() != 1 || first.Status().State != reflector.StateWatching {
			t.Errorf("%d reflectors, the first one is %s", p.Len(), first.Status().State)
		}
	})
}

// What selects nothing has the text of what selects everything. It is refused, and gets no part in that.
func TestNothingIsNotEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		p := newPool(t, Config[*corev1.Pod]{REST: config})
		acquire(t, p, Scope{})
		for says, s := range map[string]Scope{
			"LabelSelector selects nothing": {Resource: pods, LabelSelector: labels.Nothing()},
			"FieldSelector selects nothing": {Resource: pods, FieldSelector: fields.Nothing()},
		} {
			if _, err := p.Acquire(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error is %v, want %q", err, says)
			}
		}
	})
}

func TestConfigRefuses(t *testing.T) {
	for says, c := range map[string]Config[*corev1.Pod]{
		"Config.REST is nil":   {},
		"Config.Linger is -1s": {REST: &rest.Config{Host: "localhost"}, Linger: -time.Second},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want %q", err, says)
		}
	}
}
