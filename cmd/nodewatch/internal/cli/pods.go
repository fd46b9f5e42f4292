package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/democluster"
	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/output"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// nodeVariable is what a node agent's pod has its node's name in, by the
// downward API. Only the command reads it, never a library.
const nodeVariable = "NODE_NAME"

// podsOptions are the flags of pods. The fields under "from the flags" are
// filled by complete.
type podsOptions struct {
	connection connection
	log        logFlags

	nodes         []string
	allNodes      bool
	namespace     string
	allNamespaces bool
	labelSelector string
	fieldSelector string
	demo          bool

	format      string
	watchEvents bool
	once        bool

	initial, encoding, protocol *choice
	pageSize                    int64

	idleTimeout, watchTimeout, requestTimeout, syncTimeout time.Duration
	backoffMin, backoffMax                                 time.Duration

	exitOnDisconnect bool
	metricsAddr      string

	// From the flags.
	labels  labels.Selector
	fields  fields.Selector
	printer output.Printer
}

func newPods(name string, s *streams) *cobra.Command {
	o := &podsOptions{}
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "List and watch the pods of a node",
		Long: `Print the pods of a node and every change of them, until interrupted.

The scope is one node: all its pods, in all namespaces. -n narrows it to one
namespace, --node may be repeated, and --all-nodes lifts it. The namespace of
the kubeconfig's context is not used.

A watch that ends is resumed where it ended, a connection on which nothing comes
is replaced, and where the server cannot resume, the difference is found by a
list: what is printed is the same as if nothing had happened. Each change is
written at once. Only a reader of the output that is more than a thousand
changes behind gets the changes of one pod merged.

Exit status: 0 done or interrupted, 1 failed, 2 wrong usage.`,
		Example: examples(name, `
			# The pods of one node, as they change
			%[1]s pods --node worker-1

			# In a pod of a DaemonSet whose variable NODE_NAME has the field spec.nodeName
			%[1]s pods

			# See it work, without a cluster
			%[1]s pods --demo

			# What is there now, as kubectl get pods -A --field-selector spec.nodeName=worker-1 -o name
			%[1]s pods --node worker-1 --once -o name

			# Each change as a line of JSON, for a program
			%[1]s pods --node worker-1 -o json --output-watch-events

			# Names and phases of what an application has on two nodes
			%[1]s pods --node worker-1 --node worker-2 -l app=web -o custom-columns=NAME:.metadata.name,PHASE:.status.phase

			# In a script: fail if there is no complete list within 10 s, and when the watch ends
			%[1]s pods --node worker-1 --sync-timeout 10s --exit-on-disconnect

			# With metrics and a readiness probe on http://127.0.0.1:9102/readyz
			%[1]s pods --node worker-1 --metrics-addr :9102`),
		Args: onlyFlags,
		RunE: runs(o, s),
	}
	addGroups(cmd, o.groups()...)
	completeChoices(cmd)
	// The error is that of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	completeNothing(cmd, "node", "namespace", "selector", "field-selector", "server", "context")
	return cmd
}

func (o *podsOptions) groups() []flagGroup {
	scope := newGroup("Scope")
	scope.set.StringArrayVar(&o.nodes, "node", nil, "`NAME` of the node; may be repeated (default $"+nodeVariable+")")
	scope.set.BoolVar(&o.allNodes, "all-nodes", false, "lift the scope: the pods of all nodes, and those that have none yet")
	scope.set.StringVarP(&o.namespace, "namespace", "n", "", "only the pods of this namespace (default all namespaces)")
	scope.set.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "the pods of all namespaces, which is the default; overrides --namespace")
	scope.set.StringVarP(&o.labelSelector, "selector", "l", "", "only pods with these labels, as in app=web,tier!=cache")
	scope.set.StringVar(&o.fieldSelector, "field-selector", "", "only pods with these fields, as in status.phase=Running; the node is added")
	scope.set.BoolVar(&o.demo, "demo", false, "watch an API server with a small busy cluster that runs in this process (node "+demoNode+")")

	out := newGroup("Output (standard output)")
	out.set.StringVarP(&o.format, "output", "o", "table", "`FORMAT`: table, wide, json (one object a line), yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, "+
		"jsonpath-as-json=TEMPLATE, custom-columns=HEADER:PATH,..., custom-columns-file=FILE, go-template=TEMPLATE, go-template-file=FILE")
	out.set.BoolVar(&o.watchEvents, "output-watch-events", false, `print each object inside its event, {"type":...,"object":...}, `+
		`with "finalStateUnknown":true where a delete was found by a relist`)
	out.set.BoolVar(&o.once, "once", false, "print the list and exit; fails with the first attempt that fails, or after --sync-timeout where that is given")

	ask := newGroup("How to ask")
	o.initial = newChoice("auto", "watchlist", "list")
	ask.set.Var(o.initial, "initial", "how the collection is read first: with a watch-list where the server has it and else a list (auto), or only with one of them")
	o.encoding = newChoice("auto", "json", "protobuf")
	ask.set.Var(o.encoding, "encoding", "what to ask for: protobuf or else JSON (auto), or only one of them")
	o.protocol = newChoice("http1", "http2")
	ask.set.Var(o.protocol, "protocol", "the HTTP version: http1, or http2 where the server has it over TLS, whose pings find a stalled relay within 30s")
	ask.set.Int64Var(&o.pageSize, "page-size", 0, "items per list request (0 all in one)")

	times := newGroup("Time limits")
	times.set.DurationVar(&o.idleTimeout, "idle-timeout", 0, "longest silence on a watch before the connection counts as dead (0 follows the server's bookmarks)")
	times.set.DurationVar(&o.watchTimeout, "watch-timeout", reflector.DefaultWatchTimeout, "a watch asks the server to end it after a random time between this and twice this")
	times.set.DurationVar(&o.requestTimeout, "request-timeout", listwatch.DefaultRequestTimeout, "longest time without progress of a request that is not a watch")
	times.set.DurationVar(&o.syncTimeout, "sync-timeout", 0, "exit with status 1 when there is no complete list after this time (0 goes on trying)")
	times.set.DurationVar(&o.backoffMin, "backoff-min", 0, fmt.Sprintf("longest wait after a first failure (default %s)", reflector.DefaultBackoffMin))
	times.set.DurationVar(&o.backoffMax, "backoff-max", 0, fmt.Sprintf("longest wait after many failures (default %s)", reflector.DefaultBackoffMax))
	times.set.BoolVar(&o.exitOnDisconnect, "exit-on-disconnect", false, "exit with status 1 when a watch ends, as kubectl get -w does, instead of resuming it")

	pages := newGroup("Metrics and health")
	pages.set.StringVar(&o.metricsAddr, "metrics-addr", "", "`ADDRESS` to serve /metrics, /healthz, /readyz and /debug/reflectors on; without a host it is 127.0.0.1")

	return []flagGroup{scope, out, o.connection.group(), ask, times, pages, o.log.group()}
}

// complete checks the flags and fills in what they leave open. isSet tells
// which were given. Its errors are of wrong usage and say what to do.
func (o *podsOptions) complete(isSet func(string) bool, env func(string) string) error {
	if err := o.completeNodes(isSet, env); err != nil {
		return err
	}
	if o.allNamespaces {
		o.namespace = ""
	}
	if o.namespace != "" {
		if faults := validation.ValidateNamespaceName(o.namespace, false); len(faults) > 0 {
			return fmt.Errorf("--namespace %q is not a name of a namespace: %s", o.namespace, strings.Join(faults, "; "))
		}
	}
	if o.demo {
		if flag := o.connection.changed(isSet); flag != "" {
			return fmt.Errorf("--demo brings its own server: leave out --%s", flag)
		}
	}
	var err error
	if o.labels, err = labels.Parse(o.labelSelector); err != nil {
		return fmt.Errorf("--selector %q: %w", o.labelSelector, err)
	}
	if o.fields, err = fields.ParseSelector(o.fieldSelector); err != nil {
		return fmt.Errorf("--field-selector %q: %w", o.fieldSelector, err)
	}
	if len(o.nodes) > 0 {
		if _, err := nodefilter.OnNodes(o.nodes, o.fields); err != nil {
			return bare(err)
		}
	}
	if err := o.validateNumbers(isSet); err != nil {
		return err
	}
	if o.metricsAddr != "" {
		if o.metricsAddr, err = listenAddress("metrics-addr", o.metricsAddr); err != nil {
			return err
		}
	}
	if o.once && o.exitOnDisconnect {
		return errors.New("--once makes no watch that --exit-on-disconnect could wait for: leave out one of them")
	}
	o.printer, err = output.New(output.Options{
		Format:          o.format,
		WatchEvents:     o.watchEvents,
		NamespaceColumn: o.namespace == "",
		// In a list nothing has happened yet.
		EventColumn: !o.once || o.watchEvents,
	})
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return errors.Join(o.connection.validate(), o.log.validate())
}

// completeNodes finds the scope.
func (o *podsOptions) completeNodes(isSet func(string) bool, env func(string) string) error {
	switch {
	case o.allNodes && isSet("node"):
		return errors.New("--node and --all-nodes are both given: use one")
	case o.allNodes:
		return nil
	case !isSet("node") && o.demo:
		// The variable would name a node of another cluster.
		o.nodes = []string{demoNode}
	case !isSet("node"):
		name := env(nodeVariable)
		if name == "" {
			return fmt.Errorf("which node? Pass --node NAME, set $%s, or pass --all-nodes (kubectl get nodes lists the names)", nodeVariable)
		}
		if err := nodefilter.ValidateNodeName(name); err != nil {
			return fmt.Errorf("$%s: %w", nodeVariable, bare(err))
		}
		o.nodes = []string{name}
	}
	if slices.Contains(o.nodes, "") {
		return errors.New("--node is empty: pass the name of a node, or --all-nodes if you mean all of them")
	}
	slices.Sort(o.nodes)
	o.nodes = slices.Compact(o.nodes)
	return nil
}

// maxDuration is far above what anybody waits for and far below what overflows
// when it is doubled or added to a time.
const maxDuration = 365 * 24 * time.Hour

func (o *podsOptions) validateNumbers(isSet func(string) bool) error {
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration // 0: the default stands for it
	}{
		{"idle-timeout", o.idleTimeout, 0},
		{"watch-timeout", o.watchTimeout, time.Second},
		{"request-timeout", o.requestTimeout, time.Millisecond},
		{"sync-timeout", o.syncTimeout, 0},
		{"backoff-min", o.backoffMin, reflector.MinBackoff},
		{"backoff-max", o.backoffMax, reflector.MinBackoff},
	} {
		if isSet(d.name) && (d.value < d.least || d.value > maxDuration) {
			return fmt.Errorf("--%s is %s, it must be at least %s and at most %s", d.name, d.value, d.least, maxDuration)
		}
	}
	if isSet("backoff-min") && isSet("backoff-max") && o.backoffMin > o.backoffMax {
		return fmt.Errorf("--backoff-min %s is above --backoff-max %s", o.backoffMin, o.backoffMax)
	}
	if o.pageSize < 0 {
		return fmt.Errorf("--page-size is %d, it must be 0 or more", o.pageSize)
	}
	return nil
}

// bare takes the name of the package, which means nothing to a user, off an error of nodefilter.
func bare(err error) error { return errors.Unwrap(err) }

func (o *podsOptions) initialSync() reflector.InitialSync {
	switch o.initial.value {
	case "watchlist":
		return reflector.InitialWatchList
	case "list":
		return reflector.InitialList
	}
	return reflector.InitialAuto
}

func (o *podsOptions) encodingPolicy() listwatch.EncodingPolicy {
	switch o.encoding.value {
	case "json":
		return listwatch.EncodingJSON
	case "protobuf":
		return listwatch.EncodingProtobuf
	}
	return listwatch.EncodingAuto
}

func (o *podsOptions) httpVersion() listwatch.Protocol {
	if o.protocol.value == "http2" {
		return listwatch.HTTP2
	}
	return listwatch.HTTP1
}

// failsAtOnce reports whether the first attempt that fails ends the run.
func (o *podsOptions) failsAtOnce() bool { return o.once && o.syncTimeout == 0 }

// run does what the flags say.
func (o *podsOptions) run(ctx context.Context, s *streams) error {
	// A list that is asked for once is a short story: only what goes wrong is told.
	log := o.log.logger(s, o.once)
	if o.failsAtOnce() {
		log = slog.New(noRetries{log.Handler()})
	}
	fail := func(err error) error { return o.log.failed(err, log) }
	var err error
	p := &podWatch{options: o, log: log, out: s.out, terminal: s.err}
	if o.demo {
		cluster, err := democluster.Start(democluster.Config{Logger: log})
		if err != nil {
			return fail(err)
		}
		defer cluster.Close()
		p.rest = cluster.RESTConfig()
	} else if p.rest, err = o.connection.restConfig(); err != nil {
		return fail(err)
	}
	if err := p.run(ctx); err != nil {
		return fail(err)
	}
	return nil
}
