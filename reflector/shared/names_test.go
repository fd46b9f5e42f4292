package shared

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

// gathered returns the names that series of the registry have, sorted, and how many series there are.
func gathered(t *testing.T, prom *prometheus.Registry) (names []string, series int) {
	t.Helper()
	families, err := prom.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series++
			for _, l := range m.GetLabel() {
				if l.GetName() == "reflector" {
					names = append(names, l.GetValue())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), series
}

// "Each reflector has a name that tells its collection, unless Config.Reflector gives it another one", and what it has in
// metrics goes with it.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config, _ := serve(t, 3)
		registry := new(reflector.Registry)
		prom := prometheus.NewRegistry()
		if err := metrics.Register(prom, registry); err != nil {
			t.Fatal(err)
		}
		p := newPool(t, Config[*corev1.Pod]{REST: config, Registry: registry, Reflector: func(c *reflector.Config[*corev1.Pod]) {
			if c.Name == "pods of own" {
				c.Name = "my own"
			}
		}})
		_, before := gathered(t, prom)
		scopes := []Scope{{}, {Namespace: "default"}, {Namespace: "own"}, {LabelSelector: labelled(t, "app in (web)")}, {Namespace: "default", FieldSelector: fielded(t, "spec.nodeName=a")}}
		want := []string{"pods", "pods of default", "my own", "pods, app=web", "pods of default, spec.nodeName=a"}
		var leases []*Lease[*corev1.Pod]
		for i, s := range scopes {
			l := acquire(t, p, s)
			leases = append(leases, l)
			if got := l.Status().Name; got != want[i] {
				t.Errorf("%s has the name %q, want %q", l.of.key.namespace, got, want[i])
			}
		}
		synctest.Wait()
		slices.Sort(want)
		if got, _ := gathered(t, prom); !slices.Equal(got, want) {
			t.Errorf("metrics have %q, want %q", got, want)
		}
		for _, l := range leases {
			l.Close()
		}
		synctest.Wait()
		if got, series := gathered(t, prom); len(got) > 0 || series != before {
			t.Errorf("metrics have %q and %d series after the end, and had %d before", got, series, before)
		}
	})
}

// A name is short, and tells collections apart all the same.
func TestLongNames(t *testing.T) {
	seen := map[string]bool{}
	for i := range 100 {
		values := make([]string, 500)
		for j := range values {
			values[j] = fmt.Sprint("v", j)
		}
		values[499] = fmt.Sprint("w", i)
		s := Scope{Resource: pods, LabelSelector: labelled(t, "app in ("+strings.Join(values, ",")+")")}.normal()
		name := s.name()
		if len(name) > maxName || !strings.HasPrefix(name, "pods, app in (v0,v1,v10,") || seen[name] || name != s.name() {
			t.Fatalf("the name is %q", name)
		}
		seen[name] = true
	}
	// Just as long as may be, one more, and each place of a letter of several bytes at the cut.
	for i := range 4 {
		s := Scope{Resource: pods, Namespace: strings.Repeat("n", maxName-len("pods of ")+i)}
		if name := s.name(); len(name) != maxName || (i == 0) != (name == s.String()) {
			t.Errorf("%d more bytes: %q", i, name)
		}
		s = Scope{Resource: pods, FieldSelector: fields.OneTermEqualSelector("metadata.name", strings.Repeat("x", i)+strings.Repeat("🙂", maxName))}
		if name := s.name(); len(name) > maxName || len(name) < maxName-3 || !utf8.ValidString(name) {
			t.Errorf("after %d letters: %q", i, name)
		}
	}
}
