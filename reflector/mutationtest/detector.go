package mutationtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Object is what a Detector can watch: something that can be copied and has a key.
type Object interface {
	runtime.Object
	GetNamespace() string
	GetName() string
}

// Mutation is a write to an object of a store.
type Mutation struct {
	Key             decode.Key
	ResourceVersion string
	// Path is the first field that differs, by the names of JSON: "metadata.labels[app]".
	Path string
	// Was and Is are the values there, shortened.
	Was, Is string
}

// String returns the mutation in one line.
func (m Mutation) String() string {
	return fmt.Sprintf("%s at resourceVersion %s: %s was %s and is %s", m.Key, m.ResourceVersion, m.Path, m.Was, m.Is)
}

// Detector knows what the objects of one reflector were when they were stored. Its methods are safe from
// any goroutine, but they read the objects: whoever writes to one at that time is a data race.
type Detector[T Object] struct {
	mu     sync.Mutex
	copies map[decode.Key]pair[T]
	found  []Mutation
}

// pair is a stored object and what it was.
type pair[T Object] struct{ obj, was T }

// Watch has the reflector that will be made of c watched, and fails t for each write: when Run has ended, or when
// the test ends if it has not. It sets Accept and OnStop of c, and calls those that are set.
func Watch[T Object](t testing.TB, c *reflector.Config[T]) *Detector[T] {
	t.Helper()
	d := New(c)
	t.Cleanup(func() {
		for _, m := range d.Check() {
			t.Errorf("somebody wrote to an object of the store: %v", m)
		}
	})
	return d
}

// New is Watch for who wants to look at the mutations himself.
func New[T Object](c *reflector.Config[T]) *Detector[T] {
	d := &Detector[T]{copies: make(map[decode.Key]pair[T])}
	accept, stop := c.Accept, c.OnStop
	c.Accept = func(obj T) bool {
		if accept != nil && !accept(obj) {
			return false
		}
		d.stored(obj)
		return true
	}
	c.OnStop = func() {
		d.Check()
		if stop != nil {
			stop()
		}
	}
	return d
}

// Check compares all objects now, and returns all mutations that were found so far. One that was told is
// told again only where the object was written to since.
func (d *Detector[T]) Check() []Mutation {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, p := range d.copies {
		if d.compare(k, p) {
			p.was = p.obj.DeepCopyObject().(T)
			d.copies[k] = p
		}
	}
	slices.SortFunc(d.found, func(a, b Mutation) int { return strings.Compare(a.String(), b.String()) })
	return slices.Clone(d.found)
}

// stored notes a version that is stored in place of the one before.
func (d *Detector[T]) stored(obj T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := decode.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if before, ok := d.copies[k]; ok {
		d.compare(k, before)
	}
	d.copies[k] = pair[T]{obj, obj.DeepCopyObject().(T)}
}

// compare reports whether an object was written to.
func (d *Detector[T]) compare(k decode.Key, p pair[T]) bool {
	found, ok := difference(reflect.ValueOf(p.was), reflect.ValueOf(p.obj))
	if ok {
		found.Key = k
		if o, named := any(p.was).(interface{ GetResourceVersion() string }); named {
			found.ResourceVersion = o.GetResourceVersion()
		}
		d.found = append(d.found, found)
	}
	return ok
}
