package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
)

// printList writes what the stores hold, in the order of a list from the
// server: by namespace, then name.
func (p *podWatch) printList() error {
	var events []output.Event
	for _, pod := range p.collection.Store().All() {
		events = append(events, output.Event{Type: watch.Added, Pod: pod})
	}
	if len(events) == 0 {
		p.log.Warn("no pods found", p.scope()...)
		return nil
	}
	slices.SortFunc(events, func(a, b output.Event) int {
		return cmp.Or(strings.Compare(a.Pod.Namespace, b.Pod.Namespace), strings.Compare(a.Pod.Name, b.Pod.Name))
	})
	if slices.Contains([]string{"table", "wide"}, p.options.format) {
		return p.write(events) // aligned as one; rows are small
	}
	for some := range slices.Chunk(events, maxBatch) {
		if err := p.write(some); err != nil {
			return err
		}
	}
	return nil
}

// scope is what was asked for, as attributes of a log line.
func (p *podWatch) scope() []any {
	o := p.options
	nodes := strings.Join(o.nodes, ",")
	if o.allNodes {
		nodes = "all"
	}
	// What is empty is not printed.
	return []any{"node", nodes, "namespace", o.namespace, "selector", o.labelSelector, "fieldSelector", o.fieldSelector}
}

// write renders events and writes them in one go.
func (p *podWatch) write(events []output.Event) error {
	var buf bytes.Buffer
	failed := p.options.printer.Print(&buf, events)
	p.terminal.Progress("") // it may be the same terminal
	if _, err := p.out.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return failed
}
