package metrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// TestUnion: a union shows its subscribers and whether it is complete, and nothing that its members count.
func TestUnion(t *testing.T) {
	member, union := fullSource(), fullSource()
	member.status.Name, union.status.Name = "node-a", "all"
	union.status.Members = []reflector.Member{{Key: "node-a", Status: member.status}}
	empty := fullSource()
	empty.status.Name, empty.status.Members = "none", []reflector.Member{}
	c := newCollector(&fakeRegistry{sources: []reflector.Source{member, union, empty}})
	for _, f := range families {
		want := 1
		if slices.Contains(ofUnions, f.name) {
			want = 3
		}
		one := newCollector(&fakeRegistry{sources: []reflector.Source{member}})
		if got, each := testutil.CollectAndCount(c, f.name), testutil.CollectAndCount(one, f.name); got != want*each || each == 0 {
			t.Errorf("%s has %d series for a reflector and two unions, and %d for a reflector; want %d times as many", f.name, got, each, want)
		}
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
		# HELP nodewatch_store_objects Objects in the store.
		# TYPE nodewatch_store_objects gauge
		nodewatch_store_objects{reflector="node-a",resource="pods"} 17
	`), "nodewatch_store_objects"); err != nil {
		t.Error(err)
	}
	for _, name := range ofUnions {
		if !slices.ContainsFunc(families, func(f family) bool { return f.name == name }) {
			t.Errorf("there is no metric %s", name)
		}
	}
}
