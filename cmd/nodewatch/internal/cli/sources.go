package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// sourcesOptions are the flags of sources. The fields under "from the flags" are
// filled by complete.
type sourcesOptions struct {
	connection connection
	log        logFlags

	node       string
	manifests  []string
	url        string
	urlHeaders []string
	standalone bool
	nodeGate   bool
	kubelet    bool
	demo       bool

	format      *choice
	metricsAddr string

	// From the flags.
	behaviour podconfig.Behaviour
}

func newSources(name string, s *streams) *cobra.Command {
	o := &sourcesOptions{}
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "Merge the pods of a node from the kubelet's sources",
		Long: `Print what a kubelet would be told about the pods of its node, until interrupted:
those that the API server has for it, those of manifest files and those of a
manifest URL, merged.

Each line is one operation on one pod: ADD, UPDATE (spec, labels or annotations
changed, or its manifest was edited), DELETE (it is to end: its deletionTimestamp is
set), RECONCILE (only its status changed) or REMOVE, with the source, the pod, and what
changed; the ADD of a pod that takes over a name, as one that is made anew, says what
is different. The first ADD of a source is marked initial; a source without pods has
one without a pod.

A manifest that is not valid is named on standard error with its line, and
leaves the pod as it was. On Unix, SIGUSR1 prints the state of each source.

Exit status: 0 interrupted, 1 failed, 2 wrong usage.`,
		Example: examples(name, `
			# See it work, without a cluster
			%[1]s sources --demo

			# What a kubelet with static pods sees
			%[1]s sources --node worker-1 --pod-manifest-path /etc/kubernetes/manifests

			# Only files and a URL, no API server
			%[1]s sources --node worker-1 --standalone --pod-manifest-path ./manifests --manifest-url https://config.example/pods.yaml

			# Each operation as a line of JSON, for a program
			%[1]s sources --node worker-1 -o json

			# The state of each source
			kill -USR1 $(pgrep -f 'nodewatch sources')`),
		Args: onlyFlags,
		RunE: runs(o, s),
	}
	addGroups(cmd, o.groups()...)
	completeChoices(cmd)
	completeNothing(cmd, "node", "server", "context", "manifest-url", "manifest-url-header")
	return cmd
}

func (o *sourcesOptions) groups() []flagGroup {
	from := newGroup("Sources")
	from.set.StringVar(&o.node, "node", "", "`NAME` of the node (default $"+nodeVariable+")")
	from.set.StringArrayVar(&o.manifests, "pod-manifest-path", nil, "`DIRECTORY` of manifests, or a single one; may be repeated")
	from.set.StringVar(&o.url, "manifest-url", "", "`URL` of a Pod or a PodList")
	from.set.StringArrayVar(&o.urlHeaders, "manifest-url-header", nil, "`NAME:VALUE` of a header for --manifest-url; may be repeated")
	from.set.BoolVar(&o.standalone, "standalone", false, "no API server: only files and the URL")
	from.set.BoolVar(&o.nodeGate, "wait-for-node", true, "ask for pods only when the API server has the Node; needs the right to get, list and watch it")
	from.set.BoolVar(&o.kubelet, "kubelet-compatible", false, "do as the kubelet does where nodewatch does better (docs/podsources.md has the list)")
	from.set.BoolVar(&o.demo, "demo", false, "with an API server, a manifest file and a URL that run in this process (node "+demoNode+")")

	out := newGroup("Output (standard output)")
	o.format = newChoice("table", "json")
	out.set.VarP(o.format, "output", "o", "form: table, or json with one object for each operation on a pod")

	pages := newGroup("Metrics and health")
	pages.set.StringVar(&o.metricsAddr, "metrics-addr", "", "`ADDRESS` to serve /metrics, /healthz, /readyz, /debug/sources and /debug/reflectors on; without a host it is 127.0.0.1")

	return []flagGroup{from, out, o.connection.group(), pages, o.log.group()}
}

// complete checks the flags and fills in what they leave open. isSet tells
// which were given. Its errors are of wrong usage and say what to do.
func (o *sourcesOptions) complete(isSet func(string) bool, env func(string) string) error {
	if err := o.completeNode(isSet, env); err != nil {
		return err
	}
	connection := o.connection.changed(isSet)
	switch {
	case o.demo && connection != "":
		return fmt.Errorf("--demo brings its own server: leave out --%s", connection)
	case o.demo && (isSet("pod-manifest-path") || isSet("manifest-url") || isSet("manifest-url-header") || o.standalone):
		return errors.New("--demo brings its own sources: leave out --pod-manifest-path, --manifest-url, --manifest-url-header and --standalone")
	case o.standalone && connection != "":
		return fmt.Errorf("--standalone means no API server: leave out --%s", connection)
	case o.standalone && len(o.manifests) == 0 && o.url == "":
		return errors.New("--standalone leaves no source: give --pod-manifest-path or --manifest-url")
	case len(o.urlHeaders) > 0 && o.url == "":
		return errors.New("--manifest-url-header is for --manifest-url, which is not given")
	}
	if isSet("manifest-url") && o.url == "" {
		return errors.New("--manifest-url is empty: give a URL, or leave it out")
	}
	for _, path := range o.manifests {
		if path == "" {
			return errors.New("--pod-manifest-path is empty: give a directory or a file, or leave it out")
		}
	}
	if _, err := podconfig.ParseURLHeaders(o.urlHeaders); err != nil {
		return fmt.Errorf("--manifest-url-header: %s", strings.TrimPrefix(err.Error(), "podconfig: "))
	}
	if o.url != "" {
		if _, err := podconfig.NewURL(podconfig.URLConfig{URL: o.url, Node: o.node}); err != nil {
			return fmt.Errorf("--manifest-url: %s", strings.TrimPrefix(err.Error(), "podconfig.URLConfig."))
		}
	}
	o.behaviour = podconfig.Improved
	if o.kubelet {
		o.behaviour = podconfig.KubeletCompatible
	}
	if o.metricsAddr != "" {
		var err error
		if o.metricsAddr, err = listenAddress("metrics-addr", o.metricsAddr); err != nil {
			return err
		}
	}
	return errors.Join(o.connection.validate(), o.log.validate())
}

func (o *sourcesOptions) completeNode(isSet func(string) bool, env func(string) string) error {
	flag := "--node"
	switch {
	case isSet("node"):
	case o.demo:
		// The variable would name a node of another cluster.
		o.node = demoNode
	default:
		if o.node = env(nodeVariable); o.node == "" {
			return fmt.Errorf("which node? Pass --node NAME, or set $%s", nodeVariable)
		}
		flag = "$" + nodeVariable
	}
	if err := nodefilter.ValidateNodeName(o.node); err != nil {
		return fmt.Errorf("%s: %w", flag, bare(err))
	}
	return nil
}

// run does what the flags say.
func (o *sourcesOptions) run(ctx context.Context, s *streams) error {
	log := o.log.logger(s, false)
	w := &sourcesWatch{options: o, log: log, out: s.out, terminal: s.err, paths: o.manifests, url: o.url}
	if err := w.run(ctx); err != nil {
		return o.log.failed(err, log)
	}
	return nil
}
