package shared

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewatch-go/nodewatch/listwatch/shard"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func labelled(t testing.TB, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fielded(t testing.TB, text string) fields.Selector {
	t.Helper()
	s, err := fields.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSameCollection: scopes that select the same in other words are one.
func TestSameCollection(t *testing.T) {
	for _, same := range [][]Scope{
		{{}, {LabelSelector: labels.Everything()}, {FieldSelector: fields.Everything()}, {LabelSelector: labels.NewSelector()},
			{Shard: shard.Shard{Count: 1}}, {Shard: shard.Shard{By: shard.Namespace}}, {FieldSelector: fields.AndSelectors()}},
		{{LabelSelector: labelled(t, "app=web")}, {LabelSelector: labelled(t, "app==web")}, {LabelSelector: labelled(t, "app in (web)")},
			{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"})}, {LabelSelector: labelled(t, "app=web,app=web,app in (web,web)")}},
		{{LabelSelector: labelled(t, "app!=web")}, {LabelSelector: labelled(t, "app notin (web)")}},
		{{LabelSelector: labelled(t, "app in (web,db),tier")}, {LabelSelector: labelled(t, "tier,app in (db,web,db)")}},
		{{LabelSelector: labelled(t, "app!=a,app!=b,app!=c")}, {LabelSelector: labelled(t, "app!=c,app!=a,app notin (b)")}},
		{{FieldSelector: fielded(t, "spec.nodeName=a,status.phase!=Failed")}, {FieldSelector: fielded(t, "status.phase!=Failed,spec.nodeName==a")},
			{FieldSelector: fielded(t, "spec.nodeName=a,status.phase!=Failed,spec.nodeName=a")}},
	} {
		for _, s := range same {
			s.Resource, same[0].Resource = pods, pods
			n := s.normal()
			if n.key() != same[0].normal().key() {
				t.Errorf("%s and %s are not the same: %+v", s, same[0], n.key())
			}
			if again := n.normal(); again.key() != n.key() {
				t.Errorf("%s is not normal, %s is", n, again)
			}
		}
	}
}

func TestOtherCollections(t *testing.T) {
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	scopes := []Scope{
		{}, {Namespace: "default"}, {Resource: nodes},
		{LabelSelector: labelled(t, "app=web")}, {LabelSelector: labelled(t, "app!=web")}, {LabelSelector: labelled(t, "app")},
		{LabelSelector: labelled(t, "app in (web,db)")}, {LabelSelector: labelled(t, "app=web,app=db")}, {LabelSelector: labelled(t, "n>1")},
		{FieldSelector: fielded(t, "spec.nodeName=a")}, {FieldSelector: fielded(t, "spec.nodeName!=a")}, {FieldSelector: fielded(t, "spec.nodeName=")},
		{Shard: shard.Shard{Index: 0, Count: 2}}, {Shard: shard.Shard{Index: 1, Count: 2}}, {Shard: shard.Shard{Index: 0, Count: 2, By: shard.Namespace}},
		{Shard: shard.Shard{Index: 1, Count: 1}}, // refused later
	}
	names := map[string]int{}
	for i, a := range scopes {
		names[a.normal().String()]++
		for j, b := range scopes {
			if i != j && a.normal().key() == b.normal().key() {
				t.Errorf("%v and %v are one", a, b)
			}
		}
	}
	if len(names) < len(scopes)-1 { // the one that is refused is called as what it would be
		t.Errorf("%d names for %d collections: %v", len(names), len(scopes), names)
	}
	s := Scope{Resource: pods, Namespace: "default", LabelSelector: labelled(t, "app=web"), FieldSelector: fielded(t, "spec.nodeName=a"),
		Shard: shard.Shard{Index: 1, Count: 3}}
	if got := s.String(); got != "pods of default, app=web, spec.nodeName=a, 2 of 3" {
		t.Errorf("String is %q", got)
	}
}

// FuzzNormal: a normal selector matches what the one that it was made of matches.
func FuzzNormal(f *testing.F) {
	f.Add("app in (web,db),tier,app!=x", "app", "web", "tier", "x")
	f.Add("a==b,c notin (d),e", "a", "b", "e", "")
	f.Add("n>1,n<5,!x", "n", "3", "y", "")
	f.Fuzz(func(t *testing.T, text, k1, v1, k2, v2 string) {
		s, err := labels.Parse(text)
		if err != nil {
			return
		}
		n := normalLabels(s)
		for _, set := range []labels.Set{{}, {k1: v1}, {k2: v2}, {k1: v1, k2: v2}} {
			if want, got := s.Matches(set), n == nil || n.Matches(set); want != got {
				t.Errorf("%q matches %v: %t, normal %v: %t", text, set, want, n, got)
			}
		}
		if n == nil {
			return
		}
		again, err := labels.Parse(n.String())
		if err != nil || normalLabels(again).String() != n.String() {
			t.Errorf("%q is %q, and that %v (%v)", text, n, again, err)
		}
	})
}
