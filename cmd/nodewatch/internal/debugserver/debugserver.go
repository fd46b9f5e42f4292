// Package debugserver is the HTTP side of --metrics-addr: metrics, health,
// readiness and the state of the reflectors.
//
// It serves what the reflectors say of themselves and no configuration, so
// there is no token or header on any of its pages. An error is there as its
// text, which may name the server.
package debugserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/debugpage"
	"github.com/nodewatch-go/nodewatch/reflector/health"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

// Config says what to serve and where.
type Config struct {
	// Addr is HOST:PORT.
	Addr string
	// Registry holds the reflectors that are shown.
	Registry *reflector.Registry
	// Expected is how many reflectors must run and be ready before the process is.
	Expected int
	// MaxAge is how old the knowledge of a ready process may be; a request
	// may ask for less or more with ?max-age=DURATION.
	MaxAge time.Duration
	Logger *slog.Logger

	// NotReady, when set, is another reason for the process not to be ready; "" for none.
	NotReady func() string
	// Pages are further pages of JSON, by path. What they show must have no secrets.
	Pages map[string]func() any
	// Collectors are served beside the reflectors' metrics.
	Collectors []prometheus.Collector
}

// Server is a listening server.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{}
}

// Start listens and serves until Close. A port that is taken is an error here.
func Start(c Config) (*Server, error) {
	handler, err := Handler(c)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Server{
		listener: listener,
		done:     make(chan struct{}),
		http: &http.Server{
			Handler: handler,
			// A page is small and made at once: whoever is slower than this
			// holds a connection for its own sake.
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
		},
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.Logger.Error("the metrics server stopped", "err", err)
		}
	}()
	return s, nil
}

// Addr is where the server listens: with port 0 the one that was chosen.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

// Handler returns the pages.
func Handler(c Config) (http.Handler, error) {
	reg := prometheus.NewRegistry()
	if err := errors.Join(
		metrics.Register(reg, c.Registry),
		reg.Register(collectors.NewGoCollector()),
		reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	for _, collector := range c.Collectors {
		if err := reg.Register(collector); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	readiness, err := health.New(health.Config{Registry: c.Registry, AtLeast: c.Expected, MaxAge: c.MaxAge, Also: c.also})
	if err != nil {
		return nil, err
	}
	reflectors, err := debugpage.New(debugpage.Config{Registry: c.Registry, MaxAge: c.MaxAge, Title: "nodewatch: reflectors"})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.Handle("GET /healthz", health.Live())
	mux.Handle("GET /readyz", readiness)
	mux.Handle("GET /debug/reflectors", reflectors)
	index := "nodewatch\n\n/metrics\n/healthz\n/readyz?max-age=30s\n/debug/reflectors"
	for _, path := range slices.Sorted(maps.Keys(c.Pages)) {
		page(mux, path, c.Pages[path])
		index += "\n" + path
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, index) // the reader went away
	})
	return mux, nil
}

// also is the caller's reason not to be ready.
func (c Config) also() error {
	if c.NotReady != nil {
		if why := c.NotReady(); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// page serves what content returns as JSON.
func page(mux *http.ServeMux, path string, content func() any) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(content()) // the reader went away
	})
}
