package streamwatcher

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// AsWatch serves a stream as apimachinery's watch.Interface, for consumers that
// are written for client-go's. It starts one goroutine, which takes over w:
// nobody else may call Next. Both end when the stream ends or Stop is called,
// whether or not somebody receives; Stop may be called at any time, more than once.
//
// The events are those that client-go's StreamWatcher would give:
//
//   - ERROR has a *metav1.Status.
//   - BOOKMARK has a new T of which only the resourceVersion, and the annotation that
//     ends initial events, are set.
//   - An object that does not decode, has no name, or is of another kind than T,
//     becomes a watch.Error whose Status says why; the stream goes on behind it.
//   - Bytes that are not events are a watch.Error too, then the channel closes.
//   - A stream that was cut (Transport, Idle, Deadline) closes the channel
//     without an event, as a clean end does: a consumer then watches on from the
//     last resourceVersion, where after a watch.Error client-go's informers list again.
//   - Types that watch.Interface has no word for are left out.
func AsWatch[T runtime.Object](w *StreamWatcher[T]) watch.Interface {
	a := &adapter[T]{
		w: w,
		// Without a buffer, as client-go's: what was received is what was handled.
		events: make(chan watch.Event),
		done:   make(chan struct{}),
	}
	go a.run()
	return a
}

type adapter[T runtime.Object] struct {
	w        *StreamWatcher[T]
	events   chan watch.Event
	done     chan struct{}
	stopOnce sync.Once
}

// ResultChan implements watch.Interface.
func (a *adapter[T]) ResultChan() <-chan watch.Event { return a.events }

// Stop implements watch.Interface. It does not wait for the goroutine.
func (a *adapter[T]) Stop() {
	a.stopOnce.Do(func() {
		close(a.done) // a send that waits gives up
		a.w.Stop()    // a read that waits gives up
	})
}

func (a *adapter[T]) run() {
	defer close(a.events)
	defer a.Stop()
	for {
		ev, err := a.w.Next()
		if err != nil {
			if err != io.EOF && reasonOf(err) == reason.Decode {
				a.send(errorEvent(err))
			}
			return
		}
		if out, ok := a.convert(ev); ok && !a.send(out) {
			return
		}
	}
}

// send hands one event on; it is false when nobody wants one any more.
func (a *adapter[T]) send(ev watch.Event) bool {
	select {
	case a.events <- ev:
		return true
	case <-a.done:
		return false
	}
}

func (a *adapter[T]) convert(ev *Event[T]) (out watch.Event, ok bool) {
	switch ev.Type {
	case watch.Error:
		return watch.Event{Type: watch.Error, Object: ev.Status}, true
	case watch.Bookmark:
		obj, err := bookmark[T](ev.Object.Meta)
		if err != nil {
			return errorEvent(err), true
		}
		return watch.Event{Type: watch.Bookmark, Object: obj}, true
	case watch.Added, watch.Modified, watch.Deleted:
		m := &ev.Object.Meta
		if want := decode.KindOf[T](); m.Kind != "" && want != "" && m.Kind != want {
			return errorEvent(fmt.Errorf("%s event of %s: a %s instead of a %s", ev.Type, m.Key(), m.Kind, want)), true
		}
		obj, err := ev.Object.Decode()
		if errors.Is(err, decode.ErrLine) {
			return watch.Event{}, false // it comes again, or the stream ends and says why
		}
		if err == nil && m.Name == "" {
			err = errors.New("an object without a name")
		}
		if err != nil {
			return errorEvent(fmt.Errorf("%s event of %s: %w", ev.Type, m.Key(), err)), true
		}
		return watch.Event{Type: ev.Type, Object: obj}, true
	}
	return watch.Event{}, false
}

// bookmark makes an object that has nothing but what a bookmark says.
func bookmark[T runtime.Object](m decode.Meta) (runtime.Object, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("a bookmark cannot be made as a %v", t)
	}
	obj := reflect.New(t.Elem()).Interface().(runtime.Object)
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strings.Clone(m.ResourceVersion)) // Meta is the reader's
	if m.InitialEventsEnd {
		accessor.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if _, ok := obj.(runtime.Unstructured); ok {
		obj.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(strings.Clone(m.APIVersion), strings.Clone(m.Kind)))
	}
	return obj, nil
}

// reporter puts errors where watch.Interface has its place for one, as client-go does.
var reporter = apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")

func errorEvent(err error) watch.Event {
	return watch.Event{Type: watch.Error, Object: reporter.AsObject(err)}
}

var _ watch.Interface = (*adapter[*metav1.PartialObjectMetadata])(nil)
