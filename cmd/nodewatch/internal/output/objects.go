package output

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// typed returns a copy of pod that says what it is: objects of a list, and
// objects in protobuf, come without kind and apiVersion. The copy is shallow.
func typed(pod *corev1.Pod) *corev1.Pod {
	p := *pod
	p.APIVersion, p.Kind = "v1", "Pod"
	return &p
}

// watchEvent is the wrapping of --output-watch-events.
type watchEvent struct {
	Type              string      `json:"type"`
	Object            *corev1.Pod `json:"object"`
	FinalStateUnknown bool        `json:"finalStateUnknown,omitempty"`
}

// value returns what is to be written for an event: the pod or the wrapped event.
func value(ev Event, watchEvents bool) any {
	pod := typed(ev.Pod)
	if !watchEvents {
		return pod
	}
	return watchEvent{Type: string(ev.Type), Object: pod, FinalStateUnknown: ev.FinalStateUnknown}
}

// jsonPrinter writes one compact object a line. cli-runtime's JSON printer
// indents, so that a reader of lines cannot use it.
type jsonPrinter struct{ watchEvents bool }

func (p jsonPrinter) Print(buf *bytes.Buffer, events []Event) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return each(buf, events, func(ev Event) error { return enc.Encode(value(ev, p.watchEvents)) })
}

// yamlPrinter writes documents with a line "---" between them. cli-runtime's
// YAML printer refuses an event around an object.
type yamlPrinter struct {
	watchEvents bool
	printed     int
}

func (p *yamlPrinter) Print(buf *bytes.Buffer, events []Event) error {
	return each(buf, events, func(ev Event) error {
		doc, err := yaml.Marshal(value(ev, p.watchEvents))
		if err != nil {
			return err
		}
		if p.printed > 0 {
			buf.WriteString("---\n")
		}
		buf.Write(doc)
		p.printed++
		return nil
	})
}
