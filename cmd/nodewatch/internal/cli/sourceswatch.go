package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/debugserver"
	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/logging"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig/metrics"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// sourcesWatch is one run of the command sources.
type sourcesWatch struct {
	options  *sourcesOptions
	log      *slog.Logger
	out      io.Writer
	terminal *terminal

	// Where pods come from; rest is nil for no API server.
	rest   *rest.Config
	paths  []string
	url    string
	period time.Duration // of the URL; 0 is the default

	registry reflector.Registry
	config   *podconfig.PodConfig
}

// run returns nil when it is interrupted.
func (w *sourcesWatch) run(ctx context.Context) error {
	if w.options.demo {
		scene, err := startScene(ctx, w.log)
		if err != nil {
			return err
		}
		defer scene.Close()
		w.rest, w.paths, w.url, w.period = scene.cluster.RESTConfig(), []string{scene.folder}, scene.url, scenePeriod
	} else if !w.options.standalone {
		config, err := w.options.connection.restConfig()
		if err != nil {
			return err
		}
		w.rest = config
	}
	if err := w.build(); err != nil {
		return err
	}
	if w.options.metricsAddr != "" {
		pages, err := w.serve()
		if err != nil {
			return err
		}
		defer pages.Close()
		w.log.Info("serving metrics and health", "url", "http://"+pages.Addr().String()+"/")
	}
	return w.watch(ctx)
}

// build makes the sources and the merge. It sends nothing.
func (w *sourcesWatch) build() error {
	o := w.options
	var sources []podconfig.Producer
	if w.rest != nil {
		gate := podconfig.GateOnNode
		if !o.nodeGate {
			gate = podconfig.GateOff
		}
		api, err := podconfig.NewAPIServer(podconfig.APIServerConfig{
			Pods: nodefilter.Config{REST: w.rest, Node: o.node, Name: o.node, Registry: &w.registry, Logger: w.log},
			Gate: gate, Behaviour: o.behaviour, Logger: w.log,
		})
		if err != nil {
			return connectionError(err)
		}
		sources = append(sources, api)
	}
	if len(w.paths) > 0 {
		files, err := podconfig.NewFiles(podconfig.FileConfig{Paths: w.paths, Node: o.node, Behaviour: o.behaviour, Logger: w.log})
		if err != nil {
			return fmt.Errorf("--pod-manifest-path: %w", err)
		}
		sources = append(sources, files)
	}
	if w.url != "" {
		header, err := podconfig.ParseURLHeaders(o.urlHeaders)
		if err != nil {
			return fmt.Errorf("--manifest-url-header: %w", err)
		}
		url, err := podconfig.NewURL(podconfig.URLConfig{URL: w.url, Header: header, Node: o.node, Period: w.period, Behaviour: o.behaviour, Logger: w.log})
		if err != nil {
			return fmt.Errorf("--manifest-url: %w", err)
		}
		sources = append(sources, url)
	}
	var err error
	w.config, err = podconfig.New(podconfig.Config{Sources: sources, Behaviour: o.behaviour, Logger: w.log})
	return err
}

// serve starts the pages of --metrics-addr.
func (w *sourcesWatch) serve() (*debugserver.Server, error) {
	c := debugserver.Config{
		Addr: w.options.metricsAddr, Registry: &w.registry, MaxAge: reflector.DefaultIdleTimeout + time.Minute, Logger: w.log,
		Pages:      map[string]func() any{"/debug/sources": func() any { return w.config.Status() }},
		NotReady:   w.notReady,
		Collectors: []prometheus.Collector{metrics.NewCollector(w.config)},
	}
	if w.rest != nil {
		c.Expected = 1
	}
	return debugserver.Start(c)
}

// notReady names the sources that were not seen, "" for none.
func (w *sourcesWatch) notReady() string {
	if w.config.SeenAllSources() {
		return ""
	}
	var missing bytes.Buffer
	for _, s := range w.config.Status().Sources {
		if !s.Told {
			fmt.Fprintf(&missing, " %s", s.Source)
		}
	}
	return "sources not seen yet:" + missing.String()
}

// watch runs the sources and prints what they say.
func (w *sourcesWatch) watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	asked, forget := stateAsked()
	defer forget()

	ran := make(chan error, 1)
	go func() { ran <- w.config.Run(ctx) }()
	// The printer is not waited for when it writes to a pipe that nobody reads.
	printed := make(chan error, 1)
	go func() { printed <- quiet(w.print()) }()
	for {
		select {
		case <-asked:
			w.printState()
		case err := <-printed:
			// Nothing comes any more, or nobody reads it.
			stop()
			return errors.Join(err, awaitRun(ran))
		case err := <-ran:
			select {
			case printErr := <-printed:
				return errors.Join(err, printErr)
			case <-time.After(printGrace):
				return err
			}
		}
	}
}

// awaitRun bounds the wait for the sources, which promise to need a tenth of it.
func awaitRun(ran <-chan error) error {
	select {
	case err := <-ran:
		return err
	case <-time.After(stopGrace):
		return nil
	}
}

// print writes each update as it comes, until there are no more.
func (w *sourcesWatch) print() error {
	printer := newSourcePrinter(w.options.format.value)
	var buf bytes.Buffer
	for u := range w.config.Updates() {
		buf.Reset()
		if err := printer.print(&buf, u); err != nil {
			return err
		}
		if _, err := w.out.Write(buf.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// printState writes the state of each source to standard error.
func (w *sourcesWatch) printState() {
	st := w.config.Status()
	var b bytes.Buffer
	fmt.Fprintf(&b, "sources of node %s: all seen %t, %d pods pending, %d versions merged\n", w.options.node, st.Ready, st.Pending, st.Merged)
	for _, s := range st.Sources {
		fmt.Fprintf(&b, "  %s: seen %t, %d pods", s.Source, s.Own.Seen, s.Own.Pods)
		if !s.Own.LastChange.IsZero() {
			fmt.Fprintf(&b, ", last change %s ago", time.Since(s.Own.LastChange).Round(time.Millisecond))
		}
		fmt.Fprintln(&b)
		for _, e := range s.Own.Errors {
			fmt.Fprintf(&b, "    fault: %s: %s (%d times since %s)\n", logging.OneLine(e.Where), logging.OneLine(e.Message), e.Count, e.Since.Format(time.TimeOnly))
		}
		for _, r := range s.Refused {
			fmt.Fprintf(&b, "    refused: %s/%s: %s\n", logging.OneLine(r.Namespace), logging.OneLine(r.Name), logging.OneLine(r.Reason))
		}
	}
	for _, c := range st.Conflicts {
		fmt.Fprintf(&b, "  conflict: %s/%s is in the sources %v\n", logging.OneLine(c.Namespace), logging.OneLine(c.Name), c.Sources)
	}
	_, _ = w.terminal.Write(b.Bytes()) // never fails
}
