package reflector

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Select ranges over the objects of a namespace ("" is all of them) whose labels match the selector (nil is all), in
// no particular order, as All does: a snapshot of pointers, no lock in the body. Each call
// looks at every object; what is asked for often is better found by an index. An object that
// has no labels matches what labels.Set{} does.
func (s *Store[T]) Select(namespace string, selector labels.Selector) iter.Seq2[decode.Key, T] {
	return func(yield func(decode.Key, T) bool) {
		s.mu.RLock()
		snapshot := s.objects.entries()
		s.mu.RUnlock()
		for _, e := range snapshot {
			if namespace != "" && e.key.Namespace != namespace {
				continue
			}
			obj := e.object(e.key)
			if selector != nil {
				var of labels.Set
				if named, ok := accessor(obj); ok {
					of = named.GetLabels()
				}
				if !selector.Matches(of) {
					continue
				}
			}
			if !yield(e.key, obj) {
				return
			}
		}
	}
}
