package output

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is one change of a pod.
type Event struct {
	Type watch.EventType // Added, Modified or Deleted
	// Pod is shared and only read.
	Pod *corev1.Pod
	// FinalStateUnknown says of a delete that it was found by a relist: the
	// pod is the last state that was seen, not the one it was deleted in.
	FinalStateUnknown bool
}

// A Printer renders events. It is for one goroutine.
type Printer interface {
	// Print appends the rendering of events to buf. After an error buf holds
	// the events before the one that failed.
	Print(buf *bytes.Buffer, events []Event) error
}

// Options says how events are rendered.
type Options struct {
	// Format is the value of -o: one of Formats, or NAME=ARGUMENT.
	Format string
	// WatchEvents wraps each object in its event: {"type":…,"object":…}. A
	// table ignores it, and a name has no place for it.
	WatchEvents bool
	// EventColumn and NamespaceColumn are for the table and wide formats.
	EventColumn, NamespaceColumn bool
	// Now is the time to which the ages of a table count. Default: time.Now.
	Now func() time.Time
}

// Formats returns the values of -o without their arguments, the default first.
func Formats() []string {
	return []string{"table", "wide", "json", "yaml", "name", "jsonpath", "jsonpath-file", "jsonpath-as-json",
		"custom-columns", "custom-columns-file", "go-template", "go-template-file"}
}

// New returns the printer for o.Format. The error says which formats there are
// or what is wrong with the argument of this one.
func New(o Options) (Printer, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	name, arg, hasArg := strings.Cut(o.Format, "=")
	if !slices.Contains(Formats(), name) {
		return nil, fmt.Errorf("unknown output format %q, use one of: %s", o.Format, strings.Join(Formats(), ", "))
	}
	switch name {
	case "table", "wide", "json", "yaml", "name":
		if hasArg {
			return nil, fmt.Errorf("the output format %s takes no argument, but has %q", name, arg)
		}
	default:
		if arg == "" {
			return nil, fmt.Errorf("the output format %s needs an argument, as in -o %s=ARGUMENT", name, name)
		}
	}
	switch name {
	case "table", "wide":
		return newTable(o, name == "wide"), nil
	case "json":
		return jsonPrinter{watchEvents: o.WatchEvents}, nil
	case "yaml":
		return &yamlPrinter{watchEvents: o.WatchEvents}, nil
	case "custom-columns", "custom-columns-file":
		return newCustomColumns(name, arg, o.WatchEvents)
	default:
		return newTemplatePrinter(o.Format, o.WatchEvents)
	}
}

// errNoPod is for a caller that hands over an event without an object.
var errNoPod = errors.New("an event without a pod")

// each renders the events one after another and takes back what a failed one left.
func each(buf *bytes.Buffer, events []Event, render func(Event) error) error {
	for _, ev := range events {
		start := buf.Len()
		err := errNoPod
		if ev.Pod != nil {
			err = render(ev)
		}
		if err != nil {
			buf.Truncate(start)
			return err
		}
	}
	return nil
}
