package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// unstarted is a run of pods whose reflectors were built and do nothing.
func unstarted(t *testing.T, config *rest.Config, args ...string) *podWatch {
	t.Helper()
	o := &podsOptions{}
	set := newGroup("all").set
	for _, g := range o.groups() {
		set.AddFlagSet(g.set)
	}
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.complete(set.Changed, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	p := &podWatch{options: o, rest: config, log: slog.New(slog.DiscardHandler)}
	if err := p.build(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestShowProgress: a person at a terminal sees after a second that a first list
// takes long, and no line is left when it ends. Nobody else sees anything.
func TestShowProgress(t *testing.T) {
	for _, c := range []struct {
		tty    bool
		format string
		after  time.Duration
		want   string // the last line that was shown
	}{
		{true, "text", 900 * time.Millisecond, ""},
		{true, "text", 3300 * time.Millisecond, "waiting for the first list (3s), 0 of 2 nodes complete"},
		{true, "json", time.Minute, ""},
		{false, "text", time.Minute, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := unstarted(t, &rest.Config{Host: "http://127.0.0.1:1"}, "--node", "a", "--node", "b", "--log-format", c.format)
			var buf bytes.Buffer
			p.terminal = &terminal{w: &buf, tty: c.tty, width: func() int { return 80 }}
			ctx, cancel := context.WithTimeout(t.Context(), c.after)
			defer cancel()
			p.showProgress(ctx)
			lines := strings.Split(buf.String(), clearLine)
			if got := lines[len(lines)-1]; got != c.want {
				t.Errorf("%+v: it shows %q", c, got)
			}
		})
	}
}

// TestNotSynced: the reason why there is no list names each node, and what may
// hold it up where nothing came back.
func TestNotSynced(t *testing.T) {
	p := unstarted(t, &rest.Config{Host: "http://127.0.0.1:1"}, "--node", "b", "--node", "a")
	if got, want := fmt.Sprint(p.notSynced(2*time.Second)), "no complete list within 2s: a: no complete answer yet; b: no complete answer yet"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p = unstarted(t, &rest.Config{Host: "http://127.0.0.1:1", ExecProvider: &clientcmdapi.ExecConfig{
		Command: "aws", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}, "--all-nodes")
	if got, want := fmt.Sprint(p.notSynced(time.Second)), "no complete list within 1s: no complete answer yet; the credential plugin aws may be waiting for something"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
