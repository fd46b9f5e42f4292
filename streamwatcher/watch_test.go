package streamwatcher

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// collect returns all events of a watch that ends.
func collect(w watch.Interface) (events []watch.Event) {
	for ev := range w.ResultChan() {
		events = append(events, ev)
	}
	return events
}

// A recorded watch through AsWatch is what client-go's decoder gives.
func TestAsWatchGivesWhatClientGoGives(t *testing.T) {
	for _, a := range watches(t) {
		t.Run(a.name, func(t *testing.T) {
			var want, have []got
			for _, g := range reference(t, a.contentType, a.plain(t)) {
				want = append(want, got{Type: g.Type, Object: g.Object, Status: g.Status})
			}
			for _, ev := range collect(AsWatch(open(t, a.config(strings.NewReader(string(a.body)))))) {
				g := got{Type: ev.Type}
				switch o := ev.Object.(type) {
				case *corev1.Pod:
					g.Object = o
				case *metav1.Status:
					g.Status = o
				default:
					t.Errorf("an event with a %T", o)
				}
				have = append(have, g)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("events differ (-client-go +ours):\n%s", diff)
			}
		})
	}
}

func TestAsWatchWords(t *testing.T) {
	text := strings.Join([]string{
		podJSON("a", 0),
		`{"type":"RENAMED","object":{"metadata":{"name":"x"}}}`,
		`{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"b","namespace":"n"},"spec":{"restartPolicy":7}}}`,
		`{"type":"ADDED","object":{"kind":"Status","code":500}}`,
		`{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"n1"}}}`,
		`{"type":"ADDED","object":{"kind":"Pod","metadata":{"namespace":"n"}}}`,
		`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"10"}}}`,
		`{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}`,
		podJSON("c", 0),
	}, "\n")
	events := collect(AsWatch(open(t, jsonConfig(text))))
	var lines []string
	for _, ev := range events {
		switch o := ev.Object.(type) {
		case *corev1.Pod:
			lines = append(lines, fmt.Sprintf("%s %s %s %v", ev.Type, o.Name, o.ResourceVersion, o.Annotations))
		case *metav1.Status:
			lines = append(lines, fmt.Sprintf("%s %d", ev.Type, o.Code))
		}
	}
	want := []string{"ADDED a 7 map[pad:]", "ERROR 500", "ERROR 500", "ERROR 500", "ERROR 500",
		"BOOKMARK  9 map[k8s.io/initial-events-end:true]", "BOOKMARK  10 map[]", "ERROR 410", "ADDED c 7 map[pad:]"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("events (-want +have):\n%s", diff)
	}
	if s := events[1].Object.(*metav1.Status); !strings.Contains(s.Message, "n/b") || !strings.Contains(s.Message, "restartPolicy") {
		t.Errorf("the undecodable object: %s", s.Message)
	}
	for i, want := range map[int]string{2: "a Status instead of a Pod", 3: "n1: a Node instead of a Pod", 4: "without a name"} {
		if s := events[i].Object.(*metav1.Status); !strings.Contains(s.Message, want) {
			t.Errorf("event %d: %s, want %q", i, s.Message, want)
		}
	}
}

func TestAsWatchUnstructuredBookmark(t *testing.T) {
	d, err := decode.New[*unstructured.Unstructured]()
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config[*unstructured.Unstructured]{ContentType: typeJSON, Decoder: d, Body: closer(strings.NewReader(
		`{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"x/v1","metadata":{"resourceVersion":"9"}}}`))})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"kind": "Widget", "apiVersion": "x/v1", "metadata": map[string]any{"resourceVersion": "9"}}
	events := collect(AsWatch(w))
	if len(events) != 1 || !reflect.DeepEqual(events[0].Object.(*unstructured.Unstructured).Object, want) {
		t.Errorf("got %v", events)
	}
}

// What the channel shows of the end: bytes that are no events, and nothing else.
func TestAsWatchEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     io.Reader
		fault string
	}{
		{"end", strings.NewReader(""), ""},
		{"cut", strings.NewReader(`{"type":`), ""},
		{"reset", iotest.ErrReader(fmt.Errorf("reset")), ""},
		{"cancelled", iotest.ErrReader(context.Canceled), ""},
		{"deadline", iotest.ErrReader(context.DeadlineExceeded), ""},
		{"html", strings.NewReader("<html>"), "<html>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := io.MultiReader(strings.NewReader(podJSON("p", 0)), c.r)
			events := collect(AsWatch(open(t, podConfig{Body: closer(r), ContentType: typeJSON})))
			want := 1
			if c.fault != "" {
				want = 2
			}
			if len(events) != want {
				t.Fatalf("got %v", events)
			}
			if want == 2 {
				s, ok := events[1].Object.(*metav1.Status)
				if events[1].Type != watch.Error || !ok || s.Code != 500 || !strings.Contains(s.Message, c.fault) {
					t.Errorf("got %v", events[1])
				}
			}
		})
	}
}

// M1: 100 events, the consumer reads one, stops and receives no more; Stop twice,
// Stop against the end. goleak (TestMain) says that nothing is left.
func TestAsWatchStopLeaksNothing(t *testing.T) {
	text := strings.Repeat(podJSON("p", 0)+"\n", 100)
	d := podDecoder(t)
	for round := range 1000 {
		s, err := New(podConfig{Body: closer(strings.NewReader(text)), ContentType: typeJSON, Decoder: d})
		if err != nil {
			t.Fatal(err)
		}
		w := AsWatch(s)
		if ev := <-w.ResultChan(); ev.Type != watch.Added {
			t.Fatalf("got %v", ev)
		}
		switch round % 3 {
		case 0:
			w.Stop()
			w.Stop()
		case 1:
			go w.Stop()
			w.Stop()
		case 2: // against the end
			go w.Stop()
			for range w.ResultChan() { // it closes
			}
		}
	}
}

func TestAsWatchStopWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := pipe(t, podConfig{})
		w.SetIdleTimeout(time.Hour)
		a := AsWatch(w)
		go write(server, podJSON("p", 0))
		<-a.ResultChan()
		synctest.Wait() // it waits for bytes
		a.Stop()
		if ev, ok := <-a.ResultChan(); ok {
			t.Errorf("got %v after Stop", ev)
		}
	})
}
