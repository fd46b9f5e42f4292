package listwatchtest

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewatch-go/nodewatch/listwatch/shard"
)

// selection is what part of a collection a request is about.
type selection struct {
	prefix string // of keys: "/" or "/namespace/"
	name   string // "" is any
	labels labels.Selector
	fields fields.Selector
	shard  shard.Selector
}

func (s selection) matches(r *resource, key string, o Object) bool {
	return strings.HasPrefix(key, s.prefix) &&
		(s.name == "" || o.GetName() == s.name) &&
		(s.labels == nil || s.labels.Matches(labels.Set(o.GetLabels()))) &&
		(s.fields == nil || s.fields.Empty() || s.fields.Matches(r.fieldSet(o))) &&
		s.shard.Matches(o.GetUID(), o.GetNamespace())
}

// everything reports whether no selector narrows the collection further than
// its namespace does. Only then can the server count without looking.
func (s selection) everything() bool {
	return s.name == "" && s.shard.Empty() && (s.labels == nil || s.labels.Empty()) && (s.fields == nil || s.fields.Empty())
}
