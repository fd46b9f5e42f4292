package codec

import (
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Programs of one type that leave out the same have one plan, whatever else differs; others have not.
func TestPlansAreShared(t *testing.T) {
	type slim struct {
		Spec struct{ NodeName string } `json:"spec"`
	}
	pod, like := reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Pod]()
	drop := []string{"metadata.managedFields", "spec.volumes"}
	one := mustCompile(t, pod, Config{Drop: drop}).plan
	for what, c := range map[string]Config{
		"drop in another order": {Drop: []string{drop[1], drop[0], drop[1]}},
		"tables":                {Drop: drop, Share: 100, Intern: 7},
	} {
		if mustCompile(t, pod, c).plan != one {
			t.Errorf("%s: a plan of its own", what)
		}
	}
	plain, small := mustCompile(t, pod, Config{}).plan, mustCompile(t, reflect.TypeFor[slim](), Config{}).plan
	plans := map[*plan]string{one: "drop", plain: "pod", small: "slim"}
	for what, p := range map[string]*plan{
		"other fields": mustCompile(t, pod, Config{Drop: drop[:1]}).plan,
		"a key":        mustCompile(t, pod, Config{Drop: []string{"metadata.annotations[a]"}}).plan,
		"another key":  mustCompile(t, pod, Config{Drop: []string{"metadata.annotations[b]"}}).plan,
		"like":         mustCompile(t, reflect.TypeFor[slim](), Config{Like: like}).plan,
		"type meta":    mustCompile(t, pod, Config{EmptyTypeMeta: true}).plan,
	} {
		if as, ok := plans[p]; ok {
			t.Errorf("%s: the same plan as %s", what, as)
		}
		plans[p] = what
	}
	if len(plans) != 8 {
		t.Errorf("%d plans: %v", len(plans), plans)
	}
}

// Goroutines that compile what nobody has compiled at the same time have one plan.
func TestPlanOfGoroutines(t *testing.T) {
	got := make([]*plan, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			p, err := Compile(reflect.TypeFor[corev1.Pod](), Config{Drop: []string{"spec.hostname", "spec.subdomain"}})
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = p.plan
		})
	}
	wg.Wait()
	for _, p := range got {
		if p == nil || p != got[0] {
			t.Fatalf("several plans: %v", got)
		}
	}
}
