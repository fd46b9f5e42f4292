package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// The bounds of what bench measures: 100,000 pods are about 2 GB in this process, and
// the events of one run have resourceVersions of seven digits.
const (
	maxBenchPods   = 100_000
	maxBenchEvents = 1_000_000
)

// benchOptions are the flags of bench.
type benchOptions struct {
	encoding *choice
	pods     int
	events   int
	output   *choice
}

func newBench(name string, s *streams) *cobra.Command {
	o := &benchOptions{encoding: newChoice("both", "json", "protobuf"), output: newChoice("table", "json")}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure list and watch on this machine",
		Long: `Measure how fast pods are listed and watched on this machine, over HTTP/1.1 on a
loopback port, into a store. It takes about ten seconds and needs no cluster.

The server is in this process and replays what was encoded before: made-up pods
of about 9 KB of JSON or 6 KB of protobuf, and events that change what the
events of real pods change. managedFields are dropped while decoding.

  PER SECOND  pods of the list, or events of the watch, that were stored
  READ ONLY   the same, read by an HTTP client that throws them away: what
              server and loopback allow on this machine
  US          microseconds for one
  MB/S        of the encoded bytes
  HEAP/POD    bytes of the store when all is listed

Other work on the machine makes the figures smaller. The comparison with
client-go is make bench, in the source.

Exit status: 0 done or interrupted, 1 failed, 2 wrong usage.`,
		Example: examples(name, `
			# Both encodings
			%[1]s bench

			# A larger cluster, in JSON, for a program
			%[1]s bench --pods 50000 --encoding json -o json`),
		Args: onlyFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.run(cmd, s); err != nil && cmd.Context().Err() == nil {
				return &failedError{err: err}
			}
			return nil // an interrupt is a way to end it
		},
	}
	g := newGroup("What to measure")
	g.set.Var(o.encoding, "encoding", "which encoding")
	g.set.IntVar(&o.pods, "pods", 10_000, "how many pods the list has")
	g.set.IntVar(&o.events, "events", 30_000, "how many events the watch has")
	out := newGroup("Output")
	out.set.VarP(o.output, "output", "o", "form of the output; json is one object a line")
	addGroups(cmd, g, out)
	completeChoices(cmd)
	return cmd
}

// validate returns errors of wrong usage.
func (o *benchOptions) validate() error {
	if o.pods < 1 || o.pods > maxBenchPods {
		return fmt.Errorf("--pods is %d, it must be 1 to %d", o.pods, maxBenchPods)
	}
	if o.events < 1 || o.events > maxBenchEvents {
		return fmt.Errorf("--events is %d, it must be 1 to %d", o.events, maxBenchEvents)
	}
	return nil
}

// mediaTypes are those to measure, by name.
func (o *benchOptions) mediaTypes() []benchEncoding {
	all := []benchEncoding{{"json", specimen.JSON}, {"protobuf", specimen.Protobuf}}
	for _, e := range all {
		if e.name == o.encoding.value {
			return []benchEncoding{e}
		}
	}
	return all
}

func (o *benchOptions) run(cmd *cobra.Command, s *streams) error {
	table := newBenchTable(s.out)
	for _, e := range o.mediaTypes() {
		s.err.Progress("measuring " + e.name)
		rows, err := measure(cmd.Context(), e, o.pods, o.events)
		s.err.Progress("")
		if err != nil {
			return fmt.Errorf("measuring %s: %w", e.name, err)
		}
		for _, row := range rows {
			if o.output.value == "json" {
				err = json.NewEncoder(s.out).Encode(row)
			} else {
				err = table.row(row)
			}
			if err != nil {
				return err
			}
		}
	}
	return table.w.Flush()
}

// benchTable prints rows as columns; the header comes with the first one.
type benchTable struct {
	w     *tabwriter.Writer
	begun bool
}

func newBenchTable(out io.Writer) *benchTable {
	return &benchTable{w: tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)}
}

func (t *benchTable) row(r benchRow) error {
	if !t.begun {
		t.begun = true
		fmt.Fprintln(t.w, "WHAT\tENCODING\tITEMS\tPER SECOND\tREAD ONLY\tUS\tMB/S\tHEAP/POD") // Flush has the error
	}
	heap := ""
	if r.HeapPerPod > 0 {
		heap = fmt.Sprint(r.HeapPerPod)
	}
	fmt.Fprintf(t.w, "%s\t%s\t%d\t%.0f\t%.0f\t%.1f\t%.0f\t%s\n", r.What, r.Encoding, r.Items, r.PerSecond, r.ReadOnlyPerSecond,
		1e6/r.PerSecond, r.BytesPerSecond/1e6, heap)
	return nil
}
