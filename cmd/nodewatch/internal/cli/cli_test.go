package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call runs a command line in this process.
func call(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(ctx, append([]string{"nodewatch"}, args...), &streams{out: &out, err: &terminal{w: &err}})
	return status, out.String(), err.String()
}

// TestDocumentedFlags compares docs/cli.md with the commands.
func TestDocumentedFlags(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../../../docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := documentedFlags(string(page))
	root := newRoot("nodewatch", &streams{out: &bytes.Buffer{}, err: &terminal{w: &bytes.Buffer{}}})
	for _, cmd := range root.Commands() {
		if slices.Contains([]string{"help", "completion"}, cmd.Name()) {
			continue // cobra's
		}
		var have []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				have = append(have, described(f))
			}
		})
		want := documented[cmd.Name()]
		slices.Sort(have)
		slices.Sort(want)
		for _, f := range have {
			if !slices.Contains(want, f) {
				t.Errorf("%s has the flag %q, docs/cli.md does not", cmd.Name(), f)
			}
		}
		for _, f := range want {
			if !slices.Contains(have, f) {
				t.Errorf("docs/cli.md gives %s the flag %q, which it has not", cmd.Name(), f)
			}
		}
		if !strings.Contains(string(page), "| `nodewatch "+cmd.Name()) {
			t.Errorf("docs/cli.md does not list the command %s", cmd.Name())
		}
		if cmd.Long == "" || cmd.Name() != "version" && cmd.Example == "" {
			t.Errorf("%s has no long help or no examples", cmd.Name())
		}
	}
}

func described(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// documentedFlags returns the flags of the tables under each "## nodewatch COMMAND".
func documentedFlags(page string) map[string][]string {
	flags := map[string][]string{}
	row := regexp.MustCompile("^\\| (?:`-(\\w)`, )?`--([a-z-]+)")
	command := ""
	for _, line := range strings.Split(page, "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			command, _ = strings.CutPrefix(name, "nodewatch ")
		}
		if m := row.FindStringSubmatch(line); m != nil {
			f := "--" + m[2]
			if m[1] != "" {
				f = "-" + m[1] + ", " + f
			}
			flags[command] = append(flags[command], f)
		}
	}
	return flags
}

// TestDocumentedFormats: the page and the help of -o have every format.
func TestDocumentedFormats(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../../../docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	o := &podsOptions{}
	var usage string
	for _, g := range o.groups() {
		if f := g.set.Lookup("output"); f != nil {
			usage = f.Usage
		}
	}
	for _, format := range output.Formats() {
		if !regexp.MustCompile("[`]" + regexp.QuoteMeta(format) + "[`=]").Match(page) {
			t.Errorf("docs/cli.md does not have the format %s", format)
		}
		if !strings.Contains(usage, format) {
			t.Errorf("the help of -o does not have the format %s", format)
		}
	}
}

// TestAnyFlagValue: no value of any flag makes a panic, a stack trace or a
// status that is not documented. Nothing listens on the server's port, so each
// call is short.
func TestAnyFlagValue(t *testing.T) {
	values := []string{"", "0", "-1", "1", "1ns", "9223372036854775807", "9223372036854775808", "292y", "-292000h", "2562047h47m16.854775807s", "true", "a=b", "=", "!", "a,b",
		"/", ".", "../..", "http://", "http://[::1", "https://127.0.0.1:1/%zz", "127.0.0.1:1", ":0", ":-1", "[::1]:0", "jsonpath={..}", "jsonpath={.a[", "custom-columns=:", "go-template={{template \"x\"}}",
		"metadata.name!=", "a in (b", "\x00", "\xff\xfe", strings.Repeat("x", 5000), "%s%n", "$(id)", "-", "--", "日本"}
	base := []string{"pods", "--node", "a", "--server", "http://127.0.0.1:1", "--once"}
	o := &podsOptions{}
	for _, g := range o.groups() {
		g.set.VisitAll(func(f *pflag.Flag) {
			if f.Name == "demo" || f.Name == "once" {
				return // the one listens, without the other it would go on
			}
			for _, value := range values {
				arg := "--" + f.Name + "=" + value
				status, stdout, stderr := call(t.Context(), append(slices.Clone(base), arg)...)
				if status != exitFailed && status != exitUsage {
					t.Errorf("%q: status %d\n%s", arg, status, stderr)
				}
				if stdout != "" {
					t.Errorf("%q: standard output has %q", arg, stdout)
				}
				if strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "panic") || strings.Contains(stderr, ".go:") {
					t.Errorf("%q: a stack trace:\n%s", arg, stderr)
				}
				if strings.TrimSpace(stderr) == "" {
					t.Errorf("%q: status %d without a word", arg, status)
				}
			}
		})
	}
}

// TestSecretsInMessages: what is wrong with a URL is said without the URL.
func TestSecretsInMessages(t *testing.T) {
	for _, args := range [][]string{
		{"--server", "http://u:planted@host:port"},
		{"--server", "http://u:planted@[::1"},
		{"--server", "u:planted@host"},
		{"--server", "http://u:planted@127.0.0.1:1"},
		{"--proxy-url", "http://u:planted@[", "--server", "http://127.0.0.1:1"},
		{"--proxy-url", "ftp://u:planted@127.0.0.1:1", "--server", "http://127.0.0.1:1"},
		{"--proxy-url", "http://u:planted@127.0.0.1:1", "--server", "http://127.0.0.1:1"},
		{"--token", "planted\n", "--server", "http://127.0.0.1:1"},
	} {
		status, _, stderr := call(t.Context(), append([]string{"pods", "--node", "a", "--once", "-v=9"}, args...)...)
		if status == exitOK || strings.Contains(stderr, "planted") {
			t.Errorf("%q: status %d, standard error:\n%s", args, status, stderr)
		}
	}
}

// TestErrorsAreOneCleanLine: nothing that an error repeats reaches the terminal
// as it is. A file, a template or a server may have written it.
func TestErrorsAreOneCleanLine(t *testing.T) {
	for _, args := range [][]string{
		{"--context", "a\x1b[2Jb"},
		{"--kubeconfig", "/no/such/\x1b]0;title\x07file"},
		{"--token-file", "/no\n/such/\x1b[2Jfile"},
		{"--node", "a\x1b[2Jb"},
		{"--\x1b[2J"},
		{"-l", "\x1b[2J"},
		{"-o", "go-template={{fail\x1b[2J}}"},
	} {
		status, _, stderr := call(t.Context(), append([]string{"pods", "--node", "a", "--once", "--server", "http://127.0.0.1:1"}, args...)...)
		if status == exitOK || strings.ContainsAny(stderr, "\x1b\x07") {
			t.Errorf("%q: status %d, standard error %q", args, status, stderr)
		}
	}
	if got, want := errorLine(errors.New(" one\ntwo\x1b[2J ")), `one; two\x1b[2J`; got != want {
		t.Errorf("errorLine is %q, want %q", got, want)
	}
}

func TestProgramName(t *testing.T) {
	for arg, want := range map[string]string{
		"":                             "nodewatch",
		"/usr/bin/nodewatch":           "nodewatch",
		"cli.test":                     "nodewatch",
		"/x/kubectl-nodewatch":         "kubectl nodewatch",
		"kubectl-nodewatch.exe":        "kubectl nodewatch",
		"kubectl-node_watch":           "kubectl node-watch",
		"/x/kubectl-nodewatch-canary1": "kubectl nodewatch-canary1",
	} {
		if got := programName([]string{arg}); got != want {
			t.Errorf("programName(%q) is %q, want %q", arg, got, want)
		}
	}
	if got := programName(nil); got != "nodewatch" {
		t.Errorf("programName(nil) is %q", got)
	}
}

func TestEveryCommandHasNoFlagTwice(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		seen := map[string]string{}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no description", cmd.Name(), f.Name)
			}
			if other := seen[f.Shorthand]; f.Shorthand != "" && other != "" {
				t.Errorf("%s: -%s is %s and %s", cmd.Name(), f.Shorthand, other, f.Name)
			}
			seen[f.Shorthand] = f.Name
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot("nodewatch", &streams{out: &bytes.Buffer{}, err: &terminal{w: &bytes.Buffer{}}}))
}

// TestTerminal: what is written takes the line of progress away first, and
// the line never wraps.
func TestTerminal(t *testing.T) {
	var buf bytes.Buffer
	term := &terminal{w: &buf, tty: true, width: func() int { return 10 }}
	term.Progress("listing: 1000 pods")
	fmt.Fprint(term, "log\n")
	term.Progress("short")
	term.Progress("")
	fmt.Fprint(term, "log\n")
	if got, want := buf.String(), "listing: "+clearLine+"log\nshort"+clearLine+"log\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	buf.Reset()
	term = &terminal{w: &buf}
	term.Progress("no terminal")
	fmt.Fprint(term, "log\n")
	if got := buf.String(); got != "log\n" {
		t.Errorf("without a terminal it wrote %q", got)
	}
}

func TestListenAddress(t *testing.T) {
	for value, want := range map[string]string{
		":9102":          "127.0.0.1:9102",
		"0.0.0.0:9102":   "0.0.0.0:9102",
		"[::]:1":         "[::]:1",
		"localhost:0":    "localhost:0",
		"9102":           "",
		"host":           "",
		"host:http":      "",
		"host:65536":     "",
		"":               "",
		"a:b:c":          "",
		"127.0.0.1:9102": "127.0.0.1:9102",
	} {
		got, err := listenAddress("metrics-addr", value)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("listenAddress(%q) is %q, %v; want %q", value, got, err, want)
		}
	}
}
