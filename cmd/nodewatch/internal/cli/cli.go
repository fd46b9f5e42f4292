package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/logging"
)

// The exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs the command line args, whose first word is the program, and
// returns the exit status. The first SIGINT or SIGTERM ends it in order, the
// second at once.
func Main(args []string, stdout, stderr *os.File) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // gives the second signal its default action back

	// Go ends a program that writes to a closed standard output, with a status
	// that says so. Asking for the signal makes the write fail with EPIPE instead.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	ctx, cancel := context.WithCancel(ctx)
	go func() {
		if readerGone(ctx, stdout) {
			cancel() // as an interrupt: there is nobody to write for
		}
	}()
	defer cancel()
	return run(ctx, args, &streams{out: stdout, err: newTerminal(stderr)})
}

// streams is where a command writes to.
type streams struct {
	out io.Writer
	err *terminal
}

// run is Main without the process around it.
func run(ctx context.Context, args []string, s *streams) int {
	root := newRoot(programName(args), s)
	root.SetArgs(args[min(1, len(args)):])
	cmd, err := root.ExecuteContextC(ctx)
	var failure *failedError
	var notWritten *fs.PathError
	switch {
	case err == nil:
		return exitOK
	case quiet(err) == nil:
		return exitOK
	case errors.As(err, &failure):
		failure.report(s.err)
		return exitFailed
	case errors.As(err, &notWritten):
		// What cobra itself prints, such as a completion script.
		(&failedError{err: err}).report(s.err)
		return exitFailed
	}
	// What did not come out of a command's own work is about how it was called.
	fmt.Fprintf(s.err, "error: %s\n", errorLine(err))
	fmt.Fprintf(s.err, "See '%s --help' for usage.\n", cmd.CommandPath())
	return exitUsage
}

// programName is how the user calls us: "kubectl nodewatch" when we are
// installed as a plugin of kubectl, which looks for kubectl-nodewatch.
func programName(args []string) string {
	if len(args) == 0 {
		return "nodewatch"
	}
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "nodewatch"
}

// newRoot returns the whole tree of commands.
func newRoot(name string, s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:         "nodewatch",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:       "Watch the pods of a node",
		Long: `nodewatch lists and watches the pods of a node from a Kubernetes API server and
prints each change as it happens. It resumes a watch that ended, notices a
connection that died silently, and prints no event twice.`,
		Example: examples(name, `
			# See it work, without a cluster
			%[1]s pods --demo

			# The pods of one node, as they change
			%[1]s pods --node worker-1`),
		// With a RunE an unknown word is an error, and not a reason to print this help.
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(newPods(name, s), newSources(name, s), newServe(name, s), newBench(name, s), newVersion(s))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = root.RunE // so that a shell it does not know is an error here, too
		}
	}
	return root
}

// onlyFlags refuses words beside the flags. It is most often the node that
// stands there, since kubectl takes names so.
func onlyFlags(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("node") != nil:
		return fmt.Errorf("unexpected word %q: there are only flags, and --node NAME names the node", args[0])
	default:
		return fmt.Errorf("unexpected word %q: there are only flags", args[0])
	}
}

// examples indents the examples of a command and puts the program's name in.
func examples(name, text string) string {
	lines := strings.Split(strings.Trim(fmt.Sprintf(text, name), "\n"), "\n")
	for i, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			line = "  " + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// failedError is a command that was called rightly and did not succeed.
type failedError struct {
	err error
	// log is set when standard error is read by a program.
	log *slog.Logger
}

func (e *failedError) Error() string { return e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

// report writes the line of standard error that says why.
func (e *failedError) report(w io.Writer) {
	if e.log != nil {
		e.log.Error(e.err.Error())
		return
	}
	fmt.Fprintf(w, "error: %s\n", errorLine(e.err))
}

// errorLine is an error's text on one line. It may repeat what a file or a
// server says, and nothing of that is for the terminal.
func errorLine(err error) string {
	return logging.OneLine(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
}
