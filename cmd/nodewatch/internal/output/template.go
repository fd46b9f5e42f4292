package output

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// templatePrinter renders through one of cli-runtime's printers: name, jsonpath, go-template.
type templatePrinter struct {
	printer     printers.ResourcePrinter
	watchEvents bool
}

func newTemplatePrinter(format string, watchEvents bool) (p Printer, err error) {
	if format == "name" {
		return &templatePrinter{printer: &printers.NamePrinter{ShortOutput: true}}, nil
	}
	defer recovered(&err)
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(format)
	if err != nil {
		return nil, err
	}
	return &templatePrinter{printer: printer, watchEvents: watchEvents}, nil
}

func (p *templatePrinter) Print(buf *bytes.Buffer, events []Event) error {
	return each(buf, events, func(ev Event) error {
		t, err := tree(ev, p.watchEvents)
		if err != nil {
			return err
		}
		if err := p.print(buf, t); err != nil {
			return fmt.Errorf("pod %s/%s: %w", ev.Pod.Namespace, ev.Pod.Name, err)
		}
		return nil
	})
}

// print cuts an error down to its first line: cli-runtime's template printers
// put the whole object after it.
func (p *templatePrinter) print(buf *bytes.Buffer, t map[string]any) (err error) {
	defer recovered(&err)
	if err := p.printer.PrintObj(&unstructured.Unstructured{Object: t}, buf); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return errors.New(first)
	}
	return nil
}

// recovered turns a panic into *err: the template languages of client-go check
// neither all they parse nor all they evaluate, and a template comes from the user.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the template cannot be used: %v", p)
	}
}

// tree returns the pod, or its event, as the maps and slices that templates walk.
func tree(ev Event, watchEvents bool) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed(ev.Pod))
	if err != nil {
		return nil, err
	}
	if !watchEvents {
		return object, nil
	}
	t := map[string]any{"type": string(ev.Type), "object": object}
	if ev.FinalStateUnknown {
		t["finalStateUnknown"] = true
	}
	return t, nil
}
