package listwatchtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Create stores a copy of obj, with its status, and sets obj to what is stored:
// uid, creationTimestamp, resourceVersion and a few defaults are filled in; a
// uid and a creationTimestamp that are set already are kept. The errors of all
// methods here are API status errors, as a client gets them, except when the
// server does not serve obj's kind.
func (s *Server) Create(obj Object) error {
	return s.write(obj, func(c *collection) (Object, error) { return s.writer.create(c, obj, whole, false) })
}

// Update replaces the object of that name, its status too, and sets obj to what
// is stored. A resourceVersion in obj must be the stored one; none is no check.
func (s *Server) Update(obj Object) error { return s.update(obj, whole) }

// UpdateStatus replaces all but the spec of the object of that name, as a write
// to the status subresource does (of a custom resource the status alone), and
// sets obj to what is stored.
func (s *Server) UpdateStatus(obj Object) error { return s.update(obj, statusOnly) }

func (s *Server) update(obj Object, sub subresource) error {
	return s.write(obj, func(c *collection) (Object, error) {
		return s.writer.update(c, obj.GetNamespace(), obj.GetName(), sub, false, func(Object) (Object, error) { return deepCopy(obj), nil })
	})
}

// Delete removes the object of obj's namespace and name at once, finalizers or
// not: watchers see one DELETED.
func (s *Server) Delete(obj Object) error {
	return s.write(obj, func(c *collection) (Object, error) {
		gone, _, err := s.writer.remove(c, obj.GetNamespace(), obj.GetName(), deletion{atOnce: true})
		return gone, err
	})
}

// DeleteGracefully does what an API client's delete does. A pod is marked with a
// deletionTimestamp, which watchers see as MODIFIED. It stays when a node has it,
// it has not ended and the grace period is not 0, for a delete by its kubelet to
// follow (see Config.FinishAfter); else its DELETED comes at once. Of other kinds
// only those with finalizers are marked. seconds below 0 means the pod's own
// grace period.
func (s *Server) DeleteGracefully(obj Object, seconds int64) error {
	return s.write(obj, func(c *collection) (Object, error) {
		d := deletion{}
		if seconds >= 0 {
			d.grace = &seconds
		}
		last, _, err := s.writer.remove(c, obj.GetNamespace(), obj.GetName(), d)
		return last, err
	})
}

// Get sets obj to the stored object of its namespace and name.
func (s *Server) Get(obj Object) error {
	return s.write(obj, func(c *collection) (Object, error) {
		return s.writer.get(c, obj.GetNamespace(), obj.GetName())
	})
}

// Snapshot returns copies of all objects of a resource, in the order in which a
// list has them, and the version at which they are so. It is empty for a
// resource that is not served.
func (s *Server) Snapshot(gvr schema.GroupVersionResource) ([]Object, uint64) {
	c := s.writer.collection(gvr)
	if c == nil {
		return nil, s.writer.currentRV()
	}
	s.writer.mu.Lock()
	entries, rv := c.stateLocked(s.writer.rv), s.writer.rv
	s.writer.mu.Unlock()
	objects := make([]Object, len(entries))
	for i, e := range entries {
		objects[i] = deepCopy(e.object)
	}
	return objects, rv
}

// write finds obj's collection, does what f does and sets obj to its result.
func (s *Server) write(obj Object, f func(*collection) (Object, error)) error {
	c, err := s.collectionFor(obj)
	if err != nil {
		return err
	}
	stored, err := f(c)
	if err != nil {
		return err
	}
	assign(obj, stored)
	return nil
}

// collectionFor finds the collection of obj's kind.
func (s *Server) collectionFor(obj Object) (*collection, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if kinds, _, err := s.config.Scheme.ObjectKinds(obj); err == nil && len(kinds) > 0 {
		gvk = kinds[0]
	}
	for _, c := range s.writer.all() {
		if c.gvk() == gvk {
			return c, nil
		}
	}
	return nil, fmt.Errorf("listwatchtest: no resource of kind %s (%T) is served: add it to Config.Resources, and its type to Config.Scheme", gvk, obj)
}
