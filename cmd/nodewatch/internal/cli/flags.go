package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/klog/v2"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/logging"
)

// flagGroup is a heading of the help text with the flags under it.
type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

func newGroup(title string) flagGroup {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	return flagGroup{title, set}
}

// addGroups gives cmd the flags of groups, and a help text that shows them so.
func addGroups(cmd *cobra.Command, groups ...flagGroup) {
	cmd.Flags().SortFlags = false
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.set)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		width := 100
		if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns >= 60 {
			width = min(columns, 120)
		}
		for _, g := range groups {
			fmt.Fprintf(w, "\n%s:\n%s", g.title, g.set.FlagUsagesWrapped(width))
		}
		return nil
	})
}

// choice is a flag that takes one word of a set.
type choice struct {
	value   string
	allowed []string
}

// newChoice returns a flag whose default is the first of allowed.
func newChoice(allowed ...string) *choice { return &choice{value: allowed[0], allowed: allowed} }

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be one of: %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}

// completeChoices offers the words of each choice among the flags to the shell.
func completeChoices(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*choice); ok {
			// The error is that of a second registration.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

// completeNothing has the shell offer no files for these flags. They are flags of cmd.
func completeNothing(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		// The error is that of a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(f, cobra.NoFileCompletions)
	}
}

// watching is a command with options that depend on each other and on the environment.
type watching interface {
	complete(isSet func(string) bool, env func(string) string) error
	run(ctx context.Context, s *streams) error
}

// runs is what such a command does: its errors are of wrong usage until it runs.
func runs(o watching, s *streams) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(cmd.Flags().Changed, os.Getenv); err != nil {
			return err
		}
		return o.run(cmd.Context(), s)
	}
}

// listenAddress completes an address to listen on: without a host it means
// loopback, so that nothing is shown to the network by accident.
func listenAddress(flag, value string) (string, error) {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return "", fmt.Errorf("--%s %q is not HOST:PORT or :PORT (which is 127.0.0.1:PORT)", flag, value)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("--%s %q has no port from 0 to 65535", flag, value)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// logFlags are those of the log.
type logFlags struct {
	format    *choice
	verbosity int
}

func (l *logFlags) group() flagGroup {
	g := newGroup("Log (standard error)")
	l.format = newChoice(logging.Formats()...)
	g.set.Var(l.format, "log-format", "form of the log: text for people, json one object a line")
	g.set.IntVarP(&l.verbosity, "v", "v", 0, "how much is logged: 0 what an operator should know, 1 each request, 2 and more the details")
	return g
}

func (l *logFlags) validate() error {
	if l.verbosity < 0 {
		return fmt.Errorf("-v is %d, it must be 0 or more", l.verbosity)
	}
	return nil
}

// logger returns the log that the flags describe, and makes client-go use it.
// A quiet one leaves out what is only information, unless -v asks for more.
func (l *logFlags) logger(s *streams, quiet bool) *slog.Logger {
	verbosity := l.verbosity
	if quiet && verbosity == 0 {
		verbosity = -1
	}
	log := logging.New(s.err, l.format.value, verbosity)
	// klog's own verbosity stays 0: with a higher one it prints requests.
	klog.SetSlogLogger(log.With("from", "client-go"))
	return log
}

// failed marks err as a failure, to be reported in the form of the log.
func (l *logFlags) failed(err error, log *slog.Logger) error {
	f := &failedError{err: err}
	if l.format.value == "json" {
		f.log = log
	}
	return f
}
