package reflector

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

func namesBy[T any](s *Store[T], index, value string) string {
	var names []string
	for k := range s.By(index, value) {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestByLabelAndNamespace(t *testing.T) {
	s := NewStore(ByLabel[*metav1.PartialObjectMetadata]("app"), ByNamespace[*metav1.PartialObjectMetadata]())
	put := func(namespace, name, rv string, labels map[string]string) {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: rv, Labels: labels}}
		s.testUpsert(decode.Meta{Namespace: namespace, Name: name, UID: o.UID, ResourceVersion: rv}, o)
	}
	put("x", "a", "1", map[string]string{"app": "web"})
	put("x", "b", "2", map[string]string{"app": "web"})
	put("y", "c", "3", map[string]string{"app": ""})
	put("y", "d", "4", nil)
	put("x", "b", "5", map[string]string{"app": "db"})
	for _, tc := range []struct{ index, value, want string }{
		{"label:app", "web", "a"},
		{"label:app", "db", "b"},
		{"label:app", "", "c"},
		{"label:app", "nobody", ""},
		{"namespace", "x", "a b"},
		{"namespace", "y", "c d"},
	} {
		if got := namesBy(s, tc.index, tc.value); got != tc.want {
			t.Errorf("By(%q, %q): %q, want %q", tc.index, tc.value, got, tc.want)
		}
	}
}

func TestIndexFollowsTheVersions(t *testing.T) {
	s := NewStore(Index[*thing]{Name: "v", Values: func(o *thing) []string { return o.values }})
	step := func(text string, values ...string) {
		o := newThing(text)
		o.values = values
		s.testUpsert(o.meta(), o)
	}
	check := func(want string) {
		t.Helper()
		var got []string
		for _, v := range []string{"x", "y", "z"} {
			got = append(got, v+"="+namesBy(s, "v", v))
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("the index has %q, want %q", g, want)
		}
	}
	step("a/u1@1", "x", "y", "x")
	check("x=a y=a z=")
	step("a/u1@2", "y", "z")
	check("x= y=a z=a")
	step("b/u2@3", "z")
	check("x= y=a z=a b")
	for k, o := range s.By("v", "y") {
		if o.rv != "2" {
			t.Errorf("%v is found with version %s, want the newest", k, o.rv)
		}
	}
	step("a/u3@4", "x") // another object of the same name
	check("x=a y= z=b")

	// An object that somebody changed against the rules leaves the index
	// under the values that it came with.
	o, _ := s.Get("ns", "b")
	o.values = []string{"y"}
	removeThing(s, "b/u2@5")
	removeThing(s, "a/u3@6")
	check("x= y= z=")
	if n := s.byIndex[0].len(); n != 0 {
		t.Errorf("%d values without objects are left", n)
	}
}

// "It panics when the store has no index of that name."
func TestByUnknownIndexPanics(t *testing.T) {
	s := NewStore(ByLabel[*metav1.PartialObjectMetadata]("app"), ByNamespace[*metav1.PartialObjectMetadata]())
	want := `reflector: the store has no index "app"; it was made with ["label:app" "namespace"]`
	if got := panicOf(func() { s.By("app", "web") }); got != want {
		t.Errorf("panic %v, want %v", got, want)
	}
}
